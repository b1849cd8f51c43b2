"""The GPU tests that run in each mode, and the reports of those that do not run."""

from __future__ import annotations

import os

import pytest

from .conftest import L4, L40S, T4, Suite, lines_of

pytest_plugins = ["pytester"]

THREE = """
def test_on_the_cpu(): pass

@pytest.mark.gpu
def test_marked(): pass

def test_by_fixture(gpu_device): assert gpu_device == "cuda:0"
"""
WHY_NOT = "  hint: run gpu-smoke diagnose for the reason; --gpu=off skips GPU tests"


@pytest.mark.parametrize(
    ("gpus", "environment", "there"),
    [
        (None, {}, "no GPU (torch is not installed)"),
        ([], {}, "no GPU (torch 2.99.0: No CUDA GPUs are available)"),
        ([], {"FAKE_CUDA": ""}, "no GPU (torch 2.99.0 is built without CUDA)"),
        ([L4], {"CUDA_VISIBLE_DEVICES": ""}, "no GPU (CUDA_VISIBLE_DEVICES is '')"),
        ([L4], {"CUDA_VISIBLE_DEVICES": "", "FAKE_AVAILABLE": "yes"}, "no GPU (CUDA_VISIBLE_DEVICES is '')"),
    ],
)
def test_a_machine_without_gpus_skips_gpu_tests_with_the_need_and_the_machine(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, gpus: list[object] | None, environment: dict[str, str], there: str
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    result = suite(THREE, gpus=gpus)
    result.assert_outcomes(passed=1, skipped=2)
    assert lines_of(result) == [f"2 did not run: needs 1 GPU; here: {there}"]


def test_a_broken_torch_is_named(suite: Suite, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(torch="raise ImportError('libcudart.so.13: cannot open shared object file')")
    pytester.syspathinsert()
    result = suite(THREE)
    result.assert_outcomes(passed=1, skipped=2)
    [line] = lines_of(result)
    assert line.endswith("(torch cannot be imported: libcudart.so.13: cannot open shared object file)")


def test_a_gpu_that_torch_cannot_use_fails_also_where_nothing_was_required(suite: Suite) -> None:
    result = suite(THREE, gpus=[], devices_of=1)
    result.assert_outcomes(passed=1, errors=2)
    there = "no GPU although */dev/nvidia0 exists (torch 2.99.0: No CUDA GPUs are available)"
    result.stdout.fnmatch_lines([f"--gpu=auto: needs 1 GPU; here: {there}"])
    assert lines_of(result)[1:] == [WHY_NOT]
    assert result.stdout.str().count("hint: ") == 1


@pytest.mark.parametrize("mode", ["require", "strict"])
def test_a_gpu_that_is_required_and_not_there_fails_every_gpu_test(suite: Suite, mode: str) -> None:
    result = suite(THREE, f"--gpu={mode}")
    result.assert_outcomes(passed=1, errors=2)
    assert result.ret == 1
    assert lines_of(result) == [
        "2 did not run: needs 1 GPU; here: no GPU (torch is not installed)",
        WHY_NOT,
        f"FAILED: --gpu={mode}, and no GPU test ran: 2 GPU tests did not run",
    ]
    assert result.stdout.str().count("hint: ") == 1


def test_off_skips_them_where_a_gpu_is(suite: Suite) -> None:
    result = suite(THREE, "--gpu=off", gpus=[L4])
    result.assert_outcomes(passed=1, skipped=2)
    assert lines_of(result) == ["2 did not run: GPU tests are off (--gpu=off)"]


@pytest.mark.parametrize(
    ("source", "args"),
    [
        ("@pytest.mark.gpu\ndef test_a(): pytest.skip('no data')", []),
        ("@pytest.mark.gpu(count=2)\ndef test_a(): pass", []),
        ("def test_a(): pass", []),
        (THREE, ["-m", "not gpu"]),
        (THREE, ["-k", "nothing"]),
    ],
    ids=["skips itself", "does not fit", "no GPU test", "deselected by marker", "nothing selected"],
)
def test_a_required_gpu_on_which_no_gpu_test_ran_is_a_failure(suite: Suite, source: str, args: list[str]) -> None:
    result = suite(source, "--gpu=require", *args, gpus=[L4])
    assert result.ret == 1
    assert any(line.startswith("FAILED: --gpu=require, and no GPU test ran: ") for line in lines_of(result))
    assert suite(source, *args, gpus=[L4]).ret in (0, 5)


def test_a_run_that_selects_no_gpu_test_is_reported_with_a_hint(suite: Suite) -> None:
    assert lines_of(suite(THREE, "--gpu=require", "-m", "not gpu", gpus=[L4])) == [
        "FAILED: --gpu=require, and no GPU test ran: none was selected",
        '  hint: check -m, -k and the paths; use -m "not gpu" without --gpu',
    ]


def test_the_marker_gpu_selects_each_test_that_needs_a_gpu_by_marker_or_fixture(suite: Suite) -> None:
    source = (
        THREE
        + """
@pytest.mark.gpu(count=2)
def test_two(gpu_devices): assert gpu_devices == ["cuda:0", "cuda:1"]

@pytest.mark.multi_gpu
@pytest.mark.slow
def test_several(gpu_devices): assert len(gpu_devices) == 2
"""
    )
    for expression, count in (
        ("gpu", 4),
        ("not gpu", 1),
        ("multi_gpu", 2),
        ("gpu and not multi_gpu", 2),
        ("gpu and not slow", 3),
    ):
        suite(source, "-m", expression, gpus=[L4, L4]).assert_outcomes(passed=count, deselected=5 - count)


def test_a_test_that_runs_on_both_is_a_gpu_test_on_the_gpu_alone(suite: Suite) -> None:
    source = """
@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request): return request.param

def test_a(device): pass
"""
    result = suite(source)
    result.assert_outcomes(passed=1, skipped=1)
    suite(source, "-m", "gpu", gpus=[L4]).assert_outcomes(passed=1, deselected=1)


def test_gpu_devices_requested_while_a_test_runs_fails_with_a_message(suite: Suite) -> None:
    source = """
def test_one(request): request.getfixturevalue("gpu_device")

def test_several(request): request.getfixturevalue("gpu_devices")
"""
    result = suite(source)
    result.assert_outcomes(skipped=1, failed=1)
    told = [line for line in result.outlines if line.startswith(("SKIPPED", "gpu_devices"))]
    assert told == ["gpu_devices: requested while the test ran: add the marker gpu with the count it needs"]
    assert "Traceback" not in result.stdout.str()


def test_gpus_are_chosen_by_their_place_among_the_visible(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
def test_a(gpu_device):
    import torch
    assert [row[0] for row in torch.GPUS] == ["Tesla T4"]
"""
    suite(source, "--gpu-id=1", gpus=[L4, T4], devices_of=2).assert_outcomes(passed=1)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "1"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,1")
    suite(source, "--gpu-id=1", gpus=[L4, T4, L40S]).assert_outcomes(passed=1)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "1"


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        ("x", ["pytest: --gpu-id: not a list of GPUs", "  got: 'x'", "  expected: places, such as 0 or 0,2"]),
        ("0,0", ["pytest: --gpu-id: not a list of GPUs", "  got: '0,0'", "  expected: places, such as 0 or 0,2"]),
        (
            "2",
            [
                "pytest: --gpu-id: no GPU 2",
                "  got: '2'",
                "  expected: places of the 2 visible: 4, 7",
                "  hint: places are counted in CUDA_VISIBLE_DEVICES where it is set",
            ],
        ),
    ],
)
@pytest.mark.slow
def test_an_invalid_gpu_place_is_refused(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, given: str, lines: list[str]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    result = suite(THREE, f"--gpu-id={given}", process=True)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert [line.removeprefix("ERROR: ") for line in result.errlines if line] == lines
