"""A check of two nodes at once: where the real scheduler puts the pods, when they have DNS names, and the sandbox's
answer.
"""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.kubernetes.scheduling.affinity import OWN_RULE
from pulumi_sandbox.providers.kubernetes.scheduling.scheduler import POD, Placement

from tests.control_plane.api import until
from tests.control_plane.cluster_state import Both, gpu_node
from tests.control_plane.objects import JOB, SERVICE, smoke_job, smoke_objects
from tests.control_plane.test_scheduling import NO_GPU, pending, placed

NO_VICTIMS = "1 No preemption victims found for incoming pod"


def decided(both: Both, job: dict[str, Any]) -> list[dict[str, Any]]:
    """Return both pods after the scheduler has decided about them. The pod that was placed first comes first."""
    pods = until(lambda: found if len(found := both.pods_of(job)) == 2 else None, "there are two pods")
    space = job["metadata"]["namespace"]
    known = [both.decided(space, pod["metadata"]["name"]) for pod in pods]
    return sorted(known, key=lambda pod: not pod["spec"].get("nodeName"))


def node_of(both: Both, pod: dict[str, Any]) -> str:
    meta = pod["metadata"]
    [found] = both.api.get("v1", "Pod", meta["namespace"], meta["name"])
    return str(found["spec"].get("nodeName") or "")


def end(both: Both, pod: dict[str, Any]) -> None:
    both.api.patch_status("v1", "Pod", pod["metadata"]["name"], {"phase": "Succeeded"}, pod["metadata"]["namespace"])


def test_each_pod_gets_a_node_of_its_own(both: Both) -> None:
    both.nodes(gpu_node("a", gpus=2), gpu_node("b", gpus=2))
    job = smoke_job(nodes=2)
    both.make(job)
    real = {placed(pod).node for pod in decided(both, job)}
    said = {both.place_and_keep(job, number).node for number in range(2)}
    assert {"real": real, "sandbox": said} == {"real": {"a", "b"}, "sandbox": {"a", "b"}}


@pytest.mark.parametrize(("gpus", "why"), [(2, OWN_RULE), (1, NO_GPU)])
def test_on_one_node_the_second_pod_waits_for_the_same_reason_as_in_the_sandbox(
    both: Both, gpus: int, why: str
) -> None:
    both.nodes(gpu_node("a", gpus=gpus))
    job = smoke_job(nodes=2)
    both.make(job)
    real = [placed(pod) for pod in decided(both, job)]
    said = [both.place_and_keep(job, number) for number in range(2)]
    expected = [Placement("a"), pending(1, f"1 {why}", NO_VICTIMS)]
    assert {"real": real, "sandbox": said} == {"real": expected, "sandbox": expected}


def test_a_pod_that_has_ended_frees_its_node_for_another_pod(both: Both) -> None:
    both.nodes(gpu_node("a", gpus=2))
    job = smoke_job(nodes=2)
    both.make(job)
    first, second = decided(both, job)
    end(both, first)
    assert until(lambda: node_of(both, second), "the second pod has a node") == "a"
    assert both.place_and_keep(job) == Placement("a")
    [row] = both.sandbox.world.find(POD)
    both.sandbox.world.update(POD, row.id, outputs={**row.outputs, "status": {"phase": "Succeeded"}})
    assert both.place_and_keep(job, 1) == Placement("a")


def test_a_pod_has_a_dns_name_only_while_it_is_ready(both: Both) -> None:
    both.nodes(gpu_node("a"), gpu_node("b"))
    made = smoke_objects(nodes=2)
    job, service = made[JOB], {"apiVersion": "v1", "kind": "Service", **made[SERVICE]}
    both.make(service)
    both.make(job)
    pods = sorted(decided(both, job), key=lambda pod: str(pod["spec"]["hostname"]))
    name = job["metadata"]["name"]
    assert [(pod["spec"]["hostname"], pod["spec"]["subdomain"]) for pod in pods] == [
        (f"{name}-0", service["metadata"]["name"]),
        (f"{name}-1", service["metadata"]["name"]),
    ]
    slow, fast = pods

    def ready(pod: dict[str, Any], state: str, address: str) -> None:
        status = {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": state}],
        }
        both.api.patch_status("v1", "Pod", pod["metadata"]["name"], status, "gpu-ci")

    def named() -> dict[str, bool]:
        slices = both.api.get("discovery.k8s.io/v1", "EndpointSlice", "gpu-ci")
        own = [one for one in slices if one["metadata"]["labels"]["kubernetes.io/service-name"] == "peers-1"]
        listed = [endpoint for one in own for endpoint in one.get("endpoints") or ()]
        return {str(one.get("hostname")): bool(one["conditions"]["ready"]) for one in listed}

    ready(slow, "False", "10.244.0.7")
    ready(fast, "True", "10.244.0.8")
    # CoreDNS returns only addresses that are ready.
    seen = {f"{name}-0": False, f"{name}-1": True}
    assert until(lambda: named() == seen and named(), "both have a host name, and one is ready") == seen
    end(both, fast)
    until(lambda: list(named()) == [f"{name}-0"], "whoever has ended has no name")
