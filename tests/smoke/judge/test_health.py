"""The judge of NVML's answers before and after the work: incomplete answers, and values at their limits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from gpu_smoke.checks import Check
from gpu_smoke.judge import health, load
from gpu_smoke.judge.nvml_samples import Samples
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


def seen_under_load(samples: int, **more: Any) -> Samples:
    seen = Samples()
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


def test_the_link_is_judged_by_timed_stages_and_heat_by_all_stages() -> None:
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
def test_a_link_with_a_missing_value_is_not_judged(part: str) -> None:
    found = judged({part: {"refused": 3, "text": "not supported"}})["pcie"]
    assert (found.status, found.message) == ("skip", "NVML does not report it: not supported")


def test_processes_of_a_slice_are_not_reported_which_is_no_fault() -> None:
    found = judged(subject=SLICE)["exclusive.processes"]
    assert (found.status, found.message) == ("skip", "NVML does not report it: the processes of a slice")


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
def test_a_narrow_link_is_reported_after_enough_samples_if_its_maximum_is_known(
    samples: int, most: Any, said: str
) -> None:
    assert load.narrow(most, seen_under_load(samples, width=8)) == said


@pytest.mark.parametrize("part", ["generation", "width"])
def test_a_link_with_a_missing_value_does_not_count_as_the_narrowest(part: str) -> None:
    assert load.narrow({"generation": 4, "width": 16}, seen_under_load(3, **{part: {"refused": 3, "text": "no"}})) == ""


@pytest.mark.parametrize(
    ("samples", "status", "said"),
    [
        (2, "pass", "generation 4 x16 under load"),
        (1, "skip", "too few samples under load: --profile standard loads the GPU for seconds"),
    ],
)
def test_a_link_is_judged_from_the_second_sample_under_load(samples: int, status: str, said: str) -> None:
    found = load.pcie(L4, HEALTHY["pcie"], HEALTHY["pcie"], seen_under_load(samples), None, "")
    assert (found.status, found.message) == (status, said)


def test_a_link_of_unknown_width_is_not_judged() -> None:
    seen = seen_under_load(2, width={"refused": 3, "text": "no"})
    found = load.pcie(L4, HEALTHY["pcie"], HEALTHY["pcie"], seen, None, "")
    assert (found.status, found.message) == ("skip", "NVML does not report it")


@pytest.mark.parametrize(("errors", "status"), [(0, "pass"), (1, "warn"), (2, "warn")])
def test_one_error_of_an_nvlink_is_a_warning(errors: int, status: str) -> None:
    was = {"links": 2, "active": 2, "errors": 5}
    found = load.nvlink(L4, was, {**was, "errors": 5 + errors})
    assert (found.status, found.value) == (status, 2.0)


@pytest.mark.parametrize(("others", "said"), [(1, "1 other process before"), (2, "2 other processes before")])
def test_other_processes_are_counted_and_none_is_allowed(others: int, said: str) -> None:
    found = load.processes(L4, [77] * others, Samples())
    assert (found.status, found.fail_above) == ("fail", 0)
    assert f"was used by {said} the check began" in found.message


@pytest.mark.parametrize(
    ("event", "status", "severity", "said"),
    [
        ({"driver": "580.1", "gpus": [1, 2]}, "pass", "", "driver 580.1, 2 GPU(s)"),
        ({"refused": 12, "text": "x"}, "skip", "", "libnvidia-ml.so.1 is missing"),
        ({"refused": 18, "text": "x"}, "fail", "env", "NVML does not start: x"),
        ({"refused": 9, "text": "x"}, "fail", "env", "NVML does not start: x"),
        ({"refused": 999, "text": "x"}, "warn", "", "NVML does not start: x"),
    ],
)
def test_each_error_of_nvmls_start_has_its_meaning(
    event: dict[str, Any], status: str, severity: str, said: str
) -> None:
    found = health.started(event)
    assert (found.status, found.severity) == (status, severity)
    assert found.message.startswith(said)
    actions = {18: "reboot", 9: "fix-driver"}
    assert found.action == actions.get(event.get("refused", 0), "")


def test_a_gpu_that_nvml_does_not_list_warns_where_cuda_names_it_by_a_uuid() -> None:
    named, nameless = health.not_listed(L4, "GPU-1"), health.not_listed(L4, "")
    assert [(check.id, check.status) for check in named if check.status != "skip"] == [("nvml", "warn")]
    assert {check.status for check in nameless} == {"skip"}
    assert len(named) == len(nameless) + 1


def test_gpus_that_cuda_does_not_show_are_lost_or_split_into_nothing() -> None:
    off: dict[str, Any] = {"uuid": "GPU-1", "mig": {"on": False, "slices": []}}
    empty = {"uuid": "GPU-1", "mig": {"on": True, "slices": []}}
    split = {"uuid": "GPU-1", "mig": {"on": True, "slices": ["MIG-1"]}}
    gone = {"uuid": {"refused": 15, "text": "lost"}, "mig": {"refused": 15, "text": "lost"}}
    told = {"refused": 3, "text": "no"}
    assert [check.id for check in health.hidden_from_cuda([empty], 0)] == ["mig"]
    for fine, seen in ((off, 0), (empty, 1), (split, 0), ({"uuid": "GPU-1", "mig": told}, 0)):
        assert health.hidden_from_cuda([fine], seen) == []
    assert [(check.id, check.action) for check in health.hidden_from_cuda([gone, empty], 0)] == [
        ("gpu.lost", "replace-node"), ("mig", "fix-pool"),
    ]  # fmt: skip


def before_and_after(was: dict[str, Any], now: dict[str, Any], **more: Any) -> dict[str, Check]:
    options, subject = more.get("options", Options("cuda")), more.get("subject", L4)
    found = health.judge(options, subject, {**HEALTHY, **was}, {**HEALTHY, **now}, {}, more.get("xids", []))
    return {check.id: check for check in found}


@pytest.mark.parametrize("side", [0, 1])
def test_an_answer_that_is_missing_before_or_after_is_not_judged(side: int) -> None:
    missing = {"ecc": {"refused": 3, "text": "no"}}
    found = before_and_after(*((missing, {}) if side == 0 else ({}, missing)))
    assert (found["ecc"].status, found["ecc"].message) == ("skip", "NVML does not report it: no")


@pytest.mark.parametrize(("code", "status"), [(3, "skip"), (15, "skip"), (999, "warn")])
def test_an_error_that_nvml_should_not_give_warns(code: int, status: str) -> None:
    found = before_and_after({}, {"remap": {"refused": code, "text": "no"}})
    assert found["remap"].status == status
    assert ("gpu.lost" in found) is (code == 15)


@pytest.mark.parametrize(
    ("mode", "expected", "subject", "status", "said"),
    [
        ({"on": False, "pending": False, "slices": []}, "", L4, "pass", "off"),
        ({"on": False, "pending": True, "slices": []}, "", L4, "warn", "off until the next reset, then on"),
        ({"on": True, "pending": True, "slices": ["a"]}, "", L4, "fail", "MIG is on at GPU 0"),
        ({"on": True, "pending": True, "slices": ["a"]}, "A100 MIG", L4, "pass", "on; slices of 1"),
        ({"on": True, "pending": True, "slices": ["a"]}, "A100", L4, "fail", "MIG is on at GPU 0"),
        ({"on": True, "pending": True, "slices": ["a", "b"]}, "", SLICE, "pass", "on; 1g.10gb of 2"),
    ],
    ids=str,
)
def test_mig(mode: dict[str, Any], expected: str, subject: Any, status: str, said: str) -> None:
    options = Options("cuda", expect_gpu=expected)
    found = before_and_after({"mig": mode}, {}, options=options, subject=subject)["mig"]
    assert (found.status, found.message.startswith(said)) == (status, True)


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        (0, 1, "1 uncorrected memory errors since the driver was loaded, 1 of them during this check"),
        (2, 2, "2 uncorrected memory errors since the driver was loaded"),
        (3, 2, "2 uncorrected memory errors since the driver was loaded"),
    ],
)
def test_uncorrected_errors_fail_whenever_they_came(was: int, now: int, said: str) -> None:
    told = [{"ecc": {"uncorrected": count, "corrected": 0}} for count in (was, now)]
    found = before_and_after(*told)["ecc"]
    assert (found.status, found.action) == ("fail", "reset-gpu")
    assert found.message == f"GPU 0 lost data: {said}"


@pytest.mark.parametrize(
    ("pages", "pending", "status", "action"),
    [(62, False, "pass", ""), (63, False, "fail", "replace-node"), (62, True, "fail", "reset-gpu")],
)
def test_pages_that_were_retired(pages: int, pending: bool, status: str, action: str) -> None:
    found = before_and_after({}, {"retired": {"pages": pages, "pending": pending}})["retired"]
    assert (found.status, found.action, found.value) == (status, action, float(pages))


@pytest.mark.parametrize(
    ("more", "status", "action"),
    [
        ({"failed": True}, "fail", "replace-node"), ({"pending": True}, "fail", "reset-gpu"), ({"none": 1}, "warn", ""),
        ({"low": 1}, "warn", ""), ({}, "pass", ""),
    ],
)  # fmt: skip
def test_rows_that_were_replaced(more: dict[str, Any], status: str, action: str) -> None:
    found = before_and_after({}, {"remap": {**HEALTHY["remap"], **more}})["remap"]
    assert (found.status, found.action) == (status, action)


@pytest.mark.parametrize(
    ("now", "status", "action"),
    [(0, "pass", ""), (1, "fail", "reset-gpu"), (2, "fail", "reboot"), (99, "fail", "replace-node")],
)
def test_a_recovery_that_the_driver_requires_fails(now: int, status: str, action: str) -> None:
    found = before_and_after({}, {"recovery": now})["recovery"]
    assert (found.status, found.action) == (status, action)


@pytest.mark.parametrize(
    ("xids", "events", "status", "action"),
    [
        ([], 8, "pass", ""), ([], 0, "skip", ""), ([], {"refused": 999, "text": "no"}, "warn", ""),
        ([48], 0, "fail", "reset-gpu"), ([31], 8, "warn", ""), ([31, 79], 8, "fail", "reboot"), ([7777], 8, "warn", ""),
    ],
)  # fmt: skip
def test_xids(xids: list[int], events: Any, status: str, action: str) -> None:
    found = before_and_after({"events": events}, {}, xids=xids)["xid"]
    assert (found.status, found.action) == (status, action)


def test_a_stopped_run_reports_only_certain_failures() -> None:
    seen = seen_under_load(3)
    assert health.certain_failures(L4, HEALTHY, seen, []) == []
    assert health.certain_failures(L4, HEALTHY, seen, [31]) == []
    assert [check.id for check in health.certain_failures(L4, HEALTHY, seen, [79])] == ["xid"]
    away = seen_under_load(3, temperature={"refused": 15, "text": "lost"})
    assert [check.id for check in health.certain_failures(L4, HEALTHY, away, [79])] == ["gpu.lost", "xid"]
    assert [
        check.id for check in health.certain_failures(L4, {**HEALTHY, "ecc": {"refused": 15, "text": "x"}}, seen, [])
    ] == ["gpu.lost"]
