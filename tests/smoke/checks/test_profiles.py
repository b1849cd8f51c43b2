"""The stages of the larger profiles: the fault that each check finds, and the start of stages."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_smoke.plan import HEALTH

from ..conftest import Smoke

TWO: list[dict[str, Any]] = [{}, {}]
STANDARD = ("--profile", "standard")


def fault(kind: str, **more: Any) -> list[dict[str, Any]]:
    return [{"kind": kind, **more}]


def test_standard_has_all_stages_of_quick_and_speed_memory_links_and_loading(smoke: Smoke) -> None:
    run = smoke(*STANDARD, "--expect-gpus", "2", gpus=TWO)
    assert (run.code, run.receipt["profile"]) == (0, "standard")
    found = {check["id"]: check for check in run.receipt["checks"]}
    assert sorted(found) == sorted(
        [
            "nvml", *HEALTH,
            "allreduce", "cudnn.conv", "d2h", "devnodes", "driver.match", "driver.wheel", "exclusive", "gemm.bitwise",
            "gemm.element", "gemm.finite", "gemm.hash", "gemm.norm", "gemm.peers", "gemm.speed", "gpu.capability",
            "gpu.count", "gpu.mig", "gpu.name", "gpu.uuid", "h2d", "libcuda.real", "mem.pattern", "mem.peers",
            "mem.speed", "mem.total", "p2p", "shm", "shm.loader", "torch.arch", "torch.build", "train",
        ]
    )  # fmt: skip
    speed = found["gemm.speed"]
    assert (speed["value"], speed["unit"], speed["dtype"]) == (59.4, "TFLOPS", "bfloat16")
    assert (speed["warn_below"], speed["fail_below"]) == (51.21, 42.675)
    assert speed["reference"] == "l4: zzc120, chsasank"
    assert found["mem.speed"]["value"] == 250.0


def test_quick_times_nothing(smoke: Smoke) -> None:
    run = smoke()
    assert not {"gemm.speed", "mem.speed", "mem.pattern", "h2d"} & {check["id"] for check in run.receipt["checks"]}


@pytest.mark.parametrize(
    ("faults", "code", "bad"),
    [
        (fault("slow", what="gemm", by=0.7), 3, "gemm.speed"),
        (fault("slow", what="copy", by=0.6), 3, "mem.speed"),
        (fault("forget"), 1, "mem.pattern"),
        (fault("corrupt", what="host"), 1, "h2d"),
        (fault("convolves wrong"), 1, "cudnn.conv"),
        (fault("learns nothing"), 1, "train"),
        (fault("bus error"), 2, "shm.loader"),
    ],
    ids=lambda value: str(value),
)
def test_each_check_fails_for_its_own_fault(smoke: Smoke, faults: list[dict[str, Any]], code: int, bad: str) -> None:
    run = smoke(*STANDARD, faults=faults)
    assert run.code == code
    assert run.bad()[0][0] == bad
    assert {check for check, _ in run.bad()} == {bad}


def test_a_gpu_that_is_a_little_slow_is_a_warning_and_strict_makes_it_a_failure(smoke: Smoke) -> None:
    slow = fault("slow", what="gemm", by=0.8)
    run = smoke(*STANDARD, faults=slow)
    assert run.code == 0
    assert [c["message"] for c in run.receipt["checks"] if c["status"] == "warn"] == [
        "GPU 0 is slow: 47.52 TFLOPS, NVIDIA L4 should reach 51.21"
    ]
    assert smoke(*STANDARD, "--strict", faults=slow).code == 3


@pytest.mark.slow
def test_burn_multiplies_for_the_given_time_and_finds_late_errors(smoke: Smoke) -> None:
    burn = ("--profile", "burn", "--burn-sec", "0.2")
    run = smoke(*burn)
    assert run.code == 0
    [found] = [check for check in run.receipt["checks"] if check["id"] == "burn"]
    assert (found["status"], found["value"]) == ("pass", 1.0)
    # After the 99 products of `gemm`, 33 in each format.
    run = smoke(*burn, faults=fault("drift", every=105, dtype="bfloat16"))
    assert (run.code, run.bad()) == (1, [("burn", 0)])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("faults", "code", "bad"),
    [
        (fault("corrupt", what="peer"), 1, ("p2p", None)),
        (fault("corrupt", what="sum", gpu=1), 1, ("allreduce", 1)),
        (fault("slow", what="peer", by=0.1, gpu=1), 0, None),
        (fault("slow", what="sum", by=0.1), 0, None),
        (fault("SIGSEGV", what="sum", gpu=1), 1, ("child", 1)),
    ],
    ids=str,
)
def test_the_checks_between_gpus_are_required_of_several_gpus(
    smoke: Smoke, faults: list[dict[str, Any]], code: int, bad: tuple[str, int | None] | None
) -> None:
    run = smoke(*STANDARD, "--expect-gpus", "3", gpus=[{}] * 3, faults=faults)
    assert run.code == code
    assert run.bad() == ([bad] if bad else [])
    if not bad:
        assert {c["id"] for c in run.receipt["checks"] if c["status"] == "warn"} in ({"p2p"}, {"allreduce"})


def test_a_gpu_that_is_gone_when_it_is_to_copy_to_the_others_is_no_pass(smoke: Smoke) -> None:
    run = smoke(*STANDARD, "--expect-gpus", "3", gpus=[{}] * 3, seen={"peers": 2})
    assert (run.code, run.bad()) == (1, [("p2p", 0)])
    assert run.summary == "GPU 0: copying from GPU to GPU failed: CUDA error: invalid device ordinal"


def test_copies_with_the_host_run_on_one_gpu_at_a_time_and_nothing_else_meanwhile(smoke: Smoke) -> None:
    run = smoke(*STANDARD, "--expect-gpus", "2", gpus=TWO)
    said = [line for line in run.stderr.splitlines() if line.startswith("gpu-smoke: GPU ")]
    copies = [index for index, line in enumerate(said) if line.endswith("timing copies from and to the host")]
    assert [said[index][:16] for index in copies] == ["gpu-smoke: GPU 0", "gpu-smoke: GPU 1"]
    timed = [index for index, line in enumerate(said) if "timing bfloat16 products" in line]
    filled = [index for index, line in enumerate(said) if line.endswith("filling the memory")]
    assert max(filled) < min(timed)
    assert timed[1] == timed[0] + 1


@pytest.mark.parametrize("profile", ["standard", "burn"])
def test_on_the_cpu_every_profile_runs_and_judges_no_speed(smoke: Smoke, profile: str) -> None:
    args = ["--burn-sec", "0.1"] if profile == "burn" else []
    run = smoke("--device", "cpu", "--profile", profile, *args)
    assert run.code == 0
    skipped = {check["id"] for check in run.receipt["checks"] if check["status"] == "skip"}
    assert {"gemm.speed", "mem.speed", "h2d", "d2h"} < skipped
