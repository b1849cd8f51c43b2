"""The provisioning script of a host image, run whole in a folder with stubs for the programs that change a machine."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gpu_ci.gcp import host_image_pipeline as resources
from gpu_ci.gcp.gate.verdict import Verdict
from gpu_ci.gcp.host_image.build import BUILDER_STEPS

from tests.agent.fakes.google import FakeGoogle, serving
from tests.gpu_ci.gcp.host_image.builder import RUNNER, TORCH, Builder

SCRIPT = Path(resources.__file__).with_name("host_image") / "provision.sh"


@pytest.fixture
def builder(tmp_path: Path) -> Iterator[Builder]:
    with serving(FakeGoogle()) as google:
        yield Builder(tmp_path, google)


def test_shellcheck_finds_no_problem_in_the_provisioning_script() -> None:
    shellcheck = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert shellcheck, "shellcheck is not installed; run: make dev"
    done = subprocess.run([shellcheck, str(SCRIPT)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_script_changes_nothing_on_another_computer_than_a_compute_engine_vm(tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", str(SCRIPT)], capture_output=True, text=True, check=False, env={"PATH": "/usr/bin:/bin"}
    )
    assert (done.returncode, done.stderr) == (
        2,
        "provision.sh: this is not a Compute Engine VM, so nothing is changed\n",
    )
    assert not Path("/var/lib/gpu-ci-image").exists()


def test_a_provisioning_reports_its_steps_and_a_pass_in_the_form_of_a_smoke_check(builder: Builder) -> None:
    done = builder.boot()
    assert done.returncode == 0, done.stdout
    assert builder.steps(done.stdout) == list(BUILDER_STEPS)
    assert builder.google.last("gpu-smoke/verdict") == {
        "verdict": "pass",
        "exit_code": 0,
        "summary": f"runner {RUNNER}, torch {TORCH}, driver from image, docker rootless",
        "reason": "provisioned",
    }


def test_programs_are_installed_from_their_pinned_sources_in_this_order(builder: Builder) -> None:
    assert builder.verdict().outcome == "pass"
    calls = [call for call in builder.called() if not call.startswith(("systemctl mask", "systemctl unmask", "sync"))]
    options = "-qq -o DPkg::Lock::Timeout=300 -o Acquire::Retries=5"
    torch = builder.root / "var/lib/gpu-ci/torch"
    assert [call.split(" install -y")[0] for call in calls] == [
        f"apt-get {options} update",
        f"apt-get {options}",
        "python3 -c import sys; sys.exit(sys.version_info < (3, 11))",
        f"curl https://github.com/actions/runner/releases/download/v{RUNNER}/actions-runner-linux-x64-{RUNNER}.tar.gz",
        "installdependencies",
        f"python3 -m venv {torch}",
        f"python -m pip install --quiet --no-cache-dir --only-binary :all: torch=={TORCH}",
        "python -c import torch",
        "curl https://download.docker.com/linux/ubuntu/gpg",
        "curl https://nvidia.github.io/libnvidia-container/gpgkey",
        f"apt-get {options} update",
        f"apt-get {options}",
        "systemctl disable --now docker.service docker.socket containerd.service",
        "nvidia-ctk config --set nvidia-container-cli.no-cgroups --in-place",
        "apt-get clean",
        "cloud-init clean --logs",
    ]


@pytest.mark.parametrize(
    ("torch", "lock", "expected"),
    [
        (TORCH, f"torch=={TORCH} --hash=sha256:0\n", ["--require-hashes -r LOCK"]),
        (
            "9.9.9+cu126",
            "uv==1.2.3 --hash=sha256:0\n",
            ["--require-hashes -r LOCK", "--python PYTHON --torch-backend cu126 torch==9.9.9"],
        ),
    ],
)
def test_torch_or_the_uv_that_installs_it_is_checked_by_hashes(
    builder: Builder, torch: str, lock: str, expected: list[str]
) -> None:
    builder.settings["TORCH"], builder.lock = torch, lock
    assert builder.verdict().outcome == "pass"
    names = {
        str(builder.root / "var/lib/gpu-ci-image/lock"): "LOCK",
        str(builder.root / "var/lib/gpu-ci/torch/bin/python"): "PYTHON",
    }
    found = [call.split(":all: ")[1] for call in builder.called() if " :all: " in call]
    for path, name in names.items():
        found = [call.replace(path, name) for call in found]
    assert found == expected


def test_nothing_of_the_builder_machine_is_left_in_the_image(builder: Builder) -> None:
    assert builder.verdict().outcome == "pass"
    root = builder.root
    left = {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}
    runner, torch = f"opt/actions-runner/{RUNNER}", "var/lib/gpu-ci/torch"
    assert sorted(left) == [
        "etc/apt/keyrings/docker.asc",
        "etc/apt/keyrings/nvidia-container-toolkit.asc",
        "etc/apt/sources.list.d/docker.list",
        "etc/apt/sources.list.d/nvidia-container-toolkit.list",
        "etc/machine-id",
        "etc/os-release",
        f"{runner}/.gpu-agent-sha256",
        f"{runner}/bin/Runner.Listener",
        f"{runner}/bin/installdependencies.sh",
        f"{torch}/.gpu-agent-torch",
        f"{torch}/bin/python",
        f"{torch}/bin/uv",
        "var/log/syslog",
    ]
    assert (left["etc/machine-id"], left["var/log/syslog"]) == ("", "")
    assert left["etc/apt/sources.list.d/docker.list"] == (
        f"deb [signed-by={root}/etc/apt/keyrings/docker.asc] https://download.docker.com/linux/ubuntu noble stable\n"
    )


def _stub(name: str, text: str) -> Callable[[Builder], object]:
    return lambda builder: builder.tools.add(name, text)


def _python(condition: str, then: str) -> Callable[[Builder], object]:
    def change(builder: Builder) -> None:
        text = (builder.tools.folder / "python3").read_text().split("\n", 1)[1]
        builder.tools.add("python3", f"if [[ {condition} ]]; then {then}; fi\n{text}")

    return change


def _settings(**changes: str) -> Callable[[Builder], object]:
    return lambda builder: builder.settings.update(changes)


def _restarts(builder: Builder) -> None:
    builder.settings |= INSTALLER
    state = builder.root / "var/lib/gpu-ci-image"
    state.mkdir(parents=True)
    (state / "restarts").write_text("4\n")


INSTALLER = {
    "DRIVER": "installer",
    "BRANCH": "lts",
    "INSTALLER": "https://e.example/cuda_installer.pyz",
    "INSTALLER_SHA256": hashlib.sha256(b"installer").hexdigest(),
}
KEY = "A" * 40

FAILURES = [
    (_settings(RUNNER="$(touch /x)"), "no-config", "step start: gpu-image-settings has the line RUNNER=$(touch /x)"),
    (
        _stub("apt-get", '[[ $* != *update* ]] || { echo "E: no route to host"; exit 100; }'),
        "unreachable",
        "step packages: the package lists could not be read: E: no route to host",
    ),
    (
        lambda builder: (builder.tools.folder / "nvidia-smi").unlink(),
        "no-driver",
        "step driver: the base image has no nvidia-smi, and driver.source is image",
    ),
    (
        lambda builder: (
            _settings(**INSTALLER)(builder),
            _python("$2 == install_driver", "echo no gcc; exit 1")(builder),
        ),
        "no-driver",
        "step driver: cuda_installer failed: no gcc",
    ),
    (
        _settings(**{**INSTALLER, "INSTALLER_SHA256": "0" * 64}),
        "wrong-checksum",
        "step driver: https://e.example/cuda_installer.pyz has the SHA-256",
    ),
    (_restarts, "no-driver", "step driver: cuda_installer has restarted the machine 4 times"),
    (
        lambda builder: next(builder.downloads.glob("actions-runner*")).unlink(),
        "unreachable",
        f"step runner: https://github.com/actions/runner/releases/download/v{RUNNER}/actions-runner-linux-x64-",
    ),
    (
        _settings(SHA256="0" * 64),
        "wrong-checksum",
        f"step runner: actions-runner-linux-x64-{RUNNER}.tar.gz has the SHA-256",
    ),
    (
        _python("$* == *torch==*", "echo 'OSError: [Errno 28] No space left on device'; exit 1"),
        "disk-full",
        f"step torch: torch {TORCH} could not be installed: OSError: [Errno 28] No space left on device",
    ),
    (
        _stub("gpg", f"echo fpr:::::::::{KEY}:"),
        "wrong-key",
        f"step docker: https://download.docker.com/linux/ubuntu/gpg has the fingerprint {KEY}, expected 9DC858229FC7DD",
    ),
]


@pytest.mark.parametrize(("change", "reason", "text"), FAILURES)
def test_a_provisioning_that_fails_names_the_step_and_the_last_line(
    builder: Builder, change: Callable[[Builder], object], reason: str, text: str
) -> None:
    # Only the stubs, and the programs that a base image has in any case.
    programs = (
        "awk base64 bash basename cat chmod cp cut env find grep gzip mkdir rm sed sh sha256sum sleep tail tar tee"
    )
    builder.tools.only(*programs.split(), "timeout", "touch", "tr", "truncate")
    change(builder)
    found = builder.verdict()
    assert found == Verdict("fail", found.summary, "", reason)
    assert found.summary.startswith(text), found.summary


def test_the_settings_of_the_script_are_those_of_the_component(host_image_args: object) -> None:
    assert json.loads(json.dumps(resources.provision_settings(host_image_args))) == {  # type: ignore[arg-type]
        "DRIVER": "image",
        "RUNNER": "2.338.0",
        "SHA256": "af4b794c1bc41d73d40535e3fe092a39f9679cd8d965954c2aca25a05ca41d32",
        "ARCHITECTURE": "x64",
        "TORCH": "2.15.0",
        "DOCKER": "rootless",
    }
