"""max-run-duration."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_ci_policies.properties import UNKNOWN

from .support import JOB, TEMPLATE, found, pod

TRIGGER = "gcp:cloudbuild/trigger:Trigger"


def template(seconds: Any = None, **given: Any) -> dict[str, Any]:
    duration = {} if seconds is None else {"scheduling": {"maxRunDuration": {"seconds": seconds}}}
    return {"machineType": "g2-standard-8", **duration, **given}


def job(gpu: bool, **spec: Any) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": 1} if gpu else {"cpu": 1}
    return pod({"name": "a", "resources": {"limits": limits}}, **spec)


UNSET = "scheduling.maxRunDuration.seconds is not set, and has to be at most 86400"


@pytest.mark.parametrize(
    ("kind", "props", "violations"),
    [
        (TEMPLATE, template(), [UNSET]),
        (TEMPLATE, template(machineType="n1-standard-4", guestAccelerators=[{"count": 1}]), [UNSET]),
        (TEMPLATE, template(machineType="e2-small", labels={"gpu-ci-pool": "x"}), [UNSET]),
        (TEMPLATE, template(86401), ["scheduling.maxRunDuration.seconds is 86401, and has to be at most 86400"]),
        (TEMPLATE, template(86400), []),
        (TEMPLATE, template("3600"), []),
        (TEMPLATE, template(UNKNOWN), []),
        (TEMPLATE, template(scheduling=UNKNOWN), []),
        (TEMPLATE, template(machineType="e2-small"), []),
        (TEMPLATE, template(machineType=UNKNOWN), []),
        (JOB, job(True), ["spec.activeDeadlineSeconds is not set, and has to be at most 86400"]),
        (JOB, job(True, activeDeadlineSeconds=1800), []),
        (JOB, job(True, activeDeadlineSeconds=UNKNOWN), []),
        (JOB, job(False), []),
        (TRIGGER, {"build": {"timeout": "90000s"}}, ["build.timeout is 90000, and has to be at most 86400"]),
        (TRIGGER, {"build": {"timeout": "1800s"}}, []),
        (TRIGGER, {"build": {}}, []),
        (TRIGGER, {"build": UNKNOWN}, []),
        ("gcp:cloudbuild/other:Other", {"build": {"timeout": "90000s"}}, []),
    ],
)
def test_machines_and_jobs_with_a_gpu_need_a_time_limit(
    kind: str, props: dict[str, Any], violations: list[str]
) -> None:
    assert found("max-run-duration", kind, props) == violations


def test_the_longest_is_chosen() -> None:
    assert found("max-run-duration", TEMPLATE, template(7200), maxSec=3600) == [
        "scheduling.maxRunDuration.seconds is 7200, and has to be at most 3600"
    ]
