"""Workers of pytest-xdist: each has its own GPUs, or an error says that they would share."""

from __future__ import annotations

import pytest
from pytest_gpu_ci import machine

from .conftest import L4, T4, Suite, lines_of

pytest_plugins = ["pytester"]

SEEN = """
import os, time

@pytest.mark.gpu
@pytest.mark.parametrize("number", range(4))
def test_a(number, record_property):
    import torch
    time.sleep(0.1)
    print("seen", os.environ["PYTEST_XDIST_WORKER"], [row[0] for row in torch.GPUS])
    assert False
"""


def seen(result: pytest.RunResult) -> set[str]:
    return {line for line in result.outlines if line.startswith("seen gw")}


@pytest.mark.slow
def test_each_worker_has_its_own_gpu(suite: Suite) -> None:
    result = suite(SEEN, "--gpu=auto", "-n2", gpus=[L4, T4], process=True, visible="0,1")
    result.assert_outcomes(failed=4)
    assert seen(result) == {"seen gw0 ['NVIDIA L4']", "seen gw1 ['Tesla T4']"}


def test_more_workers_than_gpus_are_an_error_with_a_hint(suite: Suite) -> None:
    result = suite(SEEN, "--gpu=require", "-n3", gpus=[L4, T4], process=True, visible="0,1")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert [line for line in result.errlines if line] == [
        "ERROR: pytest: -n: more workers than GPUs, and each one uses GPU memory",
        "  got: 3 workers",
        "  expected: at most 2, one for each GPU: 0, 1",
        "  hint: -n 2, or --gpu-share to let them share",
    ]


@pytest.mark.slow
def test_workers_without_any_gpu_skip_and_the_controller_knows(suite: Suite) -> None:
    result = suite(SEEN, "-n2", process=True)
    result.assert_outcomes(skipped=4)
    assert lines_of(result) == ["4 did not run: needs 1 GPU; here: no GPU (torch is not installed)"]
    required = suite(SEEN.replace("assert False", "pytest.skip('no')"), "-n1", "--gpu=require", gpus=[L4], process=True)
    required.assert_outcomes(skipped=4)
    assert required.ret == 1
    assert "FAILED: --gpu=require, and no GPU test ran: none was selected" in lines_of(required)


@pytest.mark.slow
def test_a_worker_in_place_of_one_that_died_takes_its_gpu(suite: Suite) -> None:
    source = """
import os, time
from pathlib import Path

WORKER = os.environ["PYTEST_XDIST_WORKER"]

@pytest.mark.gpu
@pytest.mark.parametrize("number", range(6))
def test_a(number):
    import torch
    print("seen", WORKER, torch.GPUS[0][0])
    Path(WORKER).touch()
    if WORKER == "gw1":
        torch.launch("CUDA error: an illegal memory access was encountered")
    while WORKER == "gw0" and not Path("gw2").exists():
        time.sleep(0.05)
    assert False
"""
    result = suite(source, "--gpu=auto", "-n2", gpus=[L4, T4], process=True, visible="0,1")
    assert seen(result) == {"seen gw0 NVIDIA L4", "seen gw1 Tesla T4", "seen gw2 Tesla T4"}


@pytest.mark.parametrize(
    ("workers", "gpus", "parts"),
    [
        (1, 4, ["abcd"]),
        (2, 4, ["ab", "cd"]),
        (3, 4, ["a", "b", "cd"]),
        (4, 4, ["a", "b", "c", "d"]),
        (5, 2, ["a", "b", "a", "b", "a"]),
    ],
)
def test_gpus_are_parted_equally_and_none_is_left_over(workers: int, gpus: int, parts: list[str]) -> None:
    names = list("abcd")[:gpus]
    assert ["".join(machine.of_worker(place, workers, names)) for place in range(workers)] == parts
