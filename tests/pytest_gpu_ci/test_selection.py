"""Which GPU tests run where, and what is said of those that do not."""

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
def test_a_machine_without_gpus_skips_them_and_says_what_was_needed_and_what_is_there(
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
    there = "no GPU although */dev/nvidia0 is there (torch 2.99.0: No CUDA GPUs are available)"
    result.stdout.fnmatch_lines(
        [f"--gpu=auto: needs 1 GPU; here: {there}", "  hint: --gpu=off skips GPU tests"], consecutive=True
    )


def test_a_gpu_that_was_hidden_on_purpose_only_skips(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    suite(THREE, devices_of=1).assert_outcomes(passed=1, skipped=2)


@pytest.mark.parametrize("mode", ["require", "strict"])
def test_a_gpu_that_is_required_and_not_there_fails_every_gpu_test(suite: Suite, mode: str) -> None:
    result = suite(THREE, f"--gpu={mode}")
    result.assert_outcomes(passed=1, errors=2)
    assert result.ret == 1
    assert lines_of(result) == [
        "2 did not run: needs 1 GPU; here: no GPU (torch is not installed)",
        f"FAILED: --gpu={mode}, and no GPU test ran: 2 GPU tests did not run",
    ]


def test_a_gpu_runs_all_of_them(suite: Suite) -> None:
    result = suite(THREE, "--gpu=require", gpus=[L4])
    result.assert_outcomes(passed=3)
    assert result.ret == 0
    assert lines_of(result) == [
        "2 GPU tests ran on NVIDIA L4",
        "2 GPU tests passed without memory of torch on a GPU: test_it.py::test_marked, test_it.py::test_by_fixture",
    ]


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


def test_that_none_was_selected_is_said_with_where_to_look(suite: Suite) -> None:
    assert lines_of(suite(THREE, "--gpu=require", "-m", "not gpu", gpus=[L4])) == [
        "FAILED: --gpu=require, and no GPU test ran: none was selected",
        '  hint: look at -m, -k and the paths; -m "not gpu" goes without --gpu',
    ]


def test_what_is_there_is_said_once_for_all_that_was_needed(suite: Suite) -> None:
    source = THREE + "\n@pytest.mark.multi_gpu\ndef test_two(): pass"
    assert lines_of(suite(source)) == [
        "3 did not run; here: no GPU (torch is not installed)",
        "  2: needs 1 GPU",
        "  1: needs 2 GPUs",
    ]


def test_collecting_alone_is_no_failure(suite: Suite) -> None:
    assert suite(THREE, "--gpu=require", "--collect-only", gpus=[L4]).ret == 0


@pytest.mark.parametrize(
    ("marker", "gpus", "runs"),
    [
        ("gpu(count=2)", [L4], False),
        ("gpu(count=2)", [L4, L4], True),
        ("multi_gpu", [L4], False),
        ("multi_gpu", [L4, L4], True),
        ("multi_gpu(count=3)", [L4, L4], False),
        ("gpu(memory_gib=16)", [T4], True),
        ("gpu(memory_gib=24)", [T4], False),
        ("gpu(memory_gib=48)", [L40S], True),
        ("gpu(memory_gib=50)", [L40S], False),
        ('gpu(compute_capability="8.9")', [L4], True),
        ("gpu(compute_capability=(9, 0))", [L4], False),
        ("gpu(compute_capability=10.0)", [L4], False),
        ('gpu(model="L4")', [L4], True),
        ('gpu(model="l4")', [L4], True),
        ('gpu(model="L4")', [L40S], False),
        ('gpu(model=["H100", "L40S"])', [L40S], True),
        ("gpu(count=2, memory_gib=24)", [L4, T4], False),
        ("gpu(memory_gib=24)", [L4, T4], True),
    ],
)
def test_a_test_runs_where_its_first_gpus_are_what_it_asks_for(
    suite: Suite, marker: str, gpus: list[object], runs: bool
) -> None:
    result = suite(f"@pytest.mark.{marker}\ndef test_a(): pass", gpus=gpus)
    result.assert_outcomes(passed=int(runs), skipped=int(not runs))


def test_what_does_not_fit_is_said_in_full_and_fails_only_where_strict(suite: Suite) -> None:
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


def test_markers_select_by_what_a_test_needs_however_it_says_so(suite: Suite) -> None:
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


def test_every_mistake_in_a_marker_is_told_at_once_before_anything_runs(suite: Suite) -> None:
    source = """
@pytest.mark.gpu(2)
def test_a(): pass

@pytest.mark.gpu(count=0, memory="16", memory_gib="16", compute_capability="sm_89", model="", peak_gib=True)
def test_b(): pass
"""
    result = suite(source, gpus=[L4])
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    told = [line for line in result.errlines if "test_it.py" in line]
    node = "ERROR: test_it.py"
    assert told == [
        f"{node}: test_a: gpu: takes keywords only",
        f"{node}: test_b: gpu: count: not usable",
        f"{node}: test_b: gpu: memory: no such argument",
        f"{node}: test_b: gpu: memory_gib: not usable",
        f"{node}: test_b: gpu: compute_capability: not usable",
        f"{node}: test_b: gpu: model: not usable",
        f"{node}: test_b: gpu: peak_gib: not usable",
    ]
    at = result.errlines.index(told[1])
    assert result.errlines[at + 1 : at + 3] == ["  got: 0", "  expected: a number of GPUs, 1 or more"]


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
def test_a_place_that_is_none_is_refused(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, given: str, lines: list[str]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    result = suite(THREE, f"--gpu-id={given}", process=True)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert [line.removeprefix("ERROR: ") for line in result.errlines if line] == lines
