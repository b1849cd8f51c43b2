"""`gpu-smoke check`: its answers about GPUs, drivers and wheels, through the command."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import IO, Any

import pytest
from gpu_catalog import data_files
from gpu_smoke.compat.data import SOURCES
from gpu_smoke.data.drivers import ORIGINS

from ..conftest import environment

GPUS = "t4, v100, p100, l4, a10g, l40s, a100, h100, h20, gh200, h200, b200, b300, rtx-pro-6000-se"
NO_KERNELS = (
    "torch 2.15.0+cu132 has no kernels for compute capability 7.0: it has sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"
)


def run(*args: str, stdout: int | IO[str] = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpu_smoke", "check", *args],
        env=environment(**{"import": "no torch is needed"}, cuinit="missing"),
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )


def answer(*args: str) -> dict[str, Any]:
    done = run(*args, "--json")
    found: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (0 if found["works"] else 2)
    assert found["schema"] == "smoke-check/1"
    return found


def test_a_combination_that_does_not_work_gets_the_reason_the_source_and_one_that_works() -> None:
    done = run("--gpu", "v100", "--driver", "580", "--torch", "2.15.0+cu132")
    assert (done.returncode, done.stderr) == (2, "")
    assert done.stdout.splitlines()[:7] == [
        "does not work: v100 (compute capability 7.0), driver 580, torch 2.15.0+cu132",
        f"  reason: {NO_KERNELS}",
        f"    source: {SOURCES['torch-2.15']}",
        "  what to do: use torch 2.14.0+cu126 with driver branch 580",
        "    install torch: uv pip install --torch-backend cu126 torch==2.14.0",
        "    get driver branch 580 from one of:",
        "      Google's cuda_installer: --installation-branch lts",
    ]
    assert "wheel with driver" not in done.stdout


def test_a_combination_that_works_gets_the_commands_to_install_it() -> None:
    done = run("--gpu", "l4", "--driver", "580.159.03", "--torch", "2.15.0")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[:2] == [
        "works: l4 (compute capability 8.9), driver 580.159.03, torch 2.15.0",
        "  install torch: python3 -m pip install torch==2.15.0",
    ]


@pytest.mark.parametrize(
    ("gpu", "driver", "torch"),
    [
        ("t4", "580", "2.15.0+cu132"),
        ("v100", "580", "2.14.0+cu126"),
        ("p100", "580", "2.14.0+cu126"),
        ("l4", "580", "2.15.0+cu132"),
        ("a10g", "580", "2.15.0+cu132"),
        ("l40s", "580", "2.15.0+cu132"),
        ("a100", "580", "2.15.0+cu132"),
        ("h100", "580", "2.15.0+cu132"),
        ("h200", "580", "2.15.0+cu132"),
        ("b200", "580", "2.15.0+cu132"),
        ("rtx-pro-6000", "580", "2.15.0+cu132"),
    ],
)
def test_for_a_gpu_without_driver_and_torch_both_are_chosen_and_every_wheel_is_listed(
    gpu: str, driver: str, torch: str
) -> None:
    found = answer("--gpu", gpu)
    assert (found["works"], found["driver"], found["torch"]) == (True, driver, torch)
    rows = {row["torch"]: row for row in found["wheels"]}
    assert len(rows) == len(found["wheels"]) == 54
    assert rows[torch]["works"]
    assert rows[torch]["reasons"] == []
    assert all(row["works"] or row["reasons"] for row in rows.values())


def test_the_table_has_the_reason_of_each_wheel_that_does_not_work() -> None:
    lines = run("--gpu", "v100", "--driver", "580").stdout.splitlines()
    at = lines.index("every known torch wheel with driver 580 (?: its list of GPUs was not read):")
    assert lines[at + 1] == f"  2.15.0+cu132  no: {NO_KERNELS}"
    assert "  2.14.0+cu126  works" in lines
    assert "  2.9.0+cu129 ? works" in lines


def test_a_driver_that_does_not_support_the_gpu_is_the_only_reason_and_is_printed_once() -> None:
    found = answer("--gpu", "v100", "--driver", "595")
    assert [problem["rule"] for problem in found["problems"]] == ["driver.dropped-gpu"]
    assert [(way["driver_branch"], way["torch"]) for way in found["ways"]] == [(580, "2.14.0+cu126")]
    lines = run("--gpu", "v100", "--driver", "595").stdout.splitlines()
    assert lines[-1] == "no known torch wheel works with driver 595, for the reason above"


def test_another_torch_and_another_driver_are_both_offered() -> None:
    found = answer("--gpu", "t4", "--driver", "535", "--torch", "2.13.0")
    assert [(way["driver_branch"], way["torch"]) for way in found["ways"]] == [
        (535, "2.13.0+cu126"),
        (580, "2.13.0+cu130"),
    ]
    assert [way["install"] for way in found["ways"]] == [
        "uv pip install --torch-backend cu126 torch==2.13.0",
        "python3 -m pip install torch==2.13.0",
    ]
    assert found["ways"][0]["drivers"] == {}
    assert found["ways"][1]["drivers"]["Google's cuda_installer"] == "--installation-branch lts"


def test_the_required_kernel_module_is_named() -> None:
    done = run("--gpu", "v100", "--driver", "580", "--torch", "2.14.0+cu126", "--module", "open")
    assert done.returncode == 2
    assert "use torch 2.14.0+cu126 with driver branch 580 and the proprietary kernel module" in done.stdout


def test_if_nothing_works_no_combination_is_invented() -> None:
    found = answer("--gpu", "t4", "--machine", "aarch64")
    assert (found["works"], found["ways"]) == (False, [])
    assert "use another GPU or machine; nothing in the tables works" in run("--gpu", "t4", "--machine", "arm64").stdout


def test_the_chosen_torch_supports_the_given_python() -> None:
    assert answer("--gpu", "l4", "--torch", "2.8.0", "--python", "3.14")["problems"][0]["rule"] == "torch.python"
    assert answer("--gpu", "l4", "--driver", "580", "--python", "3.9")["torch"] == "2.8.0+cu128"
    newest = answer("--gpu", "l4", "--python", "3.15")
    assert (newest["works"], newest["torch"], newest["unknown"]) == (True, "2.15.0+cu132", [])
    assert [row["torch"] for row in newest["wheels"] if row["works"]] == ["2.15.0+cu132", "2.15.0+cu130"]
    later = answer("--gpu", "l4", "--python", "3.16")
    assert (later["works"], later["ways"]) == (False, [])


def test_a_torch_for_cuda_10_needs_the_driver_released_with_cuda_10() -> None:
    found = answer("--gpu", "t4", "--driver", "390", "--torch", "1.10.0+cu102")
    assert [problem["text"] for problem in found["problems"]] == [
        "driver branch 390 does not support Turing (7.5): the first branch that does is 410",
        "torch 1.10.0+cu102 needs driver branch 440 or newer for CUDA 10.2, not 390",
    ]
    assert [(way["driver_branch"], way["torch"]) for way in found["ways"]] == [(580, "1.10.0+cu102")]


def test_an_unknown_capability_or_torch_is_reported_and_not_refused() -> None:
    found = answer("--compute-capability", "12.1", "--torch", "2.99.0")
    assert found["works"]
    assert found["unknown"] == [
        "compute capability 12.1 is not in the tables",
        "torch 2.99 for x86_64 is not in the tables",
    ]
    lines = run("--gpu", "l4", "--driver", "580", "--torch", "2.9.99").stdout.splitlines()
    assert lines[:2] == [
        "probably works: l4 (compute capability 8.9), driver 580, torch 2.9.99",
        "  unverified: torch 2.9.99 is not in the tables: their newest patch of this release is 2.9.1",
    ]


def test_an_unknown_driver_branch_is_refused_with_the_nearest_known_ones_and_a_setup_that_works() -> None:
    done = run("--gpu", "l4", "--driver", "999.1", "--torch", "2.9.1")
    assert (done.returncode, done.stderr) == (2, "")
    assert done.stdout.splitlines()[:3] == [
        "does not work: l4 (compute capability 8.9), driver 999.1, torch 2.9.1",
        "  reason: driver branch 999 is not in the table of drivers: the nearest known branches are 595 and 610",
        "  what to do: use torch 2.9.1+cu128 with driver branch 580",
    ]
    found = answer("--gpu", "l4", "--driver", "565")
    assert [problem["rule"] for problem in found["problems"]] == ["driver.unknown-branch"]
    assert found["problems"][0]["text"].endswith(": the nearest known branches are 560 and 570")
    assert found["unknown"] == []
    assert not any(row["works"] for row in found["wheels"])


def test_a_branch_that_is_older_than_the_gpu_is_refused_for_that_reason_also_if_it_is_unknown() -> None:
    found = answer("--gpu", "t4", "--driver", "390", "--torch", "2.9.1")
    assert [problem["rule"] for problem in found["problems"]] == ["driver.before-gpu", "driver.before-cuda"]


@pytest.mark.parametrize("name", ["Tesla T4", "nvidia-tesla-t4", "NVIDIA A100-SXM4-40GB", "H100-SXM", "a100-80gb"])
def test_any_name_of_a_gpu_is_accepted(name: str) -> None:
    assert answer("--gpu", name, "--driver", "580", "--torch", "2.9.1")["works"]


@pytest.mark.parametrize("name", ["NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA A100-SXM4-40GB MIG 1g.5gb+me"])
def test_a_mig_slice_is_checked_as_its_gpu(name: str) -> None:
    found = answer("--gpu", name, "--driver", "580", "--torch", "2.9.1")
    assert found["works"]
    assert found["asked"]["gpu"] == name
    early = answer("--gpu", name, "--driver", "450", "--torch", "2.7.0+cu118")
    assert [problem["rule"] for problem in early["problems"]] == (["driver.before-gpu"] if "H100" in name else [])


def test_every_error_of_the_command_line_is_reported_at_once() -> None:
    done = run("--gpu", "t44", "--driver", "x", "--torch", "y", "--python", "z", "--machine", "m", "--module", "q")
    assert (done.returncode, done.stdout) == (64, "")
    lines = done.stderr.splitlines()
    assert lines[:4] == [
        "gpu-smoke check: --gpu: is not in the table of GPUs: did you mean t4?",
        "  got: 't44'",
        f"  expected: {GPUS}; any other by --compute-capability",
        "  hint: gpu-smoke check --help",
    ]
    assert [line.split(": ")[1] for line in lines[::4]] == [
        "--gpu",
        "--driver",
        "--torch",
        "--module",
        "--machine",
        "--python",
    ]


@pytest.mark.parametrize(
    ("args", "first"),
    [
        ([], "gpu-smoke check: --gpu: is missing"),
        (["--gpu", "l4", "--compute-capability", "8.9"], "gpu-smoke check: --gpu: is given twice"),
        (["--gpu", "nvidia"], "gpu-smoke check: --gpu: is not in the table of GPUs"),
        (["--gpu", "16gb"], "gpu-smoke check: --gpu: matches several GPUs"),
        (["--compute-capability", "89"], "gpu-smoke check: --compute-capability: not a compute capability: '89'"),
        (["--nope"], "gpu-smoke check: unrecognized arguments: --nope"),
    ],
)
def test_a_wrong_command_line_exits_with_64_and_prints_no_answer(args: list[str], first: str) -> None:
    done = run(*args)
    assert (done.returncode, done.stdout) == (64, "")
    assert done.stderr.splitlines()[0] == first


def test_the_driver_sources_equal_those_of_the_catalog() -> None:
    rows = {row["driver_source"]: row for row in data_files.rows("driver_sources")}
    for key, origin in ORIGINS.items():
        assert [*origin.branches] == rows[key]["branches"]
        assert [*origin.machines] == rows[key]["architectures"]


def test_the_help_of_gpu_smoke_names_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gpu_smoke", "--help"],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "\n  check     check if a GPU, a driver and a torch work together" in done.stdout
