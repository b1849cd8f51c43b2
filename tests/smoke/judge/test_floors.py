"""Each floor can be failed and can be passed: for every GPU of the table, a number just below it and one just above."""

from __future__ import annotations

import math

import pytest
from gpu_smoke.checks import Check
from gpu_smoke.data.gpus import ALLREDUCE, FAIL, GPUS, SOURCES, WARN, Gpu
from gpu_smoke.judge import between_gpus, completeness, gemm, speed, transfer, values
from gpu_smoke.judge.subject import Subject
from gpu_smoke.plan import HEALTH, PROFILES
from hypothesis import given
from hypothesis import strategies as st

EACH = pytest.mark.parametrize("key", GPUS)


def subject(key: str, index: int = 0) -> Subject:
    gpu = GPUS[key]
    return Subject(index, gpu.names[0], gpu.capability, gpu.sm, gpu.memory_gb * 10**9)


def product(key: str, tflops: float) -> Check:
    [found] = gemm.timed(subject(key), {"tflops": tflops, "dtype": GPUS[key].dtype})
    return found


def copy(key: str, gbs: float) -> Check:
    [found] = transfer.memory(subject(key), {"gbs": gbs})
    return found


@EACH
@pytest.mark.parametrize(("judge", "field"), [(product, "gemm"), (copy, "copy")])
def test_just_below_each_floor_is_worse_than_just_above_it(key: str, judge: type, field: str) -> None:
    known = getattr(GPUS[key], field)
    warn, fail = known.lowest * WARN, known.lowest * FAIL
    statuses = [judge(key, value).status for value in (warn * 1.001, warn * 0.999, fail * 1.001, fail * 0.999)]
    assert statuses == ["pass", "warn", "warn", "warn" if known.alone else "fail"]
    assert ("fail_below" in judge(key, 1.0).record()) is not known.alone


@EACH
def test_what_fails_for_speed_ends_with_3_and_says_the_floor_and_its_source(key: str) -> None:
    for found, known in ((product(key, 0.01), GPUS[key].gemm), (copy(key, 0.01), GPUS[key].copy)):
        assert found.reference == f"{key}: {', '.join(known.sources)}"
        assert found.severity == ("" if known.alone else "perf")
        assert f"should reach {known.lowest * WARN:.4g}" in found.message


@EACH
def test_memory_below_its_least_fails(key: str) -> None:
    least = 0.93 * GPUS[key].memory_gb * 1e9
    for size, status in ((math.ceil(least), "pass"), (math.ceil(least) - 1, "fail")):
        gpu = Subject(0, GPUS[key].names[0], "8.0", 1, size)
        found = {check.id: check.status for check in values.memory(gpu, {"free": size, "total": size})}
        assert found == {"mem.total": status, "exclusive": "pass"}


@pytest.mark.parametrize("key", [key for key, gpu in GPUS.items() if gpu.host])
@pytest.mark.parametrize("way", ["h2d", "d2h"])
def test_host_links_warn_below_the_one_published_floor(key: str, way: str) -> None:
    floor = GPUS[key].host or 0
    for factor, status in ((1.001, "pass"), (0.999, "warn"), (0.1, "warn")):
        measured = {"h2d": floor * 2, "d2h": floor * 2, "same": True, way: floor * factor}
        found = {check.id: check for check in transfer.host(subject(key), measured)}
        assert found[way].status == status
        assert found[way].warn_below == pytest.approx(floor)


@pytest.mark.parametrize("key", [key for key, gpu in GPUS.items() if not gpu.host])
def test_host_links_without_a_published_floor_are_reported(key: str) -> None:
    found = transfer.host(subject(key), {"h2d": 3.0, "d2h": 2.0, "same": True})
    assert [(check.status, check.value) for check in found] == [("skip", 3.0), ("skip", 2.0)]


@pytest.mark.parametrize("key", ALLREDUCE)
def test_eight_gpus_with_nvlink_warn_below_the_sum_they_should_reach(key: str) -> None:
    for world, gbs, status in ((8, ALLREDUCE[key] + 1, "pass"), (8, ALLREDUCE[key] - 1, "warn"), (2, 20.0, "pass")):
        [found] = between_gpus.reduction(subject(key), {"right": True, "gbs": gbs, "world": world})
        assert found.status == status


@EACH
def test_every_row_is_whole(key: str) -> None:
    row: Gpu = GPUS[key]
    for known in (row.gemm, row.copy):
        assert set(known.sources) <= set(SOURCES)
        assert len(known.sources) > 1 or known.alone
    assert {Subject(0, name).key for name in row.names} == {key}
    assert row.n % 64 == 0


@given(st.floats(allow_nan=False, min_value=0.001, max_value=1e6), st.sampled_from(sorted(GPUS)))
def test_a_faster_gpu_is_never_judged_worse(value: float, key: str) -> None:
    order = ["fail", "warn", "pass"]
    assert order.index(product(key, value).status) <= order.index(product(key, value * 1.01).status)


@given(st.integers(1, 108))
def test_a_slice_must_reach_its_share_and_never_more_than_the_whole(sm: int) -> None:
    part = Subject(0, "NVIDIA A100-SXM4-80GB MIG 1g.10gb", "8.0", sm, 10 * 10**9)
    whole = GPUS["a100-80gb"].gemm.lowest * FAIL
    [found] = gemm.timed(part, {"tflops": 1e6, "dtype": "bfloat16"})
    assert found.fail_below == pytest.approx(whole * sm / 108, rel=1e-3)


def test_a_speed_of_nothing_is_a_failure_and_no_skip() -> None:
    assert product("l4", 0.0).status == "fail"


def test_the_median_needs_two_of_one_model() -> None:
    two = {0: subject("l4"), 1: subject("l4", 1)}

    def timed(*values: float) -> list[Check]:
        return [Check("gemm.speed", "pass", "", gpu=gpu, value=value) for gpu, value in enumerate(values)]

    assert speed.against_peers({0: two[0]}, timed(70.0)) == []
    assert [c.status for c in speed.against_peers(two, timed(70.0, 70.0))] == ["pass", "pass"]
    assert [c.status for c in speed.against_peers(two, timed(70.0, 30.0))] == ["pass", "fail"]


def answers(profile: str, gpu: Subject, status: str = "pass") -> list[Check]:
    """A check for everything that a profile owes of one L4."""
    found = []
    for stage in PROFILES[profile].gpu:
        dtypes = ("float32", "float16", "bfloat16") if stage.name == "gemm" else ("",)
        found += [
            Check(what, status if what in stage.speeds else "pass", "", gpu.index, dtype)
            for dtype in dtypes
            for what in stage.checks
        ]
    found += [Check(what, "pass", "", gpu.index) for what in HEALTH]
    return [
        *found,
        Check("nvml", "pass", ""),
        *(Check(what, "pass", "") for stage in PROFILES[profile].host for what in stage.checks),
    ]


@pytest.mark.parametrize("profile", PROFILES)
def test_each_check_that_never_answered_is_missed(profile: str) -> None:
    gpu = subject("l4")
    everything = answers(profile, gpu)
    assert completeness.complete(PROFILES[profile], [gpu], everything) == []
    for left_out in everything:
        rest = [check for check in everything if check is not left_out]
        [found] = completeness.complete(PROFILES[profile], [gpu], rest)
        named = "NVML" if left_out.id == "nvml" else left_out.dtype or left_out.id
        assert named in found.message
        assert found.status == "error"


def test_where_nvml_was_not_asked_nothing_is_expected_of_it() -> None:
    gpu = subject("l4")
    without = [check for check in answers("quick", gpu) if check.id not in ("nvml", *HEALTH)]
    for status in ("skip", "warn"):
        assert completeness.complete(PROFILES["quick"], [gpu], [*without, Check("nvml", status, "")]) == []
    assert completeness.complete(PROFILES["quick"], [Subject(None, "CPU")], []) != []
    assert "NVML" not in str(completeness.complete(PROFILES["quick"], [Subject(None, "CPU")], []))


def test_speeds_that_were_all_skipped_are_no_pass_on_a_gpu_that_the_table_knows() -> None:
    known, unknown = subject("l4"), Subject(0, "NVIDIA New", "8.9", 58, 24 * 10**9)
    found = completeness.complete(PROFILES["standard"], [known], answers("standard", known, "skip"))
    assert [check.message for check in found] == ["no speed of GPU 0 was judged, so nothing is proven"]
    assert completeness.complete(PROFILES["standard"], [unknown], answers("standard", unknown, "skip")) == []


def test_without_a_device_nothing_is_proven() -> None:
    found = completeness.complete(PROFILES["quick"], [], [])
    assert [check.message for check in found] == ["nothing was computed, so nothing is proven"]
