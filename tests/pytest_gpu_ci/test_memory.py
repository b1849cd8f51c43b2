"""GPU memory that a test leaves allocated: it is found in that test, and memory of others is not counted."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from .conftest import L4, T4, Suite, lines_of

pytest_plugins = ["pytester"]

LEAK = """
import torch
kept = []

@pytest.mark.gpu{arguments}
def test_keeps(): kept.append(torch.zeros({mib}))

@pytest.mark.gpu
def test_after(): torch.zeros(2)
"""


def test_a_leak_fails_the_test_that_leaks_by_how_much_and_no_other(suite: Suite) -> None:
    result = suite(LEAK.format(arguments="", mib=12), gpus=[L4])
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(
        [
            "*ERROR at teardown of test_keeps*",
            "leaked 12.0 MiB on cuda:0, 1 allowed (gc and empty_cache did not free them)",
            "  hint: look for tensors in globals, caches and closures; leak_mib= of the gpu marker allows more",
        ]
    )
    assert lines_of(result) == [
        "2 GPU tests ran on NVIDIA L4",
        "highest peak: 14.0 MiB in test_it.py::test_after",
    ]


def failed(result: pytest.RunResult, tests: int) -> list[bool]:
    """Return of each test test_0, test_1, ... whether it failed after its end."""
    result.assert_outcomes(passed=tests, errors=result.parseoutcomes().get("errors", 0))
    return [f" ERROR at teardown of test_{number} " in result.stdout.str() for number in range(tests)]


def test_a_marker_allows_what_stays(suite: Suite) -> None:
    cases = [
        ("", 1, False),
        ("", 1.01, True),
        ("(leak_mib=16)", 16, False),
        ("(leak_mib=16)", 16.1, True),
        ("(leak_mib=0)", 0.1, True),
        ('(leak_mib="any")', 4096, False),
    ]
    tests = [
        f"@pytest.mark.gpu{arguments}\ndef test_{number}(): kept.append(torch.zeros({mib}))\n"
        for number, (arguments, mib, _) in enumerate(cases)
    ]
    result = suite("import torch\nkept = []\n" + "".join(tests), gpus=[L4])
    assert failed(result, len(cases)) == [fails for _, _, fails in cases]


@pytest.mark.parametrize(("limit", "errors"), [("16", 0), ("11.9", 1), ("any", 0)])
def test_a_suite_allows_what_stays(suite: Suite, limit: str, errors: int) -> None:
    result = suite(LEAK.format(arguments="", mib=12), "-o", f"gpu_leak_mib={limit}", gpus=[L4])
    result.assert_outcomes(passed=2, errors=errors)


def test_memory_that_is_no_leak_does_not_fail(suite: Suite) -> None:
    source = """
import torch

@pytest.fixture(scope="session", autouse=True)
def unasked():
    yield torch.zeros(100)

@pytest.fixture(scope="module")
def inner():
    yield torch.zeros(200)

@pytest.fixture(scope="module")
def model(inner):
    yield torch.zeros(300)

@pytest.fixture
def batch(model):
    yield torch.zeros(400)

@pytest.mark.gpu
def test_wider_scopes(batch): torch.zeros(1)

@pytest.mark.gpu
def test_asked_for_late(request): request.getfixturevalue("model")

@pytest.mark.gpu
def test_cycle(): torch.cycle(50)

@pytest.mark.gpu
def test_workspace_of_cublas(): torch.product()

@pytest.mark.gpu
def test_a_traceback_holds_tensors():
    held = torch.zeros(70)
    assert held is None
"""
    result = suite(source, gpus=[L4])
    result.assert_outcomes(passed=4, failed=1)
    assert "highest peak: 1,001.0 MiB in test_it.py::test_wider_scopes" in lines_of(result)


def test_a_leak_is_found_although_fixtures_allocate_and_free(suite: Suite) -> None:
    source = """
import torch
kept = []

@pytest.fixture(scope="module")
def model():
    yield torch.zeros(300)

@pytest.mark.gpu
def test_first_and_last(model): kept.append(torch.zeros(5))
"""
    result = suite(source, gpus=[L4])
    result.assert_outcomes(passed=1, errors=1)
    assert "leaked 5.0 MiB on cuda:0" in result.stdout.str()


def test_every_gpu_is_watched(suite: Suite) -> None:
    source = """
import torch
kept = []

@pytest.mark.gpu(count=2, leak_mib=3)
def test_a(gpu_devices):
    kept.append(torch.zeros(4, device=gpu_devices[0]))
    kept.append(torch.zeros(5, device=gpu_devices[1]))
"""
    result = suite(source, gpus=[L4, T4])
    result.assert_outcomes(passed=1, errors=1)
    told = [line for line in result.outlines if line.startswith("leaked")]
    assert [line.split(" (")[0] for line in told] == [
        "leaked 4.0 MiB on cuda:0, 3 allowed",
        "leaked 5.0 MiB on cuda:1, 3 allowed",
    ]


def test_a_peak_above_the_markers_fails(suite: Suite) -> None:
    tests = [
        f"@pytest.mark.gpu(peak_gib={limit})\ndef test_{number}(): torch.zeros(2048)\n"
        for number, limit in enumerate(("2", "1.99", '"any"'))
    ]
    result = suite("import torch\n" + "".join(tests), gpus=[L4])
    assert failed(result, 3) == [False, True, False]
    assert "allocated 2.00 GiB at its highest, 1.99 allowed" in result.stdout.str()


def test_junit_has_the_gpu_the_peak_and_the_reason(suite: Suite, tmp_path: Path) -> None:
    source = """
import torch

@pytest.mark.gpu
def test_a(): torch.zeros(3)

@pytest.mark.gpu(count=2)
def test_b(): pass

def test_c(): pass
"""
    suite(source, f"--junit-xml={tmp_path / 'junit.xml'}", gpus=[L4])
    cases = ET.parse(tmp_path / "junit.xml").iter("testcase")  # noqa: S314 - we wrote it
    assert {
        case.get("name"): {each.get("name"): each.get("value") for each in case.iter("property")} for case in cases
    } == {
        "test_a": {"gpu": "NVIDIA L4", "gpu_peak_mib": "3.0"},
        "test_b": {"gpu_not_run": "needs 2 GPUs; here: 1 x NVIDIA L4 (22.0 GiB, compute capability 8.9)"},
        "test_c": {},
    }


def test_a_seed_makes_a_test_repeat_itself(suite: Suite) -> None:
    source = """
import random, torch
seen = []

@pytest.mark.parametrize("time", [1, 2])
def test_a(gpu_seed, time):
    seen.append(random.random())
    assert (torch.initial_seed(), gpu_seed, seen[0]) == (0, 0, seen[-1])
    assert (torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark) == (True, False)

def test_after():
    assert (torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark) == (False, True)
"""
    result = suite(source, gpus=[])
    result.assert_outcomes(passed=3)
    assert lines_of(result) == []
