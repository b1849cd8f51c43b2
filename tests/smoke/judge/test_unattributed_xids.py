"""Xids that no GPU of the run can be found for, and Xids that NVML does not report."""

from __future__ import annotations

from typing import Any

import pytest

from ..checks.test_nvml_health import statuses
from ..conftest import Smoke


@pytest.mark.parametrize("hidden", [{"nvmlDeviceGetUUID": 3}, {}], ids=["no UUID by NVML", "another UUID"])
def test_an_xid_of_a_gpu_that_cannot_be_named_fails_the_machine(smoke: Smoke, hidden: dict[str, int]) -> None:
    run = smoke(nvml={"gpus": [{"uuid": "GPU-other", "refuse": hidden}], "xids": [{"code": 31}, {"code": 79}]})
    assert (run.code, run.bad()) == (1, [("xid", None)])
    assert run.summary == (
        "a GPU of this machine failed during the check: Xid 31: memory page fault, most often an application's; "
        "Xid 79: the GPU has fallen off the bus"
    )
    assert run.receipt["action"] == "reboot"


def test_without_uuids_an_xid_of_one_of_several_gpus_fails_the_machine(smoke: Smoke) -> None:
    told = {"gpus": [{}, {}], "xids": [{"code": 48, "gpu": 1}]}
    run = smoke("--expect-gpus", "2", gpus=[{"uuid": None}] * 2, nvml=told)
    assert (run.code, run.bad()) == (1, [("xid", None)])


def test_an_xid_of_a_gpu_that_is_not_among_those_looked_at_is_not_their_fault(smoke: Smoke) -> None:
    run = smoke(nvml={"gpus": [{}, {"uuid": "GPU-other"}], "xids": [{"code": 79, "gpu": 1}]})
    assert (run.code, statuses(run)["xid"]) == (0, "pass")


@pytest.mark.parametrize("told", [{"refuse": {"nvmlEventSetWait_v2": 999}}, {"absent": ["nvmlEventSetWait_v2"]}])
def test_xids_that_nvml_does_not_report_are_not_reported_as_none(smoke: Smoke, told: dict[str, Any]) -> None:
    run = smoke(nvml={"gpus": [{}], **told})
    assert run.code == 0
    assert statuses(run)["xid"] == ("skip" if "absent" in told else "warn")
