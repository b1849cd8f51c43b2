"""The causes of a slow GPU: low clocks, the power limit, the link to the host, or another process."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_smoke.checks import Check
from gpu_smoke.data.gpus import GPUS
from gpu_smoke.judge import load
from gpu_smoke.judge.nvml_samples import Samples, merged, other_processes
from gpu_smoke.judge.subject import Subject

from ..checks.test_nvml_health import found
from ..conftest import Smoke

STANDARD = ("--profile", "standard")
SLOW = [{"kind": "slow", "what": "gemm", "by": 0.7}]
SAMPLE = {
    "reasons": 0, "temperature": 60, "power": 60.0, "clock": 2000, "generation": 4, "width": 16, "processes": [],
}  # fmt: skip
STATE = {"pcie": {"generation": 4, "width": 16, "replays": 0}, "power": {"limit": 72.0, "default": 72.0}}
NORMAL = (
    "it was at its power limit, 72 of 72 W, which is normal on NVIDIA L4; the floor was measured the same way; "
    "check its cooling"
)


def seen(*samples: dict[str, Any], others: int = 0) -> Samples:
    """Return the sums of these samples; a single sample counts three times."""
    whole = Samples()
    for each in samples if len(samples) > 1 else samples * 3:
        whole.add({**SAMPLE, **each}, others)
    return whole


def subject(key: str) -> Subject:
    gpu = GPUS[key]
    return Subject(0, gpu.names[0], gpu.capability, gpu.sm, gpu.memory_gb * 10**9)


def cause(what: Samples, check: str = "gemm.speed", key: str = "l4", state: dict[str, Any] = STATE) -> tuple[str, str]:
    """Return the action and the hint of the failure of a slow GPU."""
    slow = Check(check, "fail", "slow", 0, severity="perf", action="replace-node", hint="generic")
    told = load.with_cause(slow, subject(key), state, what)
    assert (told.status, told.severity, told.message) == ("fail", "perf", "slow")  # a cause is no excuse
    return told.action, told.hint


@pytest.mark.parametrize(
    ("what", "action", "hint"),
    [
        (seen({}, others=1), "fix-pool", "another process used the GPU at the same time: give jobs whole GPUs"),
        (seen({"reasons": 0x40, "temperature": 96}), "replace-node",
         "HwThermalSlowdown throttled the GPU at 96 °C: replace the machine"),
        (seen({"reasons": 0x84}), "replace-node",
         "HwPowerBrakeSlowdown throttled the GPU at 60 °C: replace the machine"),
        (seen({"reasons": 4, "power": 71.6}), "none", NORMAL),
        (seen({"reasons": 4, "power": 40}), "replace-node",
         "its power limit held it at 40 of 72 W: a fault of its power supply"),
        (seen({}), "replace-node",
         "no throttling and no other process: the GPU itself is slow, replace it"),
    ],
)  # fmt: skip
def test_the_hint_of_a_slow_gpu_has_the_cause(what: Samples, action: str, hint: str) -> None:
    assert cause(what) == (action, hint)


def test_the_power_limit_is_normal_on_cards_and_needs_a_look_on_modules() -> None:
    capped = seen({"reasons": 4, "power": 700.0})
    state = {**STATE, "power": {"limit": 700.0, "default": 700.0}}
    assert cause(capped, key="h100-sxm", state=state)[0] == "replace-node"
    assert cause(seen({"reasons": 4, "power": 69.0}), key="t4")[0] == "none"
    lowered = {**STATE, "power": {"limit": 50.0, "default": 70.0}}
    assert cause(seen({"reasons": 4, "power": 50.0}), key="t4", state=lowered) == (
        "fix-pool", "its power limit is 50 W, 70 W by default: nvidia-smi -pl 70",
    )  # fmt: skip


def test_the_power_limit_explains_nothing_if_it_is_unknown_or_not_reached() -> None:
    nothing = "no throttling and no other process: the GPU itself is slow, replace it"
    met = seen({"reasons": 4, "power": 71.6})
    for power in ({"refused": 3, "text": "no"}, None):
        assert cause(met, state={**STATE, "power": power})[1] == nothing
    assert cause(seen({"reasons": 0, "power": 71.6}))[1] == nothing
    # 0.9 of the limit counts as the limit. A power draw that NVML does not report counts as 0.
    assert cause(seen({"reasons": 4, "power": 64.8}))[0] == "none"
    assert cause(seen({"reasons": 4, "power": 64.7}))[0] == "replace-node"
    untold = seen({"reasons": 4, "power": {"refused": 3, "text": "no"}})
    assert cause(untold)[1] == "its power limit held it at 0 of 72 W: a fault of its power supply"


def test_heat_is_reported_without_an_unknown_temperature() -> None:
    cold = seen({"reasons": 0x60, "temperature": {"refused": 3, "text": "no"}})
    assert cause(cold)[1] == "HwThermalSlowdown and SwThermalSlowdown throttled the GPU: replace the machine"


def test_two_samples_under_load_are_enough_to_name_a_cause() -> None:
    slow = Check("gemm.speed", "fail", "slow", 0, severity="perf", action="replace-node", hint="generic")
    two, one = seen({"reasons": 1}, {"reasons": 0x40}, {"reasons": 0x40}), seen({"reasons": 1}, {"reasons": 0x40})
    assert load.with_cause(slow, subject("l4"), STATE, two).hint.startswith("HwThermalSlowdown")
    assert load.with_cause(slow, subject("l4"), STATE, one) == slow


def test_a_narrow_link_explains_slow_copies_with_the_host_and_nothing_else() -> None:
    link = seen({"width": 4})
    action, hint = cause(link, "h2d")
    assert action == "replace-node"
    assert hint.startswith("its PCIe link was generation 4 x4, of a maximum of generation 4 x16: compare with another")
    assert "PCIe" not in cause(link, "gemm.speed")[1]


def test_a_check_that_is_not_slow_or_has_few_samples_keeps_its_hint() -> None:
    hot = seen({"reasons": 0x40})
    for check in (
        Check("gemm.speed", "pass", "", 0, hint="generic"),
        Check("gemm.bitwise", "fail", "", 0, severity="gpu", hint="generic"),
        Check("h2d", "fail", "", 0, severity="gpu", hint="generic"),
    ):
        assert load.with_cause(check, subject("l4"), STATE, hot) == check
    unknown = Check("gemm.speed", "warn", "only reported", 0, hint="generic")
    assert load.with_cause(unknown, subject("l4"), STATE, hot) == unknown
    slow = Check("gemm.speed", "warn", "", 0, hint="generic", warn_below=51.2)
    assert load.with_cause(slow, subject("l4"), STATE, seen({"reasons": 1}, {"reasons": 0x40})) == slow
    warned = load.with_cause(slow, subject("l4"), STATE, hot)
    assert (warned.action, warned.hint.partition(" ")[0]) == ("", "HwThermalSlowdown")


def test_samples_of_an_idle_gpu_count_for_nothing() -> None:
    idle = seen({"reasons": 0x41, "temperature": 99}, {"reasons": 0x40, "temperature": 50}, {"reasons": 0x40})
    assert (idle.samples, idle.loaded, idle.reasons[0x40], idle.highest["temperature"]) == (3, 2, 2, 60)
    both = merged([idle, seen({"width": 8, "power": 70.0})])
    assert (both.samples, both.loaded, both.highest["width"], both.highest["power"]) == (6, 5, 16, 70.0)


def test_zero_speed_is_no_number_and_a_reason_without_samples_has_no_share() -> None:
    still = seen({"power": 0.0, "temperature": 0})
    assert (still.highest["power"], still.highest["temperature"]) == (0.0, 0.0)
    assert merged([still, still]).highest["power"] == 0.0
    assert (Samples().share_of(4), seen({"reasons": 4}, {"reasons": 0}, {"reasons": 4}).share_of(4)) == (
        0.0,
        pytest.approx(2 / 3),
    )
    assert Samples().record() == {"samples": 0, "loaded": 0, "reasons": {}}


def test_a_reason_is_counted_by_its_bit_and_a_sample_without_reasons_counts_as_loaded() -> None:
    both = seen({"reasons": 0x8000000000000044}, {"reasons": 4}, {"reasons": {"refused": 3, "text": "no"}})
    assert dict(both.reasons) == {0x4: 2, 0x40: 1, 1 << 63: 1}
    assert (both.samples, both.loaded) == (3, 3)


def test_several_stages_together_keep_the_most_strangers_and_every_error() -> None:
    no_width = {"refused": 3, "text": "Not Supported"}
    both = merged([seen({"width": no_width}, others=2), seen({}, others=1)])
    assert (both.other_processes, both.refusals) == (2, {"width": no_width})
    assert merged([seen({}), seen({"width": no_width})]).refusals == {"width": no_width}


@pytest.mark.parametrize(
    ("pids", "ours", "others"),
    [([], [7], 0), ([7], [7], 0), ([7, 8], [7], 1), ([901], [7], 0), ([901, 902], [7], 1), ({"refused": 3}, [7], 0)],
)
def test_processes_of_others_are_distinguished_from_the_checks_own(pids: Any, ours: list[int], others: int) -> None:
    assert other_processes(pids, ours) == others


@pytest.mark.parametrize(
    ("gpu", "bad", "hint"),
    [
        ({"reasons": 0x40, "temperature": 95}, "throttle", "HwThermalSlowdown throttled the GPU at 95 °C"),
        ({"width": 4}, "pcie", "no throttling and no other process"),
        ({"processes": [[], [4242, 4243]]}, "exclusive.processes", "another process used the GPU"),
    ],
    ids=str,
)  # fmt: skip
def test_a_slow_gpu_and_its_cause_are_reported_together(smoke: Smoke, gpu: dict[str, Any], bad: str, hint: str) -> None:
    run = smoke(*STANDARD, faults=SLOW, lasts={"gemm": 2.5}, nvml={"gpus": [gpu]})
    assert {("gemm.speed", 0), (bad, 0)} == set(run.bad())
    assert found(run, "gemm.speed")["hint"].startswith(hint)


@pytest.mark.slow
def test_a_link_that_dcgm_would_refuse_fails_by_itself_and_what_nvml_saw_is_kept(smoke: Smoke) -> None:
    run = smoke(*STANDARD, lasts={"gemm": 1.5}, nvml={"gpus": [{"generation": 1}]})
    assert (run.code, run.bad()) == (3, [("pcie", 0)])
    assert run.summary == (
        "GPU 0 has a slow link to the host under load: generation 1 x16, of a maximum of generation 4 x16; "
        "DCGM requires generation 3 x16 of NVIDIA L4"
    )
    [told] = [each for each in run.receipt["measured"] if each["stage"] == "nvml"]
    assert told["stages"]["gemm.speed"]["loaded"] >= 2
    assert (told["temperature"], told["power"], told["clock"]) == (50, 60.0, 2000)


# A T4 of a virtual machine with 8 lanes: NVML's maximum is the card's own 16.
T4 = {"name": "Tesla T4", "cc": "7.5", "sm": 40, "mem": 15_800_000_000}
CLOUD_T4 = {"generation": 3, "width": 8, "most": [3, 16]}
T4_SPEEDS = {"gemm": 24.0, "copy": 240.0, "host": 6.2}


def test_a_t4_on_eight_lanes_of_a_virtual_machine_passes_and_with_slow_copies_it_fails(smoke: Smoke) -> None:
    def run(**speeds: float) -> Any:
        return smoke(
            *STANDARD, gpus=[T4], speeds=T4_SPEEDS | speeds, lasts={"gemm": 1.5}, nvml={"gpus": [CLOUD_T4]}
        )  # fmt: skip

    healthy = run()
    assert (healthy.code, healthy.bad()) == (0, [])
    assert [(c["id"], c["message"]) for c in healthy.receipt["checks"] if c["status"] == "warn"] == [
        ("pcie", "GPU 0 has generation 3 x8, of a maximum of generation 3 x16")
    ]
    assert run(host=4.0).bad() == [("pcie", 0)]


@pytest.mark.slow
def test_a_gpu_with_fewer_lanes_than_its_peers_names_them(smoke: Smoke) -> None:
    whole = {**CLOUD_T4, "width": 16}
    run = smoke(
        *STANDARD, "--expect-gpus", "2", gpus=[T4, T4], speeds=T4_SPEEDS, lasts={"gemm": 1.5},
        nvml={"gpus": [whole, CLOUD_T4]},
    )  # fmt: skip
    assert (run.code, run.bad()) == (3, [("pcie", 1)])
    assert run.summary.endswith("; GPU 0 has generation 3 x16")


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["quick", "standard"])
def test_heat_that_slows_nothing_down_closes_no_pool(smoke: Smoke, profile: str) -> None:
    hot = {"reasons": 0x60, "temperature": 97}
    run = smoke("--profile", profile, lasts={"product": 1, "gemm": 1.5}, nvml={"gpus": [hot]})
    assert (run.code, found(run, "throttle")["status"]) == (0, "warn")
    assert found(run, "throttle")["message"].startswith("GPU 0 was throttled: HwThermalSlowdown in ")


@pytest.mark.slow
def test_the_hint_of_a_slow_gpu_at_its_power_limit_calls_the_limit_normal(smoke: Smoke) -> None:
    capped = {"reasons": 4, "power": 71_000}
    run = smoke(*STANDARD, faults=SLOW, lasts={"gemm": 1.5}, nvml={"gpus": [capped]})
    assert (run.code, run.bad(), run.receipt["action"]) == (3, [("gemm.speed", 0)], "none")
    assert "which is normal on NVIDIA L4" in run.message
    assert found(run, "throttle")["message"].endswith("(normal on this card)")


@pytest.mark.slow
def test_the_hint_of_a_slow_gpu_with_a_lowered_power_limit_raises_it(smoke: Smoke) -> None:
    lowered = {"reasons": 4, "power": 50_000, "limit": 50_000}
    run = smoke(*STANDARD, faults=SLOW, lasts={"gemm": 1.5}, nvml={"gpus": [lowered]})
    assert (run.code, run.bad(), run.receipt["action"]) == (3, [("gemm.speed", 0)], "fix-pool")
    assert found(run, "gemm.speed")["hint"] == "its power limit is 50 W, 72 W by default: nvidia-smi -pl 72"
