"""`gpu-smoke check`: what goes together, asked through the command."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import IO, Any

import pytest
from gpu_catalog import data_files
from gpu_smoke.data.drivers import ORIGINS

from ..conftest import environment

GPUS = "t4, v100, p100, l4, a10g, l40s, a100, h100, h20, gh200, h200, b200, b300, rtx-pro-6000-se"
NO_KERNELS = "torch 2.15.0+cu132 has no kernels for 7.0: it has sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"


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


def test_what_cannot_work_is_said_with_the_reason_and_with_what_does() -> None:
    done = run("--gpu", "v100", "--driver", "580", "--torch", "2.15.0+cu132")
    assert (done.returncode, done.stderr) == (2, "")
    assert done.stdout.splitlines()[:5] == [
        "does not work: v100 (compute capability 7.0), driver 580, torch 2.15.0+cu132",
        f"  why: {NO_KERNELS} (torch.no-kernels)",
        "  what works: torch 2.14.0+cu126, driver branch 580",
        "    torch: uv pip install --torch-backend cu126 torch==2.14.0",
        "    driver: Google's cuda_installer: --installation-branch lts",
    ]
    assert "every wheel" not in done.stdout


def test_what_works_is_said_with_how_to_install_it() -> None:
    done = run("--gpu", "l4", "--driver", "580.159.03", "--torch", "2.15.0")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[:2] == [
        "works: l4 (compute capability 8.9), driver 580.159.03, torch 2.15.0",
        "    torch: python3 -m pip install torch==2.15.0",
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
def test_for_a_gpu_alone_a_driver_and_a_torch_are_chosen_and_every_wheel_is_told(
    gpu: str, driver: str, torch: str
) -> None:
    found = answer("--gpu", gpu)
    assert (found["works"], found["driver"], found["torch"]) == (True, driver, torch)
    rows = {row["torch"]: row for row in found["wheels"]}
    assert len(rows) == len(found["wheels"]) == 54
    assert rows[torch]["works"]
    assert rows[torch]["reasons"] == []
    assert all(row["works"] or row["reasons"] for row in rows.values())


def test_the_table_of_wheels_says_of_each_that_does_not_work_why() -> None:
    lines = run("--gpu", "v100", "--driver", "580").stdout.splitlines()
    at = lines.index("every wheel with driver 580 (? was not read for that release):")
    assert lines[at + 1] == f"  2.15.0+cu132  no: {NO_KERNELS}"
    assert "  2.14.0+cu126  works" in lines
    assert "  2.9.0+cu129 ? works" in lines


def test_a_driver_that_runs_no_such_gpu_is_named_once_and_torch_is_not_blamed() -> None:
    found = answer("--gpu", "v100", "--driver", "595")
    assert [problem["rule"] for problem in found["problems"]] == ["driver.dropped-gpu"]
    assert [(way["driver_branch"], way["torch"]) for way in found["ways"]] == [(580, "2.14.0+cu126")]
    assert "  2.14.0+cu126  no, as above" in run("--gpu", "v100", "--driver", "595").stdout.splitlines()


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


def test_the_kernel_module_that_a_gpu_needs_is_named() -> None:
    done = run("--gpu", "v100", "--driver", "580", "--torch", "2.14.0+cu126", "--module", "open")
    assert done.returncode == 2
    assert "  what works: torch 2.14.0+cu126, driver branch 580, the proprietary kernel module" in done.stdout


def test_where_nothing_works_nothing_is_made_up() -> None:
    found = answer("--gpu", "t4", "--machine", "aarch64")
    assert (found["works"], found["ways"]) == (False, [])
    assert "  nothing in the tables works on this GPU and machine" in run("--gpu", "t4", "--machine", "arm64").stdout


def test_the_python_has_to_fit_too_and_one_that_fits_is_chosen() -> None:
    assert answer("--gpu", "l4", "--torch", "2.8.0", "--python", "3.14")["problems"][0]["rule"] == "torch.python"
    assert answer("--gpu", "l4", "--driver", "580", "--python", "3.9")["torch"] == "2.8.0+cu128"
    newest = answer("--gpu", "l4", "--python", "3.15")
    assert (newest["works"], newest["torch"], newest["unknown"]) == (True, "2.15.0+cu132", [])
    assert [row["torch"] for row in newest["wheels"] if row["works"]] == ["2.15.0+cu132", "2.15.0+cu130"]
    later = answer("--gpu", "l4", "--python", "3.16")
    assert (later["works"], later["ways"]) == (False, [])


def test_a_torch_of_cuda_10_needs_the_driver_that_came_with_it() -> None:
    found = answer("--gpu", "t4", "--driver", "390", "--torch", "1.10.0+cu102")
    assert [problem["text"] for problem in found["problems"]] == [
        "driver branch 390 does not know Turing (7.5): R410 is its first",
        "torch 1.10.0+cu102 needs driver branch 440 or newer for CUDA 10.2, not 390",
    ]
    assert [(way["driver_branch"], way["torch"]) for way in found["ways"]] == [(580, "1.10.0+cu102")]


def test_what_is_not_known_is_said_and_is_no_reason_to_refuse() -> None:
    found = answer("--compute-capability", "12.1", "--torch", "2.99.0")
    assert found["works"]
    assert found["unknown"] == ["compute capability 12.1", "torch 2.99 on x86_64: it is not in the table"]
    lines = run("--gpu", "l4", "--driver", "999", "--torch", "2.9.99").stdout.splitlines()
    assert lines[:3] == [
        "probably works: l4 (compute capability 8.9), driver 999, torch 2.9.99",
        "  unverified: driver branch 999: it is not in the table",
        "  unverified: torch 2.9.99: the newest of its release in the table is 2.9.1",
    ]


@pytest.mark.parametrize("name", ["Tesla T4", "nvidia-tesla-t4", "NVIDIA A100-SXM4-40GB", "H100-SXM", "a100-80gb"])
def test_a_gpu_is_known_by_any_of_its_names(name: str) -> None:
    assert answer("--gpu", name, "--driver", "580", "--torch", "2.9.1")["works"]


@pytest.mark.parametrize("name", ["NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA A100-SXM4-40GB MIG 1g.5gb+me"])
def test_a_slice_of_a_gpu_is_taken_for_its_gpu(name: str) -> None:
    found = answer("--gpu", name, "--driver", "580", "--torch", "2.9.1")
    assert found["works"]
    assert found["asked"]["gpu"] == name
    early = answer("--gpu", name, "--driver", "450", "--torch", "2.7.0+cu118")
    assert [problem["rule"] for problem in early["problems"]] == (["driver.before-gpu"] if "H100" in name else [])


def test_everything_that_is_wrong_with_the_question_is_said_at_once() -> None:
    done = run("--gpu", "t44", "--driver", "x", "--torch", "y", "--python", "z", "--machine", "m", "--module", "q")
    assert (done.returncode, done.stdout) == (64, "")
    lines = done.stderr.splitlines()
    assert lines[:4] == [
        "gpu-smoke check: --gpu: is no GPU of the table: did you mean t4?",
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
        (["--gpu", "l4", "--compute-capability", "8.9"], "gpu-smoke check: --gpu: is told twice"),
        (["--gpu", "nvidia"], "gpu-smoke check: --gpu: is no GPU of the table"),
        (["--gpu", "16gb"], "gpu-smoke check: --gpu: could be more than one GPU"),
        (["--compute-capability", "89"], "gpu-smoke check: --compute-capability: not a compute capability: '89'"),
        (["--nope"], "gpu-smoke check: unrecognized arguments: --nope"),
    ],
)
def test_a_question_that_cannot_be_answered_is_no_verdict(args: list[str], first: str) -> None:
    done = run(*args)
    assert (done.returncode, done.stdout) == (64, "")
    assert done.stderr.splitlines()[0] == first


def test_where_drivers_come_from_is_what_the_catalog_has() -> None:
    rows = {row["driver_source"]: row for row in data_files.rows("driver_sources")}
    for key, origin in ORIGINS.items():
        assert [*origin.branches] == rows[key]["branches"]
        assert [*origin.machines] == rows[key]["architectures"]


def test_the_help_of_the_tool_names_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gpu_smoke", "--help"],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "\n  check     check if a GPU, a driver and a torch work together" in done.stdout
