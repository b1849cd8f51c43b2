"""The effect of a changed argument of a Kubernetes component on `pulumi up`, by the API server's immutable fields.

Which fields those are is the sandbox's table of them, from pulumi-kubernetes' own. A release of
Helm's is made anew for another name, namespace or trigger, and upgraded for everything else.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from google.protobuf import json_format
from gpu_ci.component import Component
from gpu_ci.kubernetes.arc_controller import ArcController
from gpu_ci.kubernetes.device_plugin import DevicePlugin
from gpu_ci.kubernetes.gpu_namespace import GpuNamespace
from gpu_ci.kubernetes.image_pre_pull import ImagePrePull
from gpu_ci.kubernetes.kueue import Kueue
from gpu_ci.kubernetes.runner_scale_set import RunnerScaleSet
from gpu_ci.kubernetes.smoke_job import SmokeJob
from pulumi_sandbox.providers import bridged
from pulumi_sandbox.providers.kubernetes.provider import DATA, IDENTITY, REPLACES

from tests.gpu_ci.harness import Row, deploy
from tests.gpu_ci.support import COMPUTED, CONTROLLER, scale_set_wiring

pytestmark = pytest.mark.usefixtures("short_definitions")

RELEASE = "kubernetes:helm.sh/v3:Release"
IMAGE = f"ghcr.io/acme/other@sha256:{'b2' * 32}"
UPDATE, REPLACE = "update", "replace"
# The components with a namespace, apart from RunnerScaleSet.
NAMESPACED = (ImagePrePull, SmokeJob)
VOLUME = {"kind": "kubernetes-novolume"}
TOLERATION = {"key": "kubernetes.io/arch", "value": "arm64"}
RELEASED = {"release": UPDATE}
WITHIN = ("namespace", "quota", "default-account", "deny", "dns", "egress")

# The component, what changes, and what happens to which child.
CHANGES: list[tuple[type[Component], dict[str, Any], dict[str, str]]] = [
    (GpuNamespace, {"namespace": "other"}, dict.fromkeys(WITHIN, REPLACE)),
    (GpuNamespace, {"pod_security": "baseline"}, {"namespace": UPDATE}),
    (GpuNamespace, {"gpus": 5}, {"quota": UPDATE}),
    (GpuNamespace, {"gpu_resource": "nvidia.com/mig-1g.10gb"}, {"quota": UPDATE}),
    (GpuNamespace, {"pods": 17}, {"quota": UPDATE}),
    (GpuNamespace, {"cpus": 64}, {"quota": UPDATE}),
    (GpuNamespace, {"memory_gib": 256}, {"quota": UPDATE}),
    (GpuNamespace, {"egress_ports": [443, 22]}, {"egress": UPDATE}),
    (GpuNamespace, {"private_ranges": ["10.1.0.0/16"]}, {"egress": UPDATE}),
    (GpuNamespace, {"dns_addresses": ["10.0.0.10"]}, {"dns": UPDATE}),
    (GpuNamespace, {"cached_dns": ["34.118.224.10"]}, {"dns": UPDATE}),
    (GpuNamespace, {"image_pull_secrets": []}, {}),
    (GpuNamespace, {"queues": ["vision"]}, {"namespace": UPDATE}),
    (DevicePlugin, {"device_list_strategy": "envvar"}, RELEASED),
    (DevicePlugin, {"namespace": "other"}, {"namespace": REPLACE, "release": REPLACE}),
    (DevicePlugin, {"sharing": {"kind": "mps", "replicas": 2}}, RELEASED),
    (DevicePlugin, {"configs": {}}, RELEASED),
    (DevicePlugin, {"built_in_pools": []}, RELEASED),
    (DevicePlugin, {"priority_class": "other"}, RELEASED),
    (DevicePlugin, {"cpu_milli": 60}, RELEASED),
    (DevicePlugin, {"memory_mib": 256}, RELEASED),
    (ArcController, {"namespace": "other"}, {"namespace": REPLACE, "release": REPLACE}),
    (ArcController, {"replicas": 2}, RELEASED),
    (ArcController, {"update_strategy": "immediate"}, RELEASED),
    (ArcController, {"metrics": False}, RELEASED),
    (ArcController, {"watch_single_namespace": "gpu-ci"}, RELEASED),
    (Kueue, {"namespace": "other"}, {"namespace": REPLACE, "release": REPLACE}),
    (Kueue, {"replicas": 2}, RELEASED),
    (Kueue, {"queues": {**Kueue.EXAMPLE["queues"], "vision": {"gpus": 5, "cohort": "gpu"}}}, {"vision": UPDATE}),
    (Kueue, {"queues": {**Kueue.EXAMPLE["queues"], "vision": {"gpus": 4}}}, {"vision": UPDATE}),
    (ImagePrePull, {"namespace": "other"}, {"daemonset": REPLACE}),
    (ImagePrePull, {"pool": "other"}, {"daemonset": REPLACE}),
    (ImagePrePull, {"images": [IMAGE]}, {"daemonset": UPDATE}),
    (ImagePrePull, {"image_pull_secrets": ["ghcr"]}, {"daemonset": UPDATE}),
    (ImagePrePull, {"tolerations": [TOLERATION]}, {"daemonset": UPDATE}),
    (ImagePrePull, {"pause_image": IMAGE}, {"daemonset": UPDATE}),
    (RunnerScaleSet, {"image": IMAGE}, RELEASED),
    (RunnerScaleSet, {"image_pull_secrets": ["ghcr"]}, RELEASED),
    (RunnerScaleSet, {"container_mode": VOLUME}, {"release": UPDATE, "files": REPLACE}),
    (RunnerScaleSet, {"gpus": 2}, RELEASED),
    (RunnerScaleSet, {"gpu_resource": "nvidia.com/gpu.shared"}, RELEASED),
    (RunnerScaleSet, {"cpus": 5}, RELEASED),
    (RunnerScaleSet, {"memory_gib": 17}, RELEASED),
    (RunnerScaleSet, {"ephemeral_storage_gib": 11}, RELEASED),
    (RunnerScaleSet, {"cache": {"kind": "shared", "claim": "models"}}, RELEASED),
    (RunnerScaleSet, {"scratch": {"sizeGib": 200}}, RELEASED),
    (RunnerScaleSet, {"shm_gib": 3}, RELEASED),
    (RunnerScaleSet, {"allow_sudo": True}, RELEASED),
    (RunnerScaleSet, {"termination_grace_sec": 91}, RELEASED),
    (RunnerScaleSet, {"drain_timeout_sec": 3601}, RELEASED),
    (RunnerScaleSet, {"job_started_hook": "#!/bin/sh\ntrue\n"}, {"files": REPLACE}),
    (RunnerScaleSet, {"job_completed_hook": "#!/bin/sh\ntrue\n"}, {"files": REPLACE, "release": UPDATE}),
    (RunnerScaleSet, {"scale_set_name": "other"}, {"release": REPLACE, "registered": REPLACE}),
    (RunnerScaleSet, {"scale_set_labels": ["gpu"]}, {"release": REPLACE}),
    (RunnerScaleSet, {"github_config_url": "https://github.com/other"}, {"release": REPLACE}),
    (RunnerScaleSet, {"runner_group": "other"}, {"release": REPLACE}),
    (RunnerScaleSet, {"max": 5}, RELEASED),
    (RunnerScaleSet, {"min_idle": 1}, RELEASED),
    (RunnerScaleSet, {"pool": "other"}, RELEASED),
    (RunnerScaleSet, {"queue": "vision"}, RELEASED),
    (RunnerScaleSet, {"priority_class_name": "ci-high"}, RELEASED),
    (RunnerScaleSet, {"environment": {"A": "1"}}, RELEASED),
    (RunnerScaleSet, {"tolerations": [TOLERATION]}, RELEASED),
    (RunnerScaleSet, {"namespace": "other"}, dict.fromkeys(("release", "registered", "app", "files"), REPLACE)),
    (RunnerScaleSet, {"controller": {**CONTROLLER, "serviceAccountName": "other"}}, RELEASED),
    (SmokeJob, {"namespace": "other"}, {"job": REPLACE, "check": REPLACE}),
    (SmokeJob, {"pool": "other"}, {"job": REPLACE, "check": UPDATE}),
    (SmokeJob, {"node_labels": {"cloud.google.com/gke-nodepool": "l4"}}, {"job": REPLACE}),
    (SmokeJob, {"image": IMAGE}, {"job": REPLACE}),
    (SmokeJob, {"image_pull_secrets": ["ghcr"]}, {"job": REPLACE}),
    (SmokeJob, {"run_as_user": 1001}, {"job": REPLACE}),
    (SmokeJob, {"closed_to_cluster": True}, {"job": REPLACE}),
    (SmokeJob, {"gpus": 2}, {"job": REPLACE}),
    (SmokeJob, {"nodes": 2}, {"job": REPLACE}),
    (SmokeJob, {"namespace_gpus": 1}, {}),
    (SmokeJob, {"gpu": "Tesla T4"}, {"job": REPLACE}),
    (SmokeJob, {"min_compute_capability": "7.5"}, {"job": REPLACE}),
    (SmokeJob, {"deadline_sec": 1801}, {"job": UPDATE}),
    (SmokeJob, {"environment": {"A": "1"}}, {"job": REPLACE}),
    (SmokeJob, {"tolerations": [TOLERATION]}, {"job": REPLACE}),
    (SmokeJob, {"rerun_on": ["8"]}, {"job": REPLACE}),
]
# The key goes to the cluster as a new Secret's content, and its name is what the release is given.
UNTOLD = {RunnerScaleSet: {"app"}}


def rows(component: type[Component], change: dict[str, Any]) -> dict[str, Row]:
    """Return the resources of a component by URN."""

    def program() -> None:
        wiring = scale_set_wiring() if component is RunnerScaleSet else {}
        wiring |= {"namespace": "gpu-ci"} if component in NAMESPACED else {}
        component("one", component.ARGS(**{**_by_field(component), **wiring, **change}))

    passed = {"kubernetes:batch/v1:Job": {"status": {"succeeded": change.get("nodes", 1)}}}
    return {row.urn: row for row in deploy(program, computed={**COMPUTED, **passed}).rows}


@cache
def unchanged(component: type[Component]) -> dict[str, Row]:
    return rows(component, {})


def _by_field(component: type[Component]) -> dict[str, Any]:
    """Its example by the names of fields, which the changes have too."""
    names = {str(field.alias): name for name, field in component.ARGS.model_fields.items()}
    return {names[key]: value for key, value in component.EXAMPLE.items()}


def leaves(value: Any, path: str = "") -> dict[str, Any]:
    """Every value in a tree by its path, as the engine writes it."""
    if isinstance(value, dict):
        found: dict[str, Any] = {}
        for key, each in value.items():
            found |= leaves(each, f'{path}["{key}"]' if "." in key or "/" in key else f"{path}.{key}".lstrip("."))
        return found or {path: {}}
    if isinstance(value, list):
        found = {}
        for index, each in enumerate(value):
            found |= leaves(each, f"{path}[{index}]")
        return found or {path: []}
    return {path: value}


def replaces(row: Row, path: str) -> bool:
    group, kind = row.type.split(":")[1], row.type.rpartition(":")[2].removesuffix("Patch")
    known = (group.partition("/")[0] if "/" in group else "core", kind)
    patterns = (
        ("name", "namespace")
        if row.type == RELEASE
        else (*IDENTITY, *REPLACES.get(known, ()), *DATA.get(known, ("", ()))[1])
    )
    return bool(bridged.replaces({row.type: patterns}, row.type, path))


def happens(component: type[Component], change: dict[str, Any]) -> dict[str, str]:
    """Return the change of each child that both deployments have, by its role."""
    was, found = unchanged(component), {}
    for urn, row in rows(component, change).items():
        if urn not in was or not row.request.custom:
            continue
        before, after = leaves(was[urn].inputs), leaves(row.inputs)
        changed = [path for path in {**before, **after} if before.get(path) != after.get(path)]
        trigger = trigger_of(row) != trigger_of(was[urn])
        timeouts = row.request.customTimeouts != was[urn].request.customTimeouts
        if changed or trigger or timeouts:
            anew = trigger or any(replaces(row, path) for path in changed)
            found[row.name.removeprefix("one-")] = REPLACE if anew else UPDATE
    return found


def trigger_of(row: Row) -> Any:
    return json_format.MessageToDict(row.request.replacement_trigger)


@pytest.mark.parametrize(
    ("component", "change", "expected"),
    CHANGES,
    ids=[f"{component.__name__}-{next(iter(change))}" for component, change, _ in CHANGES],
)
def test_a_changed_argument_has_the_documented_effect(
    component: type[Component], change: dict[str, Any], expected: dict[str, str]
) -> None:
    assert happens(component, change) == expected


@pytest.mark.parametrize(
    "component", [GpuNamespace, DevicePlugin, ArcController, ImagePrePull, Kueue, RunnerScaleSet, SmokeJob]
)
def test_every_argument_is_in_the_table(component: type[Component]) -> None:
    told = {field for each, change, _ in CHANGES if each is component for field in change}
    assert set(component.ARGS.model_fields) - told == {"transform"} | UNTOLD.get(component, set())
