"""What NVML's two looks at a GPU mean, by the judge alone: answers of which a part is missing, and limits it tells."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from gpu_smoke.checks import Check
from gpu_smoke.judge import health, load
from gpu_smoke.judge.nvml_samples import Seen
from gpu_smoke.options import Options

from ..subjects import L4, SLICE

HEALTHY: dict[str, Any] = {
    "mig": {"on": False, "pending": False, "slices": []},
    "ecc": {"uncorrected": 0, "corrected": 0},
    "remap": {"rows": 0, "pending": False, "failed": False, "low": 0, "none": 0},
    "retired": {"pages": 0, "pending": False},
    "recovery": 0,
    "nvlink": {"refused": 3, "text": "not supported"},
    "pcie": {"generation": 4, "width": 16, "replays": 0},
    "processes": [],
    "events": 8,
}
SAMPLE = {
    "reasons": 0, "temperature": 50, "power": 60.0, "clock": 2000, "generation": 4, "width": 16,
}  # fmt: skip


def seen_under_load(samples: int, **more: Any) -> Seen:
    seen = Seen()
    for _ in range(samples):
        seen.add({**SAMPLE, **more}, 0)
    return seen


def judged(sample: dict[str, Any] | None = None, subject: Any = L4, **more: Any) -> dict[str, Check]:
    stages = {"gemm.speed": seen_under_load(3, **(sample or {}))}
    found = health.judge(Options("cuda"), subject, HEALTHY, {**HEALTHY, **more}, stages, [])
    return {check.id: check for check in found}


def test_a_healthy_gpu_passes_and_its_limit_is_no_error_at_all() -> None:
    found = judged()
    assert {name for name, check in found.items() if check.status != "pass"} == {"nvlink"}
    assert (found["ecc"].value, found["ecc"].fail_above) == (0.0, 0)


@pytest.mark.parametrize(
    ("before", "after", "status", "said"),
    [
        (5, 5, "pass", "5 corrected memory errors since the driver was loaded, 0 during this check"),
        (5, 6, "warn", "GPU 0: 6 corrected memory errors since the driver was loaded, 1 during this check"),
        (0, 0, "pass", "no memory errors since the driver was loaded"),
    ],
)
def test_corrected_errors_warn_where_the_check_itself_saw_them(before: int, after: int, status: str, said: str) -> None:
    was = {**HEALTHY, "ecc": {"uncorrected": 0, "corrected": before}}
    now = {**HEALTHY, "ecc": {"uncorrected": 0, "corrected": after}}
    found = {check.id: check for check in health.judge(Options("cuda"), L4, was, now, {}, [])}["ecc"]
    assert (found.status, found.message) == (status, said)


@pytest.mark.parametrize(("what", "status"), [("recovery", "skip"), ("retired", "warn")])
def test_a_field_that_an_old_driver_calls_an_invalid_argument_is_skipped(what: str, status: str) -> None:
    found = judged(**{what: {"refused": 2, "text": "no such field"}})[what]
    assert (found.status, found.message.endswith("NVML does not tell: no such field")) == (status, True)


def test_stages_that_were_not_timed_say_nothing_of_the_link_and_all_of_them_of_heat() -> None:
    parts = {"gemm": seen_under_load(3, generation=1, reasons=0x40), "copies": seen_under_load(3)}
    found = {check.id: check for check in health.judge(Options("cuda"), L4, HEALTHY, HEALTHY, parts, [])}
    assert (found["pcie"].message, found["throttle"].status) == ("generation 4 x16 under load", "warn")
    quick = {"gemm": seen_under_load(3, generation=1)}
    assert {check.id: check.status for check in health.judge(Options("cuda"), L4, HEALTHY, HEALTHY, quick, [])}[
        "pcie"
    ] == "skip"


def test_the_speeds_of_a_gpu_decide_about_its_link_and_its_heat() -> None:
    parts = {"gemm.speed": seen_under_load(20, reasons=0x40, width=8)}
    slow = Check("gemm.speed", "warn", "", gpu=0, warn_below=51.2)
    for index, copies, expected in (
        (0, 3.0, ("fail", "fail")),
        (1, 3.0, ("warn", "warn")),
        (0, 14.0, ("fail", "warn")),
    ):
        speeds = [replace(slow, gpu=index), Check("h2d", "skip", "", gpu=index, value=copies)]
        found = {c.id: c for c in health.judge(Options("cuda"), L4, HEALTHY, HEALTHY, parts, [], speeds)}
        assert (found["throttle"].status, found["pcie"].status) == expected
    better = {c.id: c for c in health.judge(Options("cuda"), L4, HEALTHY, HEALTHY, parts, [], (), "GPU 1 has more")}
    assert better["pcie"].message.endswith("; GPU 1 has more")


def test_a_driver_without_the_histogram_of_banks_misses_none() -> None:
    assert judged(remap={"rows": 2, "pending": False, "failed": False})["remap"].status == "pass"
    short = judged(remap={"rows": 2, "pending": False, "failed": False, "low": 1})["remap"]
    assert (short.status, short.message.rpartition(": ")[2]) == ("warn", "1")


@pytest.mark.parametrize("part", ["generation", "width"])
def test_a_link_of_which_only_a_part_is_told_is_not_judged(part: str) -> None:
    found = judged({part: {"refused": 3, "text": "not supported"}})["pcie"]
    assert (found.status, found.message) == ("skip", "NVML does not tell: not supported")


def test_processes_of_a_slice_are_not_told_and_that_is_no_fault() -> None:
    found = judged(subject=SLICE)["exclusive.processes"]
    assert (found.status, found.message) == ("skip", "NVML does not tell: whose processes run on a slice")


def test_a_card_that_never_meets_its_power_limit_is_not_excused_for_it() -> None:
    assert judged()["throttle"].message == "at its power limit in 0% of 3 samples"


@pytest.mark.parametrize(
    ("samples", "most", "said"),
    [
        (2, {"generation": 4, "width": 16}, "generation 4 x8, of a maximum of generation 4 x16"),
        (2, {"generation": 5, "width": 8}, "generation 4 x8, of a maximum of generation 5 x8"),
        (2, {"generation": 3, "width": 8}, ""),
        (1, {"generation": 4, "width": 16}, ""),
        (2, {"generation": 4, "width": 8}, ""),
        (2, {"refused": 3, "text": "not supported"}, ""),
        (2, None, ""),
    ],
)
def test_a_narrow_link_is_told_after_enough_samples_and_where_the_most_is_known(
    samples: int, most: Any, said: str
) -> None:
    assert load.narrow(most, seen_under_load(samples, width=8)) == said


@pytest.mark.parametrize("part", ["generation", "width"])
def test_a_link_of_which_a_part_was_never_told_is_not_taken_for_the_narrowest(part: str) -> None:
    assert load.narrow({"generation": 4, "width": 16}, seen_under_load(3, **{part: {"refused": 3, "text": "no"}})) == ""


@pytest.mark.parametrize(
    ("samples", "status", "said"),
    [
        (2, "pass", "generation 4 x16 under load"),
        (1, "skip", "never seen under load: --profile standard loads it for seconds"),
    ],
)
def test_a_link_is_judged_from_the_second_sample_under_load(samples: int, status: str, said: str) -> None:
    found = load.pcie(L4, HEALTHY["pcie"], HEALTHY["pcie"], seen_under_load(samples), None, "")
    assert (found.status, found.message) == (status, said)


def test_a_link_whose_width_nobody_tells_is_not_judged() -> None:
    seen = seen_under_load(2, width={"refused": 3, "text": "no"})
    found = load.pcie(L4, HEALTHY["pcie"], HEALTHY["pcie"], seen, None, "")
    assert (found.status, found.message) == ("skip", "not told here")


@pytest.mark.parametrize(("errors", "status"), [(0, "pass"), (1, "warn"), (2, "warn")])
def test_one_error_of_a_link_is_worth_a_word(errors: int, status: str) -> None:
    was = {"links": 2, "active": 2, "errors": 5}
    found = load.nvlink(L4, was, {**was, "errors": 5 + errors})
    assert (found.status, found.value) == (status, 2.0)


@pytest.mark.parametrize(("others", "said"), [(1, "1 other process before"), (2, "2 other processes before")])
def test_other_processes_are_counted_and_none_is_allowed(others: int, said: str) -> None:
    found = load.processes(L4, [77] * others, Seen())
    assert (found.status, found.fail_above) == ("fail", 0)
    assert f"computes for {said} the check began" in found.message
