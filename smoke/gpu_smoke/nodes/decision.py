"""Decides the next step for each node of a pool, from the objects of the cluster alone.

A node with the taint of unproven nodes gets a Job with the check. Only a pass removes the taint. A failure replaces it
by the taint of failed nodes, and cordons the node. No step removes one of these taints without a pass, so each step can
be repeated, and the program can end at any time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from ..reports import safe_line

Object = Mapping[str, Any]

NODE_LABEL, VERSION_LABEL = "gpu-ci-node", "gpu-ci-version"
"""The labels of a Job with the UID of its node, and with the version of the settings."""
PASSED_AT, PASSED_STATE, FAILURE = "gpu-ci-passed-at", "gpu-ci-passed-state", "gpu-ci-failure"
"""The annotations of a node: the time of the last pass, what the node then reported, and why the check failed."""
_GPU = "nvidia.com/gpu"
# The conditions by which GKE's device plugin and EKS's node monitoring agent report faults such as an Xid
# (GoogleCloudPlatform/container-engine-accelerators@992db812:pkg/gpu/nvidia/health_check/health_checker.go;
# docs.aws.amazon.com/eks/latest/userguide/node-health-nma.html).
_FAULTS = {"XidCriticalError": "True", "AcceleratedHardwareReady": "False"}
# How long a node may offer too few GPUs: a proven node, whose device plugin may restart, and a node that is checked,
# whose driver may still be installed. A device plugin withdraws a GPU after an Xid.
_RESTART, _INSTALLATION = timedelta(minutes=1), timedelta(minutes=10)


@dataclass(frozen=True)
class Settings:
    """What the program knows of its pool."""

    pool: str
    namespace: str
    gpus: int
    unproven: str
    """The key of the taint of nodes that have not passed the check."""
    failed: str
    """The key of the taint of nodes that have failed it."""
    deadline_sec: float
    """The time from the start of a check's pod to its end, with the pull of the image."""
    job: dict[str, Any]
    """The Job with the check, without the fields that depend on the node."""
    repeat_after_hours: float | None = None

    @property
    def version(self) -> str:
        """A label value that changes with the Job."""
        return hashlib.sha256(json.dumps(self.job, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def jobs(self) -> str:
        """The path of the Jobs in the API."""
        return f"/apis/batch/v1/namespaces/{self.namespace}/jobs"


@dataclass(frozen=True)
class Step:
    """A request to the API server, with the line for the log."""

    text: str
    method: str
    path: str
    body: Object


@dataclass(frozen=True)
class Pool:
    """The nodes of a pool, its Jobs, and the pods of its namespace, at one time."""

    settings: Settings
    now: datetime
    nodes: Sequence[Object]
    jobs: Sequence[Object] = ()
    pods: Sequence[Object] = ()
    short_since: Mapping[str, datetime] = field(default_factory=dict)
    """The time at which a node began to offer too few GPUs, by its UID."""

    def steps(self) -> Iterator[Step]:
        """Yield at most one step for each node.

        A check is repeated on one node at a time. Autoscalers count the nodes that wait for it as not ready, and stop
        if too many nodes are not ready.
        """
        may_repeat = not any(self.settings.unproven in _taints(node) for node in self.nodes)
        for node in self.nodes:
            if node["metadata"].get("deletionTimestamp"):
                continue
            step = self._step(node)
            if step is None and may_repeat and self._is_due(node):
                may_repeat, step = False, self._close(node, "its last check is old")
            if step is not None:
                yield step

    def is_short(self, node: Object) -> bool:
        """Return True if the node offers fewer GPUs than the machines of the pool have."""
        return int(node["status"].get("allocatable", {}).get(_GPU, 0)) < self.settings.gpus

    def _step(self, node: Object) -> Step | None:
        taints, job = _taints(node), self._job_of(node)
        if self.settings.failed in taints:
            if node["spec"].get("unschedulable"):
                return None  # `kubectl uncordon` asks for another check
            return self._delete(job) if job else self._close(node, "the node is schedulable again")
        if self.settings.unproven not in taints:
            if job is not None:
                return self._delete(job)
            reason = self._reason_for_check(node)
            return self._close(node, reason) if reason else None
        if job is None:
            return self._create_job(node)
        return self._judged(node, job)

    def _job_of(self, node: Object) -> Object | None:
        uid = node["metadata"]["uid"]
        return next((job for job in self.jobs if job["metadata"]["labels"][NODE_LABEL] == uid), None)

    def _reason_for_check(self, node: Object) -> str:
        """Return why a node without a taint needs a check; empty if the last pass still holds."""
        passed = json.loads(_annotations(node).get(PASSED_STATE, "[]"))
        if new := [each for each in _state(node) if each not in passed]:
            return f"no check has passed since: {', '.join(new)}"
        since = self.short_since.get(node["metadata"]["uid"])
        if since is not None and self.now - since >= _RESTART:
            return f"the node offers fewer than {self.settings.gpus} GPUs"
        return ""

    def _is_due(self, node: Object) -> bool:
        """Return True if the time of the last pass is over. A busy node that takes more jobs has twice the time."""
        passed_at = _annotations(node).get(PASSED_AT)
        if self.settings.repeat_after_hours is None or passed_at is None or self.settings.failed in _taints(node):
            return False
        name, after = node["metadata"]["name"], timedelta(hours=self.settings.repeat_after_hours)
        is_busy = any(pod["spec"].get("nodeName") == name and _holds_gpus(pod) for pod in self.pods)
        return self.now - _time(passed_at) >= (2 * after if is_busy else after)

    def _judged(self, node: Object, job: Object) -> Step | None:
        """Return what follows from the state of a Job."""
        meta, pod = job["metadata"], self._pod_of(job)
        ended = [each for each in job.get("status", {}).get("conditions", ()) if each["status"] == "True"]
        if any(each["type"] == "Complete" for each in ended):
            return self._passed(node)
        if any(each["type"] == "Failed" for each in ended):
            # A pod that was deleted or that the kubelet ended gives no verdict.
            if pod is None or pod["status"].get("reason"):
                return self._delete(job)
            return self._failed(node, _failure(pod))
        if meta["labels"][VERSION_LABEL] != self.settings.version:
            return self._delete(job)
        started = pod and pod["status"].get("startTime")
        if pod and started and self.now - _time(started) >= timedelta(seconds=self.settings.deadline_sec):
            return self._failed(node, f"not ended after {self.settings.deadline_sec:g} s: {_failure(pod)}")
        if self.is_short(node) and self.now - _time(meta["creationTimestamp"]) >= _INSTALLATION:
            offered = node["status"].get("allocatable", {}).get(_GPU, 0)
            return self._failed(node, f"the node offers {offered} of {self.settings.gpus} GPUs")
        return None

    def _pod_of(self, job: Object) -> Object | None:
        name = job["metadata"]["name"]
        of_job = (pod for pod in self.pods if pod["metadata"].get("labels", {}).get("job-name") == name)
        return next(of_job, None)

    def _create_job(self, node: Object) -> Step:
        meta, job = node["metadata"], json.loads(json.dumps(self.settings.job))
        job["metadata"] |= {
            # Only one Job of this name can exist, so that two programs do not check a node at the same time.
            "name": f"gpu-check-{meta['uid']}",
            "labels": {
                **job["metadata"]["labels"],
                NODE_LABEL: meta["uid"],
                VERSION_LABEL: self.settings.version,
            },
            # Kubernetes deletes the Job when its node is deleted.
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": meta["name"], "uid": meta["uid"]}],
        }
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [meta["name"]]}]}
        job["spec"]["template"]["spec"]["affinity"] = {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        }
        return Step(f"{meta['name']}: checks the node", "POST", self.settings.jobs, job)

    def _delete(self, job: Object) -> Step:
        name = job["metadata"]["name"]
        return Step(f"deletes the Job {name}", "DELETE", f"{self.settings.jobs}/{name}",
                    {"propagationPolicy": "Background"})  # fmt: skip

    def _close(self, node: Object, reason: str) -> Step:
        return self._patch(node, f"is closed until a check passes: {reason}", self.settings.unproven)

    def _passed(self, node: Object) -> Step:
        at = self.now.isoformat(timespec="seconds")
        annotations = {PASSED_AT: at, PASSED_STATE: json.dumps(_state(node)), FAILURE: None}
        return self._patch(node, "passed the check", "", annotations)

    def _failed(self, node: Object, reason: str) -> Step:
        text = safe_line(reason)
        annotations = {PASSED_AT: None, PASSED_STATE: None, FAILURE: text}
        return self._patch(node, f"failed the check: {text}", self.settings.failed, annotations, cordon=True)

    def _patch(
        self, node: Object, text: str, taint: str, annotations: Object | None = None, *, cordon: bool = False
    ) -> Step:
        """Return a change of a node, which gets `taint` instead of the taints of this program."""
        meta, own = node["metadata"], (self.settings.unproven, self.settings.failed)
        taints = [each for each in node["spec"].get("taints") or () if each["key"] not in own]
        added = [{"key": taint, "value": "true", "effect": "NoSchedule"}] if taint else []
        body = {
            # The API server refuses the change if the node has changed, because the list of taints is replaced.
            "metadata": {"resourceVersion": meta["resourceVersion"], "annotations": annotations or {}},
            "spec": {"taints": [*taints, *added], **({"unschedulable": True} if cordon else {})},
        }
        return Step(f"{meta['name']}: {text}", "PATCH", f"/api/v1/nodes/{meta['name']}", body)


def _taints(node: Object) -> list[str]:
    return [each["key"] for each in node["spec"].get("taints") or ()]


def _annotations(node: Object) -> Object:
    return node["metadata"].get("annotations") or {}


def _state(node: Object) -> list[str]:
    """Return the start of the machine and its reported faults. Another start may be another machine of this name."""
    conditions = node["status"].get("conditions", ())
    return [
        f"start {node['status'].get('nodeInfo', {}).get('bootID', '')}",
        *(
            safe_line(f"{each['type']} {each.get('reason', '')} {each.get('lastTransitionTime', '')}")
            for each in conditions
            if _FAULTS.get(each["type"]) == each["status"]
        ),
    ]


def _holds_gpus(pod: Object) -> bool:
    if pod["status"].get("phase") in ("Succeeded", "Failed"):
        return False
    limits = (each.get("resources", {}).get("limits", {}) for each in pod["spec"]["containers"])
    return any(name.startswith("nvidia.com/") for each in limits for name in each)


def _failure(pod: Object) -> str:
    """Return the message of the first container that failed or that waits."""
    states = [each.get("state", {}) for each in pod["status"].get("containerStatuses", ())]
    for each in (*(state.get("terminated") for state in states), *(state.get("waiting") for state in states)):
        if each and each.get("exitCode", 1):
            return str(each.get("message") or each.get("reason") or f"exit code {each.get('exitCode')}")
    return "its pod gave no reason"


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
