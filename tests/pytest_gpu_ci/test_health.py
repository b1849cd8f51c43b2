"""CUDA that stops working in a process: the test that caused it is named, and no other test is blamed."""

from __future__ import annotations

import pytest

from .conftest import L4, Suite, lines_of

pytest_plugins = ["pytester"]

WORDS = "CUDA error: device-side assert triggered"
SUITE = """
import torch

def wait(): torch.cuda.synchronize(0)

def test_on_the_cpu(): pass

@pytest.mark.gpu
def test_before(): torch.zeros(1)

{killer}

@pytest.mark.gpu
def test_after(): torch.zeros(1)

@pytest.mark.gpu
def test_last(): torch.zeros(1)

def test_on_the_cpu_too(): pass
"""
KILLER = f'@pytest.mark.gpu\ndef test_killer():\n    torch.launch("{WORDS}")\n'
TOLD_ONCE = '@pytest.mark.gpu\ndef test_killer():\n    torch.launch("CUDA error: invalid argument", sticky=False)'


@pytest.mark.parametrize(
    ("killer", "outcomes"),
    [
        (KILLER + "    wait()", {"passed": 3, "failed": 1, "errors": 2}),
        (KILLER, {"passed": 4, "errors": 3}),
        ("@pytest.mark.xfail\n" + KILLER + "    wait()", {"passed": 3, "xfailed": 1, "errors": 2}),
    ],
    ids=["in its call", "after its last line", "expected"],
)
def test_later_tests_name_the_test_that_killed_cuda(suite: Suite, killer: str, outcomes: dict[str, int]) -> None:
    result = suite(SUITE.format(killer=killer), gpus=[L4])
    result.assert_outcomes(**outcomes)
    told = f"not run: CUDA died in this process during test_it.py::test_killer ({WORDS})"
    assert result.outlines.count(told) == 2
    assert f"2 did not run: {told}" in lines_of(result)
    assert result.ret == 1


@pytest.mark.parametrize(
    "killer",
    [
        "@pytest.mark.gpu\ndef test_killer(): torch.zeros(10**6)",
        TOLD_ONCE + "\n    wait()",
        "@pytest.mark.gpu\ndef test_killer(): assert False",
        "def test_killer(): assert False",
    ],
    ids=["out of memory", "an error that is told once", "an assertion", "a test on the CPU"],
)
def test_an_error_that_is_not_sticky_stops_no_test(suite: Suite, killer: str) -> None:
    result = suite(SUITE.format(killer=killer), gpus=[L4])
    result.assert_outcomes(passed=5, failed=1)


def test_an_error_reported_once_after_the_last_line_stops_no_test(suite: Suite) -> None:
    suite(SUITE.format(killer=TOLD_ONCE), gpus=[L4]).assert_outcomes(passed=6, errors=1)


@pytest.mark.slow
def test_a_worker_whose_cuda_died_is_replaced_and_the_rest_runs(suite: Suite) -> None:
    result = suite(SUITE.format(killer=KILLER + "    wait()"), "-n1", gpus=[L4], process=True)
    # The test that kills CUDA fails, and the report says that it ended the worker. All other tests run and pass.
    result.assert_outcomes(passed=5, failed=2)
    text = result.stdout.str()
    assert "worker 'gw0' crashed while running 'test_it.py::test_killer'" in text
    assert WORDS in text
    assert "not run" not in text
    assert "4 GPU tests ran on NVIDIA L4" in lines_of(result)
