"""The rules about GPU, driver and torch: each at its edge, and the nearest combination that works."""

from __future__ import annotations

import itertools

import pytest
from gpu_smoke.compat import data
from gpu_smoke.compat import rules as compat
from gpu_smoke.compat.rules import Pair, Verdict


def rules(verdict: Verdict) -> list[str]:
    return [problem.rule for problem in verdict.problems]


@pytest.mark.parametrize(
    ("capability", "driver", "torch", "rule", "nearest"),
    [
        ("7.0", 595, None, "driver.dropped-gpu", Pair(580, None)),
        ("6.1", 590, None, "driver.dropped-gpu", Pair(580, None)),
        ("10.0", 550, None, "driver.before-gpu", Pair(580, None)),
        ("10.3", 575, None, "driver.before-gpu", Pair(580, None)),
        ("6.0", 366, None, "driver.before-gpu", Pair(580, None)),
        ("7.0", 383, None, "driver.before-gpu", Pair(580, None)),
        ("7.5", 409, None, "driver.before-gpu", Pair(580, None)),
        ("8.0", 449, None, "driver.before-gpu", Pair(580, None)),
        ("8.6", 454, None, "driver.before-gpu", Pair(580, None)),
        ("8.9", "450.80.02", "2.7.0+cu118", "driver.before-gpu", Pair(580, "2.7.0+cu118")),
        ("9.0", "450.80.02", "2.7.0+cu118", "driver.before-gpu", Pair(580, "2.7.0+cu118")),
        ("7.5", "535.183.01", "2.13.0", "driver.before-cuda", Pair(535, "2.13.0+cu126")),
        ("8.9", 570, "2.15.0", "driver.before-cuda", Pair(570, "2.14.0+cu126")),
        ("8.0", 470, "2.9.1+cu126", "driver.before-cuda", Pair(470, "2.7.0+cu118")),
        # CUDA 10 and before: no minor version runs on the driver of another.
        ("7.5", 439, "1.10.0+cu102", "driver.before-cuda", Pair(580, "1.10.0+cu102")),
        ("7.0", 417, "1.6.0+cu101", "driver.before-cuda", Pair(580, "1.6.0+cu101")),
        ("6.0", 395, "1.4.0+cu92", "driver.before-cuda", Pair(580, "1.4.0+cu92")),
        ("7.0", 580, "2.11.0", "torch.no-kernels", Pair(580, "2.11.0+cu126")),
        ("7.0", 580, "2.7.1+cu128", "torch.no-kernels", Pair(580, "2.7.1+cu126")),
        ("6.0", 580, "2.8.0", "torch.no-kernels", Pair(580, "2.8.0+cu126")),
        ("7.0", 580, "2.15.0", "torch.no-kernels", Pair(580, "2.14.0+cu126")),
        ("12.0", 580, "2.6.0", "torch.no-kernels", Pair(580, "2.7.0+cu128")),
        ("10.0", 570, "2.9.1+cu126", "torch.no-kernels", Pair(570, "2.9.1+cu128")),
        ("9.0", 580, "2.8.0+cu121", "torch.no-build", Pair(580, "2.8.0+cu128")),
        ("9.0", 580, "2.9.1+cpu", "torch.no-cuda", Pair(580, "2.9.1+cu128")),
        ("9.0", 580, "2.9.1+rocm6.4", "torch.no-cuda", Pair(580, "2.9.1+cu128")),
    ],
)
def test_a_combination_that_cannot_work_is_refused_with_the_nearest_that_works(
    capability: str, driver: int | str, torch: str | None, rule: str, nearest: Pair
) -> None:
    verdict = compat.check(capability, driver, torch)
    assert rules(verdict) == [rule]
    assert verdict.nearest == nearest


@pytest.mark.parametrize(
    ("capability", "driver", "torch"),
    [
        ("7.0", 580, "2.10.0"),  # the last default wheel with Volta in it
        ("7.0", 580, "2.14.0+cu126"),
        ("6.0", 535, "2.8.0+cu126"),
        ("7.5", 580, "2.15.0"),
        ("8.9", "580.173.02", "2.15.0"),  # no sm_89 in any list: sm_86 runs there
        ("8.6", 525, "2.9.1"),
        ("9.0", 595, "2.9.1+cu129"),
        ("10.0", 570, "2.8.0"),
        ("10.3", 580, "2.13.0"),  # sm_100 runs on 10.3
        ("12.0", 570, "2.7.0+cu128"),
        ("12.0", 595, "2.15.0"),
    ],
)
def test_a_combination_that_works_is_not_refused(capability: str, driver: int | str, torch: str) -> None:
    verdict = compat.check(capability, driver, torch)
    assert verdict.problems == ()
    assert verdict.works
    assert verdict.nearest is None


def test_every_reason_is_named_at_once() -> None:
    verdict = compat.check("7.0", 595, "2.15.0", module="open")
    assert rules(verdict) == ["driver.dropped-gpu", "driver.module", "torch.no-kernels"]
    assert (
        verdict.problems[0].text == "driver branch 595 does not support Volta (7.0): the last branch that does is 580"
    )
    assert verdict.nearest == Pair(580, "2.14.0+cu126")


@pytest.mark.parametrize(("capability", "module"), [("7.0", "open"), ("12.0", "proprietary"), ("10.0", "proprietary")])
def test_the_kernel_module_has_to_fit_the_generation(capability: str, module: str) -> None:
    other = {"open": "proprietary", "proprietary": "open"}[module]
    assert rules(compat.check(capability, 580, module=module)) == ["driver.module"]
    assert compat.check(capability, 580, module=other).works
    assert compat.check("8.0", 580, module=module).works


@pytest.mark.parametrize(
    ("torch", "python", "works"),
    [
        ("2.9.1", (3, 9), False),
        ("2.9.1", (3, 10), True),
        ("2.9.1", (3, 14), True),
        ("2.8.0", (3, 14), False),
        ("2.15.0", (3, 10), False),
        ("2.15.0", (3, 15), True),
        ("2.5.1", (3, 13), True),
    ],
)
def test_a_wheel_is_for_some_pythons(torch: str, python: tuple[int, int], works: bool) -> None:
    assert rules(compat.check("8.9", 580, torch, python=python)) == ([] if works else ["torch.python"])


def test_the_build_of_pypi_for_arm_is_for_the_cpu_or_unknown() -> None:
    verdict = compat.check("10.0", 580, "2.9.1", machine="arm64")
    assert [problem.text for problem in verdict.problems] == ["torch 2.9.1 from PyPI is for the CPU on arm64"]
    later = compat.check("10.0", 580, "2.12.0", machine="arm64")
    assert later.works
    assert later.unknown == (
        "the build of torch 2.12.0 on PyPI for arm64 is unknown: add one to the version, such as +cu130",
    )


def test_no_arm_wheel_has_kernels_for_turing_and_nothing_near_is_made_up() -> None:
    verdict = compat.check("7.5", 580, "2.12.0+cu130", machine="arm64")
    assert rules(verdict) == ["torch.no-kernels"]
    assert verdict.nearest is None


@pytest.mark.parametrize("torch", ["1.12.1", "2.99.0", "2.99.0+cu150"])
def test_a_release_that_is_not_in_the_table_is_unknown_and_not_refused(torch: str) -> None:
    verdict = compat.check("8.9", 580, torch)
    assert verdict.works
    assert verdict.unknown == (f"torch {torch[: torch.rindex('.')]} for x86_64 is not in the tables",)


@pytest.mark.parametrize(
    ("torch", "newest"), [("2.9.99", "2.9.1"), ("2.10.1", "2.10.0"), ("2.9.2+cu130", "2.9.1"), ("2.14.2", "2.14.1")]
)
def test_a_patch_release_that_is_not_in_the_table_is_unknown_and_not_recommended(torch: str, newest: str) -> None:
    verdict = compat.check("8.9", 580, torch)
    assert verdict.works
    patch = torch.partition("+")[0]
    assert verdict.unknown == (f"torch {patch} is not in the tables: their newest patch of this release is {newest}",)
    assert compat.check("8.9", 580, newest).unknown == ()
    nearest = compat.check("7.0", 580, f"{patch}+cpu").nearest
    assert nearest
    assert nearest.torch
    assert compat.parse_wheel(nearest.torch).version == newest.rpartition(".")[0] + ".0"


def test_a_driver_branch_that_is_not_in_the_table_is_unknown_and_not_refused() -> None:
    verdict = compat.check("8.9", "999.10", "2.9.1")
    assert verdict.works
    assert verdict.unknown == ("driver branch 999 is not in the table of drivers",)
    assert compat.check("8.9", 580, "2.9.1").unknown == ()


def test_the_nearest_torch_is_one_for_the_same_python() -> None:
    verdict = compat.check("8.9", 580, "2.15.0", python=(3, 10))
    assert [problem.text for problem in verdict.problems] == ["torch 2.15.0 supports Python 3.11 to 3.15, not 3.10"]
    assert verdict.nearest == Pair(580, "2.14.0+cu130")
    assert compat.check("8.9", 580, "2.15.0", python=(3, 16)).nearest is None


def test_another_driver_is_offered_only_if_a_driver_was_given() -> None:
    wheel = compat.parse_wheel("2.13.0")
    assert compat.alternatives("7.5", 535, wheel) == (Pair(535, "2.13.0+cu126"), Pair(580, "2.13.0+cu130"))
    assert compat.alternatives("7.0", None, wheel) == (Pair(None, "2.13.0+cu126"),)
    assert compat.alternatives("7.0", 595, None) == (Pair(580, None),)
    assert compat.alternatives("7.5", None, compat.parse_wheel("2.12.0+cu130", "arm64"), machine="arm64") == ()


def test_an_unknown_release_with_a_known_cuda_still_needs_its_driver() -> None:
    assert rules(compat.check("8.9", 570, "2.99.0+cu134")) == ["driver.before-cuda"]


@pytest.mark.parametrize("text", ["58", "5800", "580-server", "", "R58"])
def test_an_invalid_driver_version_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="not a driver"):
        compat.branch_of(text)


def test_the_newest_cuda_of_a_driver_is_that_of_its_branch() -> None:
    assert compat.newest_cuda("580.159.03") == (13, 0)
    assert compat.newest_cuda(999) is None


def test_code_runs_on_its_own_major_from_its_minor_up() -> None:
    assert compat.runs(86, 89)
    assert compat.runs(100, 103)
    assert not compat.runs(89, 86)
    assert not compat.runs(80, 87)  # a Jetson runs its own code only
    assert not compat.runs(90, 100)
    assert compat.runs(80, 87, (13, 2))  # and what servers run, from this CUDA on
    assert compat.runs(101, 110)  # one name for the other


def test_the_nearest_always_works_and_there_is_one_for_every_gpu_of_a_cloud() -> None:
    clouds = ("6.0", "6.1", "7.0", "7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "10.3", "12.0")
    torches = [f"{release}.0+{build}" for release, row in data.X86.items() for build in row.builds]
    for capability, branch, torch in itertools.product(clouds, (470, 535, 580, 595), torches):
        verdict = compat.check(capability, branch, torch)
        if not verdict.works:
            assert verdict.nearest, (capability, branch, torch)
            again = compat.check(capability, verdict.nearest.branch, verdict.nearest.torch)
            assert again.works, (capability, branch, torch)


def test_a_jetson_has_no_such_wheel_before_cuda_13_2_and_none_is_made_up() -> None:
    assert compat.check("5.3", 580, "2.9.1").nearest is None
    assert compat.check("8.7", 580, "2.9.1+cu130", machine="arm64").nearest == Pair(580, "2.12.0+cu132")


def test_every_row_names_a_source() -> None:
    named = {row.source for row in (*data.ARCHS, *data.BRANCHES.values())}
    named |= {row.source for table in data.RELEASES.values() for row in table.values()}
    assert named <= set(data.SOURCES)
