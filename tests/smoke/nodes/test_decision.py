"""What the prover does with a node: from its taints, its Job, and what the node reports."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from gpu_smoke.nodes.decision import FAILURE, NODE_LABEL, PASSED_AT, PASSED_STATE, VERSION_LABEL, Pool, Settings, Step

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
UNPROVEN, FAILED = "startup/unproven", "status/failed"
GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"labels": {"gpu-ci-proof": "l4"}}, "spec": {"template": {
    "spec": {"containers": []}}}}  # fmt: skip
SETTINGS = Settings("l4", "gpu-ci", 2, UNPROVEN, FAILED, 1800, JOB, repeat_after_hours=24)
START = "start boot-1"
XID = {"type": "XidCriticalError", "status": "True", "reason": '{"79":true}', "lastTransitionTime": "11:00"}
REPAIR = {"type": "AcceleratedHardwareReady", "status": "False", "reason": "NvidiaXID79Error"}
HEALTHY = {"type": "AcceleratedHardwareReady", "status": "True", "reason": "Ready"}


def ago(**time: float) -> str:
    return (NOW - timedelta(**time)).isoformat().replace("+00:00", "Z")


def node(*taints: str, name: str = "a", gpus: int = 2, **more: Any) -> dict[str, Any]:
    annotations = {PASSED_AT: ago(hours=1), PASSED_STATE: json.dumps([START])}
    meta = {"name": name, "uid": f"uid-{name}", "resourceVersion": "7", "annotations": annotations}
    status = {
        "allocatable": {"nvidia.com/gpu": str(gpus)},
        "nodeInfo": {"bootID": "boot-1"},
        "conditions": more.pop("conditions", []),
    }
    meta["annotations"] = more.pop("annotations", annotations)
    spec = {"taints": [GPU_TAINT, *({"key": key, "value": "true", "effect": "NoSchedule"} for key in taints)]}
    return {"metadata": meta | more.pop("metadata", {}), "spec": spec | more, "status": status}


def job(condition: str = "", name: str = "a", created: str = "", version: str = "") -> dict[str, Any]:
    labels = {NODE_LABEL: f"uid-{name}", VERSION_LABEL: version or SETTINGS.version}
    conditions = [{"type": condition, "status": "True"}] if condition else []
    meta = {"name": f"gpu-check-uid-{name}", "labels": labels, "creationTimestamp": created or ago(seconds=20)}
    return {"metadata": meta, "status": {"conditions": conditions}}


def pod(state: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    """Return the pod of the Job, with the state of its first container."""
    states = [{"state": state or {}}, {"state": {"terminated": {"exitCode": 0, "message": "pass"}}}]
    meta = {"labels": {"job-name": "gpu-check-uid-a"}}
    spec = {"nodeName": "a", "containers": []}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Failed", "containerStatuses": states, **status}}


def runner(phase: str = "Running") -> dict[str, Any]:
    container = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    return {"metadata": {}, "spec": {"nodeName": "a", "containers": [container]}, "status": {"phase": phase}}


BROKEN = {"terminated": {"exitCode": 1, "message": "l4: GPU 0 computed\nwrong results"}}
PULL = {"waiting": {"reason": "ImagePullBackOff", "message": "no basic auth"}}
MARKED = ("Close", UNPROVEN)
WRONG = ("Fail", "l4: GPU 0 computed wrong results")
LATE = ago(minutes=31)


def step_of(found: Step | None) -> tuple[str, str] | None:
    """Return what a step does, with the taint that it adds or the reason that it writes."""
    if found is None or found.method != "PATCH":
        return found and (found.method, "")
    spec, annotations = found.body["spec"], found.body["metadata"]["annotations"]
    assert spec["taints"][0] == GPU_TAINT
    assert found.body["metadata"]["resourceVersion"] == "7"
    own = [each["key"] for each in spec["taints"][1:]]
    if annotations.get(FAILURE):
        assert (own, spec["unschedulable"]) == ([FAILED], True)
        assert (annotations[PASSED_AT], annotations[PASSED_STATE]) == (None, None)
        return "Fail", annotations[FAILURE]
    assert "unschedulable" not in spec
    return ("Close", *own) if own else ("Open", annotations[PASSED_STATE])


CASES: dict[str, tuple[dict[str, Any], list[Any], list[Any], tuple[str, str] | None]] = {
    "new": (node(UNPROVEN), [], [], ("POST", "")),
    "its check waits or runs": (node(UNPROVEN), [job()], [pod({}, phase="Running", startTime=ago(minutes=29))], None),
    "passed": (node(UNPROVEN), [job("Complete")], [], ("Open", json.dumps([START]))),
    "passed with a fault": (
        node(UNPROVEN, conditions=[XID]),
        [job("Complete")],
        [],
        ("Open", json.dumps([START, 'XidCriticalError {"79":true} 11:00'])),
    ),
    "failed": (node(UNPROVEN), [job("Failed")], [pod(BROKEN)], WRONG),
    "killed": (node(UNPROVEN), [job("Failed")], [pod({"terminated": {"exitCode": 137}})], ("Fail", "exit code 137")),
    # Without a verdict, the check is repeated.
    "evicted": (node(UNPROVEN), [job("Failed")], [pod(BROKEN, reason="Evicted")], ("DELETE", "")),
    "its pod was deleted": (node(UNPROVEN), [job("Failed")], [], ("DELETE", "")),
    "changed settings": (node(UNPROVEN), [job(version="old")], [], ("DELETE", "")),
    "image is not pulled": (
        node(UNPROVEN),
        [job()],
        [pod(PULL, phase="Pending", startTime=LATE)],
        ("Fail", "not ended after 1800 s: no basic auth"),
    ),
    # A check waits for running jobs for as long as they run.
    "GPUs are in use": (node(UNPROVEN), [job(created=ago(days=2))], [pod(phase="Pending")], None),
    "driver starts": (node(UNPROVEN, gpus=0), [job(created=ago(minutes=9))], [], None),
    "GPU is missing": (
        node(UNPROVEN, gpus=1),
        [job(created=ago(minutes=11))],
        [],
        ("Fail", "the node offers 1 of 2 GPUs"),
    ),
    "other node's Job": (node(UNPROVEN), [job("Complete", name="b")], [], ("POST", "")),
    "is being deleted": (node(UNPROVEN, metadata={"deletionTimestamp": ago()}), [], [], None),
    "proven": (node(), [], [], None),
    "proven, with the Job": (node(), [job("Complete")], [], ("DELETE", "")),
    # A failed node stays closed until a person asks for another check. Then a check comes first.
    "cordoned": (node(FAILED, unschedulable=True), [job("Failed")], [pod(BROKEN)], None),
    "cordoned, and the cloud adds its taint again": (node(FAILED, UNPROVEN, unschedulable=True), [], [], None),
    "uncordoned": (node(FAILED), [job("Failed")], [pod(BROKEN)], ("DELETE", "")),
    "uncordoned, without the Job": (node(FAILED), [], [], MARKED),
    "the taint of a failed node was removed": (node(annotations={FAILURE: "broken"}), [], [], MARKED),
    "never checked": (node(annotations={}), [], [], MARKED),
    "restarted": (node(annotations={PASSED_AT: ago(hours=1), PASSED_STATE: '["start boot-0"]'}), [], [], MARKED),
    "Xid on GKE": (node(conditions=[XID]), [], [], MARKED),
    "Xid on EKS": (node(conditions=[REPAIR]), [], [runner()], MARKED),
    "no fault": (node(conditions=[HEALTHY]), [], [], None),
    "the fault has gone": (
        node(annotations={PASSED_AT: ago(hours=1), PASSED_STATE: json.dumps([START, "XidCriticalError"])}),
        [],
        [],
        None,
    ),
}


@pytest.mark.parametrize(("given", "jobs", "pods", "expected"), CASES.values(), ids=CASES)
def test_the_next_step_of_a_node(
    given: dict[str, Any], jobs: list[Any], pods: list[Any], expected: tuple[str, str] | None
) -> None:
    [*found] = Pool(SETTINGS, NOW, [given], jobs, pods).steps()
    assert [step_of(step) for step in found] == ([] if expected is None else [expected])


def old(hours: float) -> dict[str, str]:
    return {PASSED_AT: ago(hours=hours), PASSED_STATE: json.dumps([START])}


@pytest.mark.parametrize(
    ("hours", "pods", "due"),
    [
        (23, [], False),
        (25, [], True),
        (25, [runner("Succeeded")], True),
        (25, [runner()], False),
        (47, [runner()], False),
        (49, [runner()], True),
    ],
)
def test_the_check_of_an_idle_node_is_repeated_after_the_time_and_of_a_busy_one_after_twice_the_time(
    hours: float, pods: list[Any], due: bool
) -> None:
    found = Pool(SETTINGS, NOW, [node(annotations=old(hours))], [], pods).steps()
    assert [step_of(step) for step in found] == ([MARKED] if due else [])


def test_checks_are_repeated_on_one_node_at_a_time() -> None:
    nodes = [node(name=name, annotations=old(25)) for name in "ab"]
    assert len([*Pool(SETTINGS, NOW, nodes).steps()]) == 1
    checked = node(UNPROVEN, name="c")
    assert [step_of(each) for each in Pool(SETTINGS, NOW, [*nodes, checked]).steps()] == [("POST", "")]


@pytest.mark.parametrize(("since", "expected"), [(59, []), (60, [MARKED])])
def test_a_node_that_loses_a_gpu_for_a_minute_is_closed(since: float, expected: list[Any]) -> None:
    short = {"uid-a": NOW - timedelta(seconds=since)}
    pool = Pool(SETTINGS, NOW, [node(gpus=1)], short_since=short)
    assert [step_of(step) for step in pool.steps()] == expected
    assert pool.is_short(pool.nodes[0])


def test_a_job_runs_on_its_node_alone_and_ends_with_it() -> None:
    [step] = Pool(SETTINGS, NOW, [node(UNPROVEN)]).steps()
    meta = step.body["metadata"]
    assert (step.path, meta["name"]) == ("/apis/batch/v1/namespaces/gpu-ci/jobs", "gpu-check-uid-a")
    assert meta["labels"] == {"gpu-ci-proof": "l4", NODE_LABEL: "uid-a", VERSION_LABEL: SETTINGS.version}
    assert meta["ownerReferences"] == [{"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "uid-a"}]
    affinity = step.body["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    [term] = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
    assert "affinity" not in JOB["spec"]["template"]["spec"]
