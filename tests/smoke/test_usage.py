"""A wrong command line exits with code 64 and a message, without a traceback."""

from __future__ import annotations

import subprocess
import sys

import pytest
from gpu_smoke.__main__ import main

from .conftest import ONE_GPU, environment


def run(*args: str, **extra: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpu_smoke", *args],
        env={**environment(gpus=ONE_GPU), **extra},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("args", "first", "got"),
    [
        (["--device", "tpu"], "--device: invalid choice: 'tpu'", None),
        (["--expect-gpus", "0"], "--expect-gpus: not a number of GPUs", "'0'"),
        (["--expect-gpu", "NVIDIA"], "--expect-gpu: any GPU would match", "'NVIDIA'"),
        (["--min-compute-capability", "sm_89"], "--min-compute-capability: not a compute capability", "'sm_89'"),
        (["--deadline-sec", "0"], "--deadline-sec: not a deadline", "'0'"),
        (["--pool", "a\x1bb"], "--pool: not a name", "'a\\x1bb'"),
        (["--peers", "a,b,a"], "--peers: not the names of several machines", "'a,b,a'"),
        # The resolver has an answer for these whether a machine is there or not.
        (["--peers", "10.0.0.1,10.0.0.2"], "--peers: not the names of several machines", "'10.0.0.1,10.0.0.2'"),
        (["--json", ""], "--json: not a path", "''"),
        (["--json", "/nowhere/at/all.json"], "--json: cannot be written (No such file or directory)", None),
        (
            ["--termination-log", "/nowhere/log"],
            "--termination-log: cannot be written (No such file or directory)",
            None,
        ),
        (["--no-gpu-in", "/dev", "--json", "-", "--pool", "a"], "--no-gpu-in: runs no kernels", "'--json'"),
        (["--closed-to", "10.100.0.1:443"], "--closed-to: requires --no-gpu-in", None),
        (["--no-gpu-in", "/dev", "--closed-to", "api:443"], "--closed-to: not an address with a port", "'api:443'"),
        (["--no-gpu-in", "/nowhere"], "--no-gpu-in: cannot be read (No such file or directory)", "'/nowhere'"),
        (["--expect-gpus"], "--expect-gpus: expected one argument", None),
        (["diagnsoe"], "diagnsoe: no such command", "'diagnsoe'"),
        (["--pool", "a", "b"], "unrecognized arguments: b", None),
        (["--peers-sec", "5"], "--peers-sec: requires --peers", "'5'"),
        (["--json", "a.json", "--termination-log", "a.json"], "--termination-log: the same file as --json", None),
    ],
)
def test_wrong_usage_is_reported_and_is_no_verdict(
    args: list[str], first: str, got: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(args) == 64
    done = capsys.readouterr()
    lines = done.err.splitlines()
    assert lines[0].partition(" (choose from")[0] == f"gpu-smoke: {first}"
    if got:
        assert lines[1] == f"  got: {got}"
        assert lines[2].startswith("  expected: ")
    assert lines[-1] == "  hint: gpu-smoke --help"
    assert done.out == ""


def test_a_wrong_device_in_the_environment_is_named_as_such() -> None:
    done = run(GPU_SMOKE_DEVICE="gpu")
    assert done.returncode == 64
    assert done.stderr.startswith("gpu-smoke: GPU_SMOKE_DEVICE: unknown device\n  got: 'gpu'\n")


def test_help_has_examples_and_every_exit_code() -> None:
    done = run("--help")
    assert done.returncode == 0
    assert "examples:" in done.stdout
    codes = done.stdout.partition("exit codes:\n")[2].partition("\n\n")[0].splitlines()
    assert [line.split()[0] for line in codes] == ["0", "1", "2", "3", "4", "64"]


def test_a_broken_check_never_leaves_with_the_code_of_a_broken_gpu() -> None:
    # A child that cannot be started at all is no finding about a GPU.
    program = "import sys; from gpu_smoke.__main__ import main; sys.executable = '/nowhere'; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2
    assert done.stderr.startswith("gpu-smoke: the check itself failed: FileNotFoundError")
