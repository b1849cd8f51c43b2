"""The judge of NVML's samples under load: links as clouds wire them and degraded ones, short and lasting heat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from gpu_smoke.checks import Check
from gpu_smoke.data.gpus import GPUS
from gpu_smoke.data.health import LANE_GBS, LINKS
from gpu_smoke.judge import load
from gpu_smoke.judge.load import Link
from gpu_smoke.judge.nvml_samples import Samples
from gpu_smoke.judge.subject import Subject

SAMPLE = {
    "reasons": 0, "temperature": 60, "power": 60.0, "clock": 2000, "generation": 4, "width": 16, "processes": [],
}  # fmt: skip
NEW = Subject(0, "NVIDIA New", "8.9", 58, 24 * 10**9)
# In a virtual machine NVML's maximum is the GPU's own. DCGM accepts these links (min_pci_generation and min_pci_width),
# as clouds wire GPUs with 8 lanes, and to hosts of an older generation.
CLOUDS = [
    ("t4", Link(3, 8), Link(3, 16)),
    ("a10g", Link(4, 8), Link(4, 16)),
    ("l4", Link(3, 16), Link(4, 16)),
    ("l4", Link(4, 8), Link(4, 16)),  # as much as 16 lanes of generation 3
    ("h100-sxm", Link(4, 16), Link(5, 16)),
    ("b300", Link(5, 1), Link(6, 16)),
]


def subject(key: str, index: int = 0) -> Subject:
    gpu = GPUS[key]
    return Subject(index, gpu.names[0], gpu.capability, gpu.sm, gpu.memory_gb * 10**9)


def under_load(samples: int = 20, **more: Any) -> Samples:
    seen = Samples()
    for _ in range(samples):
        seen.add({**SAMPLE, **more}, 0)
    return seen


def pcie(gpu: Subject, has: Link, most: Link, h2d: float | None = None, better: str = "", replays: int = 0) -> Check:
    was = {"generation": most.generation, "width": most.width, "replays": 5}
    now = {**was, "replays": 5 + replays}
    return load.pcie(gpu, was, now, under_load(generation=has.generation, width=has.width), h2d, better)


@pytest.mark.parametrize(("key", "has", "most"), CLOUDS, ids=str)
def test_a_link_that_dcgm_accepts_of_its_model_is_no_failure_in_a_virtual_machine(
    key: str, has: Link, most: Link
) -> None:
    found = pcie(subject(key), has, most, h2d=0.85 * has.gbs)
    assert (found.status, found.severity) == ("warn", "")
    assert found.message == f"GPU 0 has {has}, of a maximum of {most}"
    assert pcie(subject(key), most, most).status == "pass"
    assert pcie(subject(key), has, has).status == "pass"


def test_a_narrow_link_of_a_gpu_that_no_table_knows_warns() -> None:
    found = pcie(NEW, Link(3, 8), Link(3, 16), h2d=6.5)
    assert (found.status, found.message) == ("warn", "GPU 0 has generation 3 x8, of a maximum of generation 3 x16")


@pytest.mark.parametrize("key", LINKS)
def test_less_than_dcgm_requires_and_than_the_maximum_fails_and_a_slot_that_gives_no_more_warns(key: str) -> None:
    least = Link(*LINKS[key])
    older = Link(least.generation - 1, least.width)
    narrower = Link(least.generation, least.width // 2)
    assert pcie(subject(key), least, least).status == "pass"
    for short in (older, *([narrower] if narrower.width else [])):
        found = pcie(subject(key), short, Link(5, 16))
        assert (found.status, found.severity, found.action) == ("fail", "perf", "replace-node")
        assert found.message == (
            f"GPU 0 has a slow link to the host under load: {short}, of a maximum of generation 5 x16; "
            f"DCGM requires {least} of {GPUS[key].names[0]}"
        )
        slot = pcie(subject(key), short, short)
        assert (slot.status, slot.message) == (
            "warn",
            f"GPU 0 has {short}, DCGM requires {least} of {GPUS[key].names[0]}",
        )


def test_only_gpus_without_a_line_in_dcgms_table_have_no_link_that_they_need() -> None:
    assert set(GPUS) - set(LINKS) == {"gh200-480gb"}
    assert set(LINKS) <= set(GPUS)


@pytest.mark.parametrize("gpu", [subject("t4"), NEW])
def test_a_narrow_link_fails_where_copies_are_slow_even_for_it(gpu: Subject) -> None:
    # 8 lanes of generation 3 carry 7.88 GB/s: 0.6 of that is 4.73.
    assert pcie(gpu, Link(3, 8), Link(3, 16), h2d=4.74).status == "warn"
    found = pcie(gpu, Link(3, 8), Link(3, 16), h2d=4.72)
    assert found.status == "fail"
    assert found.message.endswith("; copies from the host reach 4.72 GB/s of the 7.88 that it carries")
    # With all its lanes, h2d itself judges them.
    assert pcie(gpu, Link(3, 16), Link(3, 16), h2d=1.0).status == "pass"


def test_a_narrow_link_fails_where_another_gpu_of_its_model_has_a_better_one() -> None:
    t4 = [subject("t4", index) for index in range(3)]
    links = {t4[0]: Link(3, 8), t4[1]: Link(3, 16), t4[2]: Link(3, 8), NEW: Link(5, 16)}
    assert [load.wider(each, links) for each in links] == [
        "GPU 1 has generation 3 x16", "", "GPU 1 has generation 3 x16", "",
    ]  # fmt: skip
    found = pcie(t4[0], Link(3, 8), Link(3, 16), h2d=6.5, better=load.wider(t4[0], links))
    assert found.status == "fail"
    assert found.message.endswith("; GPU 1 has generation 3 x16")
    assert pcie(t4[1], Link(3, 16), Link(3, 16), better="").status == "pass"


def test_links_that_carry_as_much_are_equal_whatever_their_lanes() -> None:
    one, other = subject("l4"), subject("l4", 1)
    assert load.wider(one, {one: Link(4, 8), other: Link(3, 16)}) == ""
    assert Link(4, 8).gbs == Link(3, 16).gbs == pytest.approx(15.754, abs=1e-3)
    assert [round(LANE_GBS[each], 3) for each in range(1, 7)] == [0.25, 0.5, 0.985, 1.969, 3.938, 7.877]
    assert Link(99, 16).gbs == 0.0


@pytest.mark.parametrize(("replays", "status"), [(80, "warn"), (81, "fail"), (1, "warn"), (0, "pass")])
def test_packets_that_had_to_be_repeated_warn_and_many_fail(replays: int, status: str) -> None:
    found = pcie(subject("l4"), Link(4, 16), Link(4, 16), replays=replays)
    assert (found.status, found.value) == (status, float(replays))


def test_many_repeated_packets_fail_on_a_narrow_link_too() -> None:
    assert pcie(subject("t4"), Link(3, 8), Link(3, 16), h2d=6.5, replays=81).status == "fail"


# NVML's reasons, and how often each stage of a standard run is sampled: on an H100, 9, 6 and 21 times.
BLIP, BRAKE, HOT = 0x20, 0x80, 0x40
STAGES: Mapping[str, int] = {"gemm": 5, "gemm.speed": 9, "mem.speed": 6, "copies": 21}


def stages(of: Mapping[str, int] = STAGES, **held: tuple[int, int]) -> dict[str, Samples]:
    """Return stages with so many samples each. `held` has the reason for low clocks, and its number of samples."""
    found = {}
    for stage, samples in of.items():
        count, reason = held.get(stage.replace(".", "_"), (0, 0))
        seen = under_load(samples - count)
        for _ in range(count):
            seen.add({**SAMPLE, "reasons": reason, "temperature": 88}, 0)
        found[stage] = seen
    return found


def slow(check: str = "gemm.speed", **more: Any) -> set[str]:
    return load.slow_stages([Check(check, "warn", "", gpu=0, warn_below=51.2, **more)], 0)


@pytest.mark.parametrize("reason", [BLIP, BRAKE, HOT])
@pytest.mark.parametrize("held", [2, 9])
def test_heat_that_slows_nothing_down_warns_however_long_it_lasts(reason: int, held: int) -> None:
    found = load.throttle(subject("l4"), stages(gemm_speed=(held, reason)), set())
    assert (found.status, found.severity, found.value) == ("warn", "", 88)
    assert found.message.startswith("GPU 0 was throttled: ")
    assert found.message.endswith(f" in {held} of 41 samples")


@pytest.mark.parametrize(("held", "status"), [(3, "fail"), (2, "warn")])  # a quarter of 9 samples is 2.25
def test_heat_that_lasts_a_quarter_of_a_stage_that_is_slow_fails(held: int, status: str) -> None:
    found = load.throttle(subject("l4"), stages(gemm_speed=(held, HOT)), slow())
    assert (found.status, found.action) == (status, "replace-node" if status == "fail" else "")
    if status == "fail":
        assert found.message == "GPU 0 is slow and throttled: HwThermalSlowdown in 3 of 9 samples"


def test_exactly_a_quarter_of_ten_samples_in_all_is_enough() -> None:
    eight = {"gemm.speed": 8, "mem.speed": 2, "gemm": 9}
    assert load.throttle(subject("l4"), stages(eight, gemm_speed=(2, BRAKE)), slow()).status == "fail"
    seven = {"gemm.speed": 8, "mem.speed": 1, "gemm": 9}
    assert load.throttle(subject("l4"), stages(seven, gemm_speed=(2, BRAKE)), slow()).status == "warn"


def test_heat_in_another_stage_than_the_slow_one_warns() -> None:
    hot_copies = stages(mem_speed=(6, HOT))
    assert load.throttle(subject("l4"), hot_copies, slow()).status == "warn"
    assert load.throttle(subject("l4"), hot_copies, slow("mem.peers")).status == "fail"
    # Slow copies with the host have another cause.
    assert load.throttle(subject("l4"), stages(copies=(21, HOT)), slow("h2d")).status == "warn"


def test_two_reasons_are_both_reported() -> None:
    both = load.throttle(subject("l4"), stages(gemm_speed=(4, HOT | BLIP)), slow())
    assert both.message.endswith("HwThermalSlowdown in 4 of 9 samples, SwThermalSlowdown in 4 of 9 samples")


def test_the_quick_profile_fails_no_gpu_for_heat() -> None:
    quick = {"memory": 2, "gemm": 20, "cudnn.conv": 5, "train": 5}
    found = load.throttle(subject("l4"), stages(quick, gemm=(20, HOT), train=(5, HOT)), slow())
    assert found.status == "warn"


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        (Check("gemm.speed", "warn", "", gpu=0, warn_below=1.0), {"gemm.speed"}),
        (Check("gemm.speed", "fail", "", gpu=0, severity="perf"), {"gemm.speed"}),
        (Check("gemm.peers", "fail", "", gpu=0, severity="perf", warn_below=0.9), {"gemm.speed"}),
        (Check("burn", "warn", "", gpu=0, warn_below=0.75), {"burn"}),
        (Check("gemm.speed", "warn", "", gpu=0), set()),  # only reported: its model is unknown
        (Check("gemm.speed", "warn", "", gpu=1, warn_below=1.0), set()),
        (Check("gemm.speed", "pass", "", gpu=0, warn_below=1.0), set()),
        (Check("gemm.speed", "fail", "", gpu=0, severity="env"), set()),
        (Check("burn", "fail", "", gpu=0, severity="gpu"), set()),
        (Check("h2d", "warn", "", gpu=0, warn_below=1.0), set()),
        (Check("shm", "warn", "", gpu=0, warn_below=1.0), set()),
    ],
)  # fmt: skip
def test_a_stage_is_slow_where_its_speed_is_below_what_it_should_be(check: Check, expected: set[str]) -> None:
    assert load.slow_stages([check], 0) == expected


@pytest.mark.parametrize(
    ("samples", "reasons", "status"),
    [(2, 4, "pass"), (2, 8, "warn"), (1, 4, "skip"), (1, HOT, "warn"), (2, 0, "pass")],
)
def test_one_sample_can_warn_and_cannot_pass(samples: int, reasons: int, status: str) -> None:
    assert load.throttle(subject("l4"), {"gemm": under_load(samples, reasons=reasons)}, set()).status == status


@pytest.mark.parametrize(
    ("key", "reasons", "note"), [("l4", 4, True), ("l4", 0, False), ("h100-sxm", 4, False), ("a100-pcie-40gb", 4, True)]
)
def test_the_power_limit_is_called_normal_on_cards_that_meet_it(key: str, reasons: int, note: bool) -> None:
    found = load.throttle(subject(key), {"gemm": under_load(4, reasons=reasons)}, set())
    assert found.status == "pass"
    assert found.message == f"at its power limit in {100 if reasons else 0}% of 4 samples" + (
        " (normal on this card)" if note else ""
    )


def test_the_first_of_several_better_links_is_named() -> None:
    t4 = [subject("t4", index) for index in range(3)]
    assert load.wider(t4[0], dict(zip(t4, [Link(3, 8), Link(3, 16), Link(3, 16)], strict=True))) == (
        "GPU 1 has generation 3 x16"
    )


def test_copies_at_the_very_limit_of_a_narrow_link_are_not_slow() -> None:
    assert Link(2, 16).gbs == 8.0
    assert pcie(NEW, Link(2, 16), Link(3, 16), h2d=0.6 * 8.0).status == "warn"
    assert pcie(NEW, Link(2, 16), Link(3, 16), h2d=None).status == "warn"


@pytest.mark.parametrize(("was", "now", "value"), [(None, None, 0.0), (None, 3, 3.0), (3, None, -3.0), (2, 3, 1.0)])
def test_a_count_of_replays_that_nvml_does_not_report_is_none(was: int | None, now: int | None, value: float) -> None:
    most = {"generation": 4, "width": 16}
    found = load.pcie(NEW, {**most, "replays": was}, {**most, "replays": now}, under_load(), None, "")
    assert (found.status, found.value) == ("warn" if value > 0 else "pass", value)


def test_only_gpus_of_one_model_are_held_to_each_others_nvlinks() -> None:
    one, other, third, alone = (subject(key, index) for index, key in enumerate(["b200", "b200", "b200", "l4"]))
    assert load.unequal({one: 18, other: 18, alone: 0}) == []
    [found] = load.unequal({one: 18, other: 17, third: 18, alone: 2})
    assert (found.gpu, found.status, found.value) == (1, "fail", 17.0)
    assert found.message == "GPU 1 has 17 NVLinks up, another NVIDIA B200 here has 18"


@pytest.mark.parametrize(
    ("was", "now", "status"),
    [((18, 18, 5), (18, 17, 5), "fail"), ((18, 18, 5), (18, 18, 6), "warn"), ((18, 17, 5), (18, 17, 5), "pass")],
)
def test_a_link_between_gpus_that_goes_down_fails_and_errors_warn(
    was: tuple[int, int, int], now: tuple[int, int, int], status: str
) -> None:
    before, after = (dict(zip(("links", "active", "errors"), each, strict=True)) for each in (was, now))
    assert load.nvlink(NEW, before, after).status == status


def test_other_processes_are_counted_once_with_the_time_of_their_use() -> None:
    during = under_load()
    during.other_processes = 2
    before = load.processes(NEW, [1], during)
    assert (before.status, before.value) == ("fail", 2.0)
    assert before.message == "GPU 0 was used by 2 other processes before the check began"
    later = load.processes(NEW, [], during)
    assert later.message == "GPU 0 was used by 2 other processes during the check"
    during.other_processes = 1
    assert load.processes(NEW, [], during).message == "GPU 0 was used by 1 other process during the check"
    assert load.processes(NEW, [], under_load()).status == "pass"
