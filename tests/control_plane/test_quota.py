"""Compares the quota of a namespace in the sandbox with the real API server: refused pods, and the message."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_ci.kubernetes.gpu_namespace import GpuNamespace, GpuNamespaceArgs
from pulumi_sandbox.providers.kubernetes.scheduling import quota
from pulumi_sandbox.providers.kubernetes.scheduling.scheduler import Placement
from pulumi_sandbox.providers.kubernetes.workloads.pods import pod
from pulumi_sandbox.world.store import Record

from tests.control_plane.api import Api, until
from tests.control_plane.cluster_state import Both, gpu_node
from tests.control_plane.objects import declared, smoke_job
from tests.sandbox.providers.kubernetes.conftest import changed

FULL = "requested: requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=1, limited: requests.nvidia.com/gpu=1"
GPUS = "requested: requests.nvidia.com/gpu=2, used: requests.nvidia.com/gpu=0, limited: requests.nvidia.com/gpu=1"


def limit(both: Both, name: str, **choices: Any) -> None:
    """Create a GpuNamespace in both clusters, and wait until its controller has counted the quota."""
    for token, given in declared(lambda: GpuNamespace(name, GpuNamespaceArgs(**choices))):
        both.api.apply(given)
        if given["kind"] == "ResourceQuota":
            both.sandbox.world.insert(Record(token, f"{name}/gpus", "gpus", "", given, given))
            hard = given["spec"]["hard"]
    both.api.ensure_account(name)
    until(lambda: counted(both.api, name) == hard, f"the quota of {name} is counted")


def counted(api: Api, namespace: str) -> Any:
    [found] = api.get("v1", "ResourceQuota", namespace, "gpus")
    return (found.get("status") or {}).get("hard")


def asking(namespace: str, **resources: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": resources, "securityContext": {
        "runAsNonRoot": True, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]},
    }}  # fmt: skip
    spec = {"containers": [container], "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}
    meta = {"name": "p", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


@pytest.mark.parametrize(
    ("name", "choices", "resources", "said"),
    [
        ("gpus-enough", {"gpus": 1}, {"limits": {"nvidia.com/gpu": 1}}, []),
        (
            "gpus-too-many",
            {"gpus": 1},
            {"limits": {"nvidia.com/gpu": 2}},
            [f'pods "p" is forbidden: exceeded quota: gpus, {GPUS}'],
        ),
        (
            "no-amounts",
            {"gpus": 1, "cpus": 8, "memoryGib": 16},
            {},
            [
                'pods "p" is forbidden: failed quota: gpus: must specify requests.cpu for: c; requests.memory for: c',
            ],
        ),
        (
            "several",
            {"gpus": 1, "cpus": 8, "memoryGib": 16},
            {"limits": {"nvidia.com/gpu": 2}, "requests": {"cpu": "8500m", "memory": "17408Mi"}},
            [
                (
                    'pods "p" is forbidden: exceeded quota: gpus, requested: '
                    "requests.cpu=8500m,requests.memory=17Gi,requests.nvidia.com/gpu=2, used: "
                    "requests.cpu=0,requests.memory=0,requests.nvidia.com/gpu=0, limited: "
                    "requests.cpu=8,requests.memory=16Gi,requests.nvidia.com/gpu=1"
                )
            ],
        ),
        ("other-gpus", {"gpus": 1, "gpuResource": "nvidia.com/mig-1g.10gb"}, {"limits": {"nvidia.com/gpu": 4}}, []),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_a_pod_beyond_the_quota_is_refused_in_the_same_words(
    both: Both, name: str, choices: dict[str, Any], resources: dict[str, Any], said: list[str]
) -> None:
    limit(both, name, **choices)
    given = asking(name, **resources)
    sandbox = list(quota.refusals(both.sandbox.world, name, "p", given["spec"]))
    assert {"real": both.api.problems_of(given), "sandbox": sandbox} == {"real": said, "sandbox": said}


def test_the_controller_says_why_the_second_smoke_job_has_no_pod(both: Both) -> None:
    limit(both, "one-gpu", gpus=1)
    both.nodes(gpu_node())
    first = smoke_job(namespace="one-gpu")
    both.make(first)
    assert both.pod_of(first)["spec"]["nodeName"] == "gpu-1"
    second = changed(first, "metadata/name", "second")
    both.make(second)

    def event() -> dict[str, Any] | None:
        found = both.api.get("v1", "Event", "one-gpu")
        return next((dict(one) for one in found if one["reason"] == "FailedCreate"), None)

    real = until(event, "the Job's controller says why")
    name = real["message"].split('"')[1]
    assert name.startswith("second-")
    spec = first["spec"]["template"]["spec"]
    both.sandbox.world.insert(pod("first", "one-gpu", "first-pod", spec, Placement("gpu-1")))
    [sandbox] = quota.refusals(both.sandbox.world, "one-gpu", name, spec)
    expected = f'pods "{name}" is forbidden: exceeded quota: gpus, {FULL}'
    assert {"real": real["message"], "sandbox": sandbox} == {
        "real": f"Error creating: {expected}",
        "sandbox": expected,
    }
