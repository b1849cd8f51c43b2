"""The checks of NVML's answers: the fault that each one finds, and drivers that refuse to answer."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_smoke.data.health import LOST, RECOVERY, XIDS
from gpu_smoke.plan import HEALTH

from ..conftest import Smoke

TWO: list[dict[str, Any]] = [{}, {}]


def found(run: Any, what: str, gpu: int | None = 0) -> dict[str, Any]:
    [check] = [c for c in run.receipt["checks"] if (c["id"], c.get("gpu")) == (what, gpu)]
    return dict(check)


def statuses(run: Any, gpu: int | None = 0) -> dict[str, str]:
    return {what: found(run, what, gpu)["status"] for what in HEALTH}


def test_a_healthy_gpu_passes_and_what_it_has_not_is_skipped(smoke_either_way: Smoke) -> None:
    run = smoke_either_way(nvml={})
    assert (run.code, run.receipt["host"]["driver"]) == (0, "580.159.03")
    assert found(run, "nvml", None)["message"] == "driver 580.159.03, 1 GPU(s)"
    told = statuses(run)
    # A quick run is over before it was seen under load twice, unless this machine is busy.
    assert told.pop("throttle") in ("skip", "pass")
    assert told.pop("pcie") in ("skip", "pass")
    assert told == {
        "mig": "pass", "ecc": "pass", "remap": "pass", "retired": "pass", "xid": "pass", "recovery": "pass",
        "nvlink": "skip", "exclusive.processes": "pass",
    }  # fmt: skip
    assert found(run, "nvlink")["message"] == "NVML does not report it: Not Supported"


@pytest.mark.parametrize(
    ("gpu", "what", "code", "action", "summary"),
    [
        (
            {"uncorrected": 2},
            "ecc", 1, "reset-gpu", "GPU 0 lost data: 2 uncorrected memory errors since the driver was loaded",
        ),
        ({"rows": [0, 1, 1, 0]}, "remap", 1, "reset-gpu",
         "GPU 0 has a bad row of memory that the next reset replaces"),
        ({"pending": 1, "pages": 1}, "retired", 1, "reset-gpu",
         "GPU 0 has a bad page of memory that the next reset retires"),
        ({"recovery": 2}, "recovery", 1, "reboot", "the driver requires a recovery of GPU 0: reboot the node"),
        ({"mig": [1, 1]}, "mig", 2, "fix-pool", "MIG is on at GPU 0, expected a whole GPU"),
        ({"links": [1, 1], "after": {"links": [1, 0]}}, "nvlink", 1, "replace-node",
         "GPU 0 lost NVLink during the check: 1 of 2 links, 2 before"),
        ({"processes": [[4242], []]}, "exclusive.processes", 2, "fix-pool",
         "GPU 0 was used by 1 other process before the check began"),
        ({"after": {"replays": 81}}, "pcie", 3, "replace-node",
         "GPU 0 had to repeat 81 packets of PCIe, 80 are too many"),
    ],
    ids=str,
)  # fmt: skip
def test_each_check_fails_for_its_own_fault(
    smoke_either_way: Smoke, gpu: dict[str, Any], what: str, code: int, action: str, summary: str
) -> None:
    run = smoke_either_way(nvml={"gpus": [gpu]})
    assert (run.code, run.bad(), run.receipt["action"]) == (code, [(what, 0)], action)
    assert run.summary == summary
    assert statuses(run)[what] == "fail"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "what"),
    [
        ("nvmlDeviceGetMigMode", "mig"), ("nvmlDeviceGetMemoryErrorCounter", "ecc"),
        ("nvmlDeviceGetRemappedRows", "remap"), ("nvmlDeviceGetRetiredPages", "retired"),
        ("nvmlDeviceGetFieldValues", "recovery"), ("nvmlDeviceGetSupportedEventTypes", "xid"),
        ("nvmlDeviceGetComputeRunningProcesses", "exclusive.processes"),
        ("nvmlDeviceGetMaxPcieLinkWidth", "pcie"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("how", ["refuse", "absent"])
def test_features_that_the_gpu_or_an_older_nvidia_ml_py_lacks_are_skipped(
    smoke: Smoke, function: str, what: str, how: str
) -> None:
    nvml = {"absent": [function]} if how == "absent" else {"gpus": [{"refuse": {function: 3}}]}
    run = smoke(nvml=nvml)
    assert run.code == 0
    assert statuses(run)[what] == "skip"
    assert found(run, what)["message"].startswith("NVML does not report it: ")


@pytest.mark.parametrize("code", [48, 79, 54, 95])
def test_an_xid_of_the_hardware_is_a_gpu_fault_with_its_own_action(smoke_either_way: Smoke, code: int) -> None:
    run = smoke_either_way(nvml={"xids": [{"code": code}]})
    assert (run.code, run.bad()) == (1, [("xid", 0)])
    assert run.summary == f"GPU 0 failed during the check: Xid {code}: {XIDS[code].text}"
    assert run.receipt["action"] == {48: "reset-gpu", 79: "reboot", 54: "replace-node", 95: "reset-gpu"}[code]
    assert run.receipt["host"]["xids"] == [{"uuid": "GPU-0000-0", "code": code}]


def test_a_gpu_is_matched_by_uuid_whatever_its_number_in_cuda_is(smoke: Smoke) -> None:
    gpus = [{"uuid": "GPU-bb"}, {"uuid": "GPU-aa", "uncorrected": 1}, {"uuid": "GPU-cc", "uncorrected": 9}]
    run = smoke("--expect-gpus", "2", gpus=[{"uuid": "aa"}, {"uuid": "bb"}], nvml={"gpus": gpus})
    assert run.bad() == [("ecc", 0)]
    assert run.summary.startswith("GPU 0 lost data: 1 uncorrected")


def test_a_gpu_that_nvml_does_not_list_is_a_warning_and_no_silence(smoke: Smoke) -> None:
    run = smoke(nvml={"gpus": [{"uuid": "GPU-other"}]})
    assert run.code == 0
    text = "NVML lists no GPU with the UUID 0000-0, which CUDA reports for GPU 0"
    assert (found(run, "nvml", 0)["status"], found(run, "nvml", 0)["message"]) == ("warn", text)
    assert set(statuses(run).values()) == {"skip"}


def test_a_torch_without_uuids_finds_the_only_gpu_and_none_of_several(smoke: Smoke) -> None:
    assert smoke(gpus=[{"uuid": None}], nvml={"gpus": [{"pages": 63}]}).bad() == [("retired", 0)]
    run = smoke("--expect-gpus", "2", gpus=[{"uuid": None}] * 2, nvml={"gpus": [{"pages": 63}, {}]})
    assert run.code == 0
    assert set(statuses(run).values()) == {"skip"}


SLICE = {"name": "NVIDIA A100-SXM4-80GB MIG 1g.10gb", "cc": "8.0", "sm": 14, "mem": 9_900_000_000, "uuid": "s1"}


@pytest.mark.parametrize(("expected", "bad"), [("A100 MIG 1g.10gb", []), ("A100", [("gpu.mig", 0)])])
def test_a_slice_is_matched_with_its_gpu_and_processes_of_other_slices_do_not_count(
    smoke: Smoke, expected: str, bad: list[tuple[str, int]]
) -> None:
    whole = {"mig": [1, 1], "slices": ["MIG-s0", "MIG-s1"], "processes": [[1, 2, 3]], "rows": [1, 0, 0, 0]}
    run = smoke("--expect-gpu", expected, gpus=[SLICE], arch=["sm_80"], nvml={"gpus": [whole]})
    assert run.bad() == bad
    assert found(run, "mig")["message"] == "on; 1g.10gb of 2"
    assert found(run, "remap")["message"] == "1 rows replaced, none pending"
    assert statuses(run)["exclusive.processes"] == "skip"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "code", "bad"),
    [
        ({}, 1, [("gpu.lost", 0)]),
        ({"faults": [{"kind": "hang", "dtype": "bfloat16"}]}, 4, [("deadline", 0), ("gpu.lost", 0)]),
    ],
    ids=["at the end", "given up"],
)
def test_a_gpu_that_was_lost_for_a_while_is_lost(
    smoke: Smoke, more: dict[str, Any], code: int, bad: list[tuple[str, int]]
) -> None:
    # Of what NVML is asked, only samples have a temperature.
    away = {"gpus": [{"refuse": {"nvmlDeviceGetTemperature": 15}}]}
    run = smoke("--deadline-sec", "8", nvml=away, lasts={"product": 1}, **more)
    assert (run.code, run.bad()) == (code, bad)


@pytest.mark.parametrize("code", LOST)
def test_a_gpu_that_nvml_cannot_open_is_lost(smoke: Smoke, code: int) -> None:
    refuse = {"gpus": [{}, {"refuse": {"nvmlDeviceGetUUID": code}}]}
    run = smoke(nvml=refuse)
    assert (run.code, run.bad()) == (1, [("gpu.lost", None)])
    assert run.summary == f"a GPU of this machine is lost: {LOST[code][1]}"


def test_every_action_of_the_tables_is_one_that_receipts_know() -> None:
    actions = {each.action for each in XIDS.values()} | {action for action, _ in [*RECOVERY.values(), *LOST.values()]}
    assert actions == {"", "reset-gpu", "reboot", "replace-node"}
