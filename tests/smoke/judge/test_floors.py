"""Each floor can be failed and can be passed: for every GPU of the table, a number just below it and one just above."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from gpu_catalog.data_files import document
from gpu_smoke.checks import Check
from gpu_smoke.data.gpus import ALLREDUCE, FAIL, FLOP_PER_CLOCK, GPUS, Gpu
from gpu_smoke.judge import between_gpus, completeness, results, speed
from gpu_smoke.judge.subject import Subject
from gpu_smoke.plan import HEALTH, PROFILES
from hypothesis import given
from hypothesis import strategies as st

EACH = pytest.mark.parametrize("key", GPUS)
# Every model with a published measurement of its products, or of copies in its memory.
FLOORS = [(key, field) for key, gpu in GPUS.items() for field in ("gemm", "copy") if getattr(gpu, field)]


def subject(key: str, index: int = 0) -> Subject:
    gpu = GPUS[key]
    return Subject(index, gpu.names[0], gpu.capability, gpu.sm, gpu.memory_gb * 10**9)


def product(key: str, tflops: float) -> Check:
    [found] = results.timed(subject(key), {"tflops": tflops, "dtype": GPUS[key].dtype})
    return found


def copy(key: str, gbs: float) -> Check:
    [found] = speed.memory(subject(key), {"gbs": gbs})
    return found


def judged(key: str, field: str, value: float) -> Check:
    return (product if field == "gemm" else copy)(key, value)


@pytest.mark.parametrize(("key", "field"), FLOORS)
def test_just_below_each_floor_is_worse_than_just_above_it(key: str, field: str) -> None:
    known = getattr(GPUS[key], field)
    warn, fail = known.lowest * known.warn, known.lowest * known.fail
    values = (warn * 1.001, warn * 0.999, fail * 1.001, fail * 0.999)
    assert [judged(key, field, value).status for value in values] == ["pass", "warn", "warn", "fail"]
    found = judged(key, field, 1e6)
    assert (found.warn_below, found.fail_below) == (round(warn, 4), round(fail, 4))
    found = judged(key, field, 0.01)
    assert found.reference == f"{key}: {', '.join(known.sources)}"
    assert (found.severity, found.action) == ("perf", "replace-node")
    assert found.message.endswith(f"should reach {round(warn, 4):.4g} and must reach {round(fail, 4):.4g}")
    # A figure of one party may be wrong by more than those of several.
    parties = {figure.source for figure in (GPUS[key].products if field == "gemm" else GPUS[key].copies)}
    assert (known.warn, known.fail) == (0.9, 0.75 if len(parties) > 1 else 0.5)


@EACH
def test_a_floor_is_never_above_a_figure_of_the_very_size_and_format_that_is_timed(key: str) -> None:
    gpu = GPUS[key]
    timed = [figure.value for figure in gpu.products if (figure.dtype, figure.n) == (gpu.dtype, gpu.n)]
    others = [figure.value for figure in gpu.products]
    # A figure of the best size says what a card can do for a moment: 0.80 of it is what the timed size reaches.
    most = min(others) if timed else 0.8 * min(others, default=0.0)
    assert (gpu.gemm.lowest if gpu.gemm else 0.0) == pytest.approx(most)
    assert {figure.dtype for figure in gpu.products} <= {gpu.dtype}
    assert all(not figure.dtype and not figure.n for figure in gpu.copies)
    assert [
        figure for figure in gpu.products if figure.n == gpu.n and product(key, figure.value).status != "pass"
    ] == []


HEALTHY = [
    ("l4", 59.40), ("l4", 56.90), ("l4", 53.80),  # zzc120, also warm and in float16
    ("a100-pcie-40gb", 215.26), ("a100-pcie-40gb", 197.51),  # zzc108, also in float16
    ("a100-pcie-80gb", 205.0), ("v100-sxm2-16gb", 89.37), ("p100-pcie-16gb", 7.81), ("b200", 1420.0),
    ("h100-sxm", 687.9), ("h200-sxm", 668.7), ("t4", 24.0), ("h20", 138.60),
]  # fmt: skip
A_TENTH = [
    ("a10g", "gemm", 6), ("b200", "gemm", 50), ("l40s", "gemm", 50), ("a100-40gb", "gemm", 60),
    ("p100-pcie-16gb", "gemm", 2), ("rtx-pro-6000-se", "gemm", 100), ("v100-sxm2-32gb", "gemm", 3),
    ("h100-sxm", "copy", 150), ("h200-sxm", "copy", 400), ("b200", "copy", 500), ("l40s", "copy", 70),
    ("a100-40gb", "copy", 130),
]  # fmt: skip


def test_healthy_gpus_pass_and_a_tenth_of_what_a_model_reaches_fails() -> None:
    assert [(key, tflops) for key, tflops in HEALTHY if product(key, tflops).status != "pass"] == []
    assert [row for row in A_TENTH if judged(*row).status != "fail"] == []


def test_the_card_and_the_module_of_one_chip_have_floors_of_their_own() -> None:
    names = {name: key for key, gpu in GPUS.items() for name in gpu.names}
    assert len(names) == sum(len(gpu.names) for gpu in GPUS.values())
    for card, module in (("a100-pcie-40gb", "a100-40gb"), ("a100-pcie-80gb", "a100-80gb"), ("h100-pcie", "h100-sxm")):
        assert GPUS[card].products != GPUS[module].products


@EACH
def test_memory_below_its_least_fails_and_host_links_warn_below_a_published_floor(key: str) -> None:
    least = 0.93 * GPUS[key].memory_gb * 1e9
    for size, status in ((math.ceil(least), "pass"), (math.ceil(least) - 1, "fail")):
        gpu = Subject(0, GPUS[key].names[0], "8.0", 1, size)
        found = {check.id: check.status for check in results.memory(gpu, {"free": size, "total": size})}
        assert found == {"mem.total": status, "exclusive": "pass"}
    floor = GPUS[key].host or 0
    if not floor:
        skipped = speed.host(subject(key), {"h2d": 3.0, "d2h": 2.0, "same": True})
        assert [(check.status, check.value) for check in skipped] == [("skip", 3.0), ("skip", 2.0)]
        return
    # A machine that encrypts its memory copies far slower.
    for way in ("h2d", "d2h"):
        for factor, status in ((1.001, "pass"), (0.999, "warn"), (0.01, "warn")):
            measured = {"h2d": floor * 2, "d2h": floor * 2, "same": True, way: floor * factor}
            link = {check.id: check for check in speed.host(subject(key), measured)}[way]
            assert (link.status, link.warn_below, link.fail_below) == (status, floor, None)


@pytest.mark.parametrize("key", ALLREDUCE)
def test_eight_gpus_with_nvlink_warn_below_the_sum_they_should_reach(key: str) -> None:
    for world, gbs, status in ((8, ALLREDUCE[key] + 1, "pass"), (8, ALLREDUCE[key] - 1, "warn"), (2, 20.0, "pass")):
        [found] = between_gpus.reduction(subject(key), {"right": True, "gbs": gbs, "world": world})
        assert found.status == status


@EACH
def test_every_row_is_whole_and_theory_fails_no_gpu_at_what_was_published(key: str) -> None:
    row: Gpu = GPUS[key]
    assert {figure.source for figure in (*row.products, *row.copies)} <= set(document("gpu_speeds")["measured_by"])
    assert row.gemm or row.copy
    assert {Subject(0, name).key for name in row.names} == {key}
    assert row.n % 64 == 0
    clock = {"t4": 1590, "p100-pcie-16gb": 1480, "a10g": 1710, "l4": 2040, "l40s": 2520}.get(key, 2032)
    most = row.sm * clock * FLOP_PER_CLOCK[row.capability] / 1e6
    # An H20 has fewer tensor cores than its architecture, and so a row of its own.
    assert key == "h20" or all(figure.value > 1.5 * 0.2 * most for figure in row.products)


@given(st.floats(allow_nan=False, min_value=0.001, max_value=1e6), st.sampled_from(sorted(GPUS)))
def test_a_faster_gpu_is_never_judged_worse(value: float, key: str) -> None:
    order = ["fail", "warn", "pass"]
    assert order.index(copy(key, value).status) <= order.index(copy(key, value * 1.01).status)


@given(st.integers(1, 108))
def test_a_slice_must_reach_its_share_and_never_more_than_the_whole(sm: int) -> None:
    part = Subject(0, "NVIDIA A100-SXM4-80GB MIG 1g.10gb", "8.0", sm, 10 * 10**9)
    whole = 0.8 * 264.53 * FAIL
    [found] = results.timed(part, {"tflops": 1e6, "dtype": "bfloat16"})
    assert found.fail_below == pytest.approx(whole * sm / 108, rel=1e-3)


# A GPU that no table has: 10 multiprocessors of Ada, 2000 MHz, and 192 bits of 6250 MHz, so 10.24 TFLOPS and 300 GB/s.
UNKNOWN = Subject(0, "NVIDIA New", "8.9", 10, 10**10, clock_mhz=2000, memory_clock_mhz=6250, memory_bus_bits=192)


@pytest.mark.parametrize(("tflops", "status"), [(2.047, "fail"), (2.049, "warn"), (100.0, "warn")])
def test_an_unknown_gpu_fails_below_a_fifth_of_what_it_could_compute_at_most(tflops: float, status: str) -> None:
    [found] = results.timed(UNKNOWN, {"tflops": tflops, "dtype": "bfloat16"})
    assert (found.status, found.warn_below, found.fail_below) == (status, None, 2.048)
    assert found.reference == "NVIDIA New: theory"
    assert found.message == (
        "GPU 0 is slow: 2.047 TFLOPS, NVIDIA New must reach 2.048"
        if status == "fail"
        else f"{tflops:.4g} TFLOPS; no measurement of NVIDIA New is published, so it only fails below 2.048"
    )


@pytest.mark.parametrize(("gbs", "status"), [(89.9, "fail"), (90.1, "warn")])
def test_an_unknown_gpu_fails_below_three_tenths_of_what_its_memory_could_copy(gbs: float, status: str) -> None:
    [found] = speed.memory(UNKNOWN, {"gbs": gbs})
    assert (found.status, found.fail_below) == (status, 90.0)


def test_values_that_torch_or_the_table_lacks_are_only_reported() -> None:
    for one in ({"clock_mhz": 0}, {"cc": "99.0"}):
        [found] = results.timed(replace(UNKNOWN, **one), {"tflops": 0.01, "dtype": "bfloat16"})
        assert (found.status, found.fail_below) == ("warn", None)
        assert found.message == "0.01 TFLOPS; no measurement of NVIDIA New is published, so only reported"
    for two in ({"memory_clock_mhz": 0}, {"memory_bus_bits": 0}, {"name": "NVIDIA New MIG 1g.10gb"}):
        [found] = speed.memory(replace(UNKNOWN, **two), {"gbs": 0.01})
        assert (found.status, found.fail_below) == ("warn", None)


def test_a_known_gpu_without_a_measurement_is_held_to_theory_and_its_slice_to_its_share() -> None:
    whole = Subject(0, "NVIDIA H100 NVL", "9.0", 132, 94 * 10**9, clock_mhz=1000)
    part = replace(whole, name="NVIDIA H100 NVL MIG 1g.12gb", sm=16)
    most = 132 * 1000 * 4096 / 1e6
    for gpu, share in ((whole, 1.0), (part, 16 / 132)):
        [found] = results.timed(gpu, {"tflops": 1.0, "dtype": "bfloat16"})
        assert (found.status, found.fail_below) == ("fail", round(0.2 * most * share, 4))


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
    """Return a check for every result that a profile requires of one L4."""
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


def test_without_nvml_no_check_of_nvml_is_required() -> None:
    gpu = subject("l4")
    without = [check for check in answers("quick", gpu) if check.id not in ("nvml", *HEALTH)]
    for status in ("skip", "warn"):
        assert completeness.complete(PROFILES["quick"], [gpu], [*without, Check("nvml", status, "")]) == []
    assert completeness.complete(PROFILES["quick"], [Subject(None, "CPU")], []) != []
    assert "NVML" not in str(completeness.complete(PROFILES["quick"], [Subject(None, "CPU")], []))


def test_speeds_that_were_all_skipped_are_no_pass_on_a_gpu_that_the_table_knows() -> None:
    known, unknown = subject("l4"), Subject(0, "NVIDIA New", "8.9", 58, 24 * 10**9)
    found = completeness.complete(PROFILES["standard"], [known], answers("standard", known, "skip"))
    assert [check.message for check in found] == ["no speed of GPU 0 was judged, so the run cannot pass"]
    assert completeness.complete(PROFILES["standard"], [unknown], answers("standard", unknown, "skip")) == []


def test_without_a_device_nothing_is_proven() -> None:
    found = completeness.complete(PROFILES["quick"], [], [])
    assert [check.message for check in found] == ["nothing was computed, so the run cannot pass"]
