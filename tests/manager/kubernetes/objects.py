"""Objects of a cluster with ARC, validated against the definitions of its kinds and Kubernetes' own schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from gpu_ci.kubernetes import gpu_nodes
from gpu_smoke.nodes.decision import FAILURE
from jsonschema import Draft202012Validator
from pulumi_sandbox.providers.kubernetes import validation

Object = dict[str, Any]
NAMESPACE, SYSTEM, LISTENER = "gpu-ci", "arc-systems", "l4-6cd58d58-listener"
_ARC = "actions.github.com/v1alpha1"


@cache
def _schemas() -> dict[str, Any]:
    found = json.loads(files("gpu_ci.kubernetes").joinpath("arc_definitions.json").read_text())
    return {
        each["spec"]["names"]["kind"]: each["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for each in found["definitions"]
    }


def _unknown(schema: Mapping[str, Any], value: Any, path: str = "") -> Iterator[str]:
    """Return the fields that are missing in the definition. The API server drops them."""
    if isinstance(value, dict) and "properties" in schema:
        for key, each in value.items():
            if key in schema["properties"]:
                yield from _unknown(schema["properties"][key], each, f"{path}.{key}")
            else:
                yield f"{path}.{key}"
    elif isinstance(value, list):
        for each in value:
            yield from _unknown(schema.get("items", {}), each, path)


def checked(kind: str, found: Object) -> Object:
    """Return the object if it is valid in a cluster."""
    version = _ARC if kind in _schemas() else "v1"
    whole = {"apiVersion": version, "kind": kind, **found}
    if version == _ARC:
        schema = _schemas()[kind]
        problems = [error.message for error in Draft202012Validator(schema).iter_errors(whole)]
        # metadata is defined by Kubernetes itself.
        problems += _unknown(schema, {key: value for key, value in whole.items() if key != "metadata"})
    else:
        problems = [str(problem) for problem in validation.check(version, kind, whole)]
    assert problems == []
    return whole


def metadata(name: str, namespace: str, **more: Any) -> Object:
    return {"name": name, "namespace": namespace, "creationTimestamp": "2026-11-24T10:00:00Z", **more}


def scale_set(
    name: str = "l4", *, called: str = "", labels: tuple[str, ...] = (), phase: str = "Running", **more: Any
) -> Object:
    """Return a registered scale set, with the runner scale set name `called` if it is given."""
    about = {"annotations": {"runner-scale-set-id": "7"}, **more}
    spec: Object = {"githubConfigUrl": "https://github.com/acme", "maxRunners": 2}
    if called:
        spec["runnerScaleSetName"] = called
    if labels:
        spec["runnerScaleSetLabels"] = list(labels)
    return checked("AutoscalingRunnerSet", {"metadata": metadata(name, NAMESPACE, **about), "spec": spec,
                                            "status": {"phase": phase}})  # fmt: skip


def outdated_scale_set(name: str = "l4") -> Object:
    """Return a scale set whose runner exited with 7: without a registration, listener and runners.

    It has the form in which the controller leaves it (autoscalingrunnerset_controller.go, cleanUpResources and
    deleteRunnerScaleSet).
    """
    return scale_set(name, phase="Outdated", annotations={})


def listener(name: str = "l4") -> Object:
    spec = {"autoscalingRunnerSetName": name, "autoscalingRunnerSetNamespace": NAMESPACE, "runnerScaleSetId": 7}
    return checked("AutoscalingListener", {"metadata": metadata(LISTENER, SYSTEM), "spec": spec})


def runner(name: str, *, of: str = "l4", deleting: bool = False, **status: Any) -> Object:
    about = metadata(name, NAMESPACE, labels={"actions.github.com/scale-set-name": of})
    if deleting:
        about["deletionTimestamp"] = "2026-11-24T10:00:00Z"
    spec = {"githubConfigUrl": "https://github.com/acme", "githubConfigSecret": "app", "runnerScaleSetId": 7}
    return checked("EphemeralRunner", {"metadata": about, "spec": spec, "status": {"phase": "Pending", **status}})


def pod(
    name: str,
    namespace: str = NAMESPACE,
    *,
    node: str = "",
    gates: tuple[str, ...] = (),
    selector: dict[str, str] | None = None,
    status: Object | None = None,
    **more: Any,
) -> Object:
    spec: Object = {"containers": [{"name": "runner", "image": "ghcr.io/acme/cuda-runner@sha256:1"}]}
    if node:
        spec["nodeName"] = node
    if selector:
        spec["nodeSelector"] = selector
    if gates:
        spec["schedulingGates"] = [{"name": gate} for gate in gates]
    about = metadata(name, namespace, **more)
    return checked("Pod", {"metadata": about, "spec": spec, "status": status or {"phase": "Pending"}})


def node(name: str, taint: str, failure: str = "", pool: str = "l4") -> Object:
    about = {"name": name, "labels": gpu_nodes.labels(pool), "annotations": {FAILURE: failure} if failure else {}}
    taints = [{"key": taint, "value": "true", "effect": "NoSchedule"}]
    return checked("Node", {"metadata": about, "spec": {"taints": taints}})


def container(**state: Any) -> Object:
    return {"name": "runner", "image": "i", "imageID": "i", "ready": False, "restartCount": 0, "state": state}


def listener_pod(status: Object | None = None, **more: Any) -> Object:
    running = {"phase": "Running", "containerStatuses": [container(running={"startedAt": "2026-11-24T10:00:00Z"})]}
    return pod(LISTENER, SYSTEM, node="system-1", status=status or running, **more)


def event(name: str, reason: str, message: str, at: str = "2026-11-24T10:00:00Z", namespace: str = NAMESPACE) -> Object:
    about = {"kind": "Pod", "namespace": namespace, "name": name}
    return checked("Event", {"metadata": metadata(f"{name}.{reason}", namespace), "involvedObject": about,
                             "reason": reason, "message": message, "lastTimestamp": at, "type": "Warning"})  # fmt: skip


def quota(used: int, hard: int) -> Object:
    name = "requests.nvidia.com/gpu"
    status = {"hard": {name: str(hard), "pods": "40"}, "used": {name: str(used), "pods": "2"}}
    return checked("ResourceQuota", {"metadata": metadata("gpu-ci-quota", NAMESPACE), "status": status})
