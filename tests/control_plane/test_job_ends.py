"""Compares the end of a Job in the sandbox with the real controller: the time, the reason and the message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pulumi_sandbox.providers.kubernetes.workloads import job_rules
from pulumi_sandbox.providers.kubernetes.workloads.containers import ContainerResult

from tests.control_plane.api import until
from tests.control_plane.cluster_state import Both, gpu_node
from tests.control_plane.objects import smoke_job
from tests.sandbox.providers.kubernetes.conftest import changed

CHECK = "gpu-smoke"
FAIL_JOB = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3, 4]}}]}
TWO = {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 0, "backoffLimit": 6}


def job(**spec: Any) -> dict[str, Any]:
    found = smoke_job()
    return {**found, "spec": {**found["spec"], **spec}}


def run(both: Both, given: Mapping[str, Any], codes: list[int]) -> tuple[dict[str, Any], job_rules.Tally]:
    """Return the Job's status in the real cluster after its pods have ended like this, and the sandbox's count."""
    both.nodes(gpu_node(gpus=2))
    both.make(given)
    tally, wanted = job_rules.Tally(given["spec"]), len(codes)
    pods = until(lambda: found if len(found := both.pods_of(given)) == wanted else None, f"there are {wanted} pods")
    for pod in pods:
        name, space = pod["metadata"]["name"], pod["metadata"]["namespace"]
        index = pod["metadata"]["labels"].get("batch.kubernetes.io/job-completion-index")
        code = codes[int(index or 0)]
        ended = {"name": CHECK, "image": "x", "imageID": "", "ready": False, "restartCount": 0}
        ended["state"] = {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed"}}
        status = {"phase": "Failed" if code else "Succeeded", "containerStatuses": [ended]}
        both.api.patch_status("v1", "Pod", name, status, space)
        tally.count(f"{space}/{name}", None if index is None else int(index), [ContainerResult(CHECK, code)])
    assert tally.is_over(wanted)
    return both.status_of(given), tally


def test_a_check_that_passes_completes_its_job(both: Both) -> None:
    real, tally = run(both, job(), [0])
    said = job_rules.status(tally, "then", "later", 0)
    assert (real["succeeded"], said["succeeded"]) == (1, 1)
    assert ("Complete", "True") in {(one["type"], one["status"]) for one in real["conditions"]}
    assert said["conditions"] == [{"type": "Complete", "status": "True"}]


@pytest.mark.parametrize(
    ("spec", "codes", "reason", "message"),
    [
        ({}, [1], "BackoffLimitExceeded", "Job has reached the specified backoff limit"),
        (
            {"podFailurePolicy": FAIL_JOB},
            [3],
            "PodFailurePolicy",
            "Container gpu-smoke for pod {pod} failed with exit code 3 matching FailJob rule at index 0",
        ),
        ({"podFailurePolicy": FAIL_JOB}, [5], "BackoffLimitExceeded", "Job has reached the specified backoff limit"),
        (TWO, [1, 0], "FailedIndexes", "Job has failed indexes"),
        (
            {**TWO, "maxFailedIndexes": 0},
            [1, 1],
            "MaxFailedIndexesExceeded",
            "Job has exceeded the specified maximal number of failed indexes",
        ),
    ],
    ids=["backoff", "policy", "policy-of-other-codes", "index", "too-many-indexes"],
)
def test_a_check_that_fails_fails_its_job_for_the_same_reason(
    both: Both, spec: dict[str, Any], codes: list[int], reason: str, message: str
) -> None:
    given = job(**spec)
    real, tally = run(both, given, codes)
    pod = both.pods_of(given)[0]["metadata"]
    expected = (reason, message.format(pod=f"{pod['namespace']}/{pod['name']}"))
    [failed] = [one for one in real["conditions"] if one["type"] == "Failed"]
    assert {"real": (failed["reason"], failed["message"]), "sandbox": tally.condition} == {
        "real": expected,
        "sandbox": expected,
    }


def test_a_job_whose_pod_finds_no_node_ends_at_its_deadline(both: Both) -> None:
    given = changed(smoke_job(), "spec/activeDeadlineSeconds", 1)
    both.make(given)
    [failed] = [one for one in both.status_of(given)["conditions"] if one["type"] == "Failed"]
    expected = ("DeadlineExceeded", "Job was active longer than specified deadline")
    assert {"real": (failed["reason"], failed["message"]), "sandbox": job_rules.DEADLINE} == {
        "real": expected,
        "sandbox": expected,
    }
    # The controller deletes the pod, as the sandbox does (test_jobs.py), so that it needs no quota any more.
    assert both.pods_of(given) == []
