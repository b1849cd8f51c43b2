"""The requirements of a marker, and markers that are not valid."""

from __future__ import annotations

import pytest

from .conftest import L4, L40S, T4, Suite, lines_of

pytest_plugins = ["pytester"]


@pytest.mark.parametrize(
    ("gpus", "markers"),
    [
        (
            [L4],
            {
                "gpu(count=2)": False,
                "multi_gpu": False,
                'gpu(compute_capability="8.9")': True,
                "gpu(compute_capability=(9, 0))": False,
                "gpu(compute_capability=10.0)": False,
                'gpu(model="L4")': True,
                'gpu(model="l4")': True,
            },
        ),
        ([L4, L4], {"gpu(count=2)": True, "multi_gpu": True, "multi_gpu(count=3)": False}),
        ([T4], {"gpu(memory_gib=16)": True, "gpu(memory_gib=24)": False}),
        (
            [L40S],
            {
                "gpu(memory_gib=48)": True,
                "gpu(memory_gib=50)": False,
                'gpu(model="L4")': False,
                'gpu(model=["H100", "L40S"])': True,
            },
        ),
        ([L4, T4], {"gpu(count=2, memory_gib=24)": False, "gpu(memory_gib=24)": True}),
    ],
    ids=["L4", "two L4", "T4", "L40S", "L4 and T4"],
)
def test_a_test_runs_if_the_first_gpus_meet_its_requirements(
    suite: Suite, gpus: list[object], markers: dict[str, bool]
) -> None:
    tests = [f"@pytest.mark.{marker}\ndef test_{number}(): pass\n" for number, marker in enumerate(markers)]
    result = suite("".join(tests), "-v", gpus=gpus)
    passed = {marker: f"::test_{number} PASSED" in result.stdout.str() for number, marker in enumerate(markers)}
    assert passed == markers
    result.assert_outcomes(passed=sum(markers.values()), skipped=len(markers) - sum(markers.values()))


def test_an_unmet_requirement_is_reported_and_fails_only_with_strict(suite: Suite) -> None:
    source = """
@pytest.mark.gpu(memory_gib=80, compute_capability="9.0", model=("H100", "H200"))
class TestBig:
    @pytest.mark.gpu(count=2)
    def test_a(self): pass

@pytest.mark.gpu
def test_small(): pass
"""
    words = (
        "needs 2 GPUs, 80 GiB, compute capability 9.0 or more, model H100 or H200; "
        "here: 2 x NVIDIA L4 (22.0 GiB, compute capability 8.9), 1 x Tesla T4 (14.6 GiB, compute capability 7.5)"
    )
    required = suite(source, "--gpu=require", gpus=[L4, L4, T4])
    required.assert_outcomes(passed=1, skipped=1)
    assert f"1 did not run: {words}" in lines_of(required)
    strict = suite(source, "--gpu=strict", gpus=[L4, L4, T4])
    strict.assert_outcomes(passed=1, errors=1)
    assert f"--gpu=strict: {words}" in strict.outlines
    assert lines_of(strict)[1:3] == [
        f"1 did not run: {words}",
        "  hint: --gpu=require skips tests that this machine cannot run",
    ]
    assert strict.stdout.str().count("hint: ") == 1


def test_every_mistake_in_a_marker_is_reported_before_any_test_runs(suite: Suite) -> None:
    source = """
@pytest.mark.gpu(2)
def test_a(): pass

@pytest.mark.gpu(count=0, memory="16", memory_gib="16", compute_capability="sm_89", model="", peak_gib=True)
def test_b(): pass

@pytest.mark.gpu(peak_gib=0, leak_mib=-1)
def test_c(): pass
"""
    result = suite(source, gpus=[L4])
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    told = [line for line in result.errlines if "test_it.py" in line]
    node = "ERROR: test_it.py"
    assert told == [
        f"{node}: test_a: gpu: takes keywords only",
        f"{node}: test_b: gpu: count: invalid value",
        f"{node}: test_b: gpu: memory: no such argument",
        f"{node}: test_b: gpu: memory_gib: invalid value",
        f"{node}: test_b: gpu: compute_capability: invalid value",
        f"{node}: test_b: gpu: model: invalid value",
        f"{node}: test_b: gpu: peak_gib: invalid value",
        f"{node}: test_c: gpu: peak_gib: invalid value",
        f"{node}: test_c: gpu: leak_mib: invalid value",
    ]
    at = result.errlines.index(told[1])
    assert result.errlines[at + 1 : at + 3] == ["  got: 0", "  expected: a number of GPUs, 1 or more"]
    at = result.errlines.index(told[-2])
    assert result.errlines[at + 1 : at + 3] == ["  got: 0", '  expected: GiB above 0, such as 4, or "any"']
