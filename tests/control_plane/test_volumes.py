"""Compares the place of a runner with a cache or scratch space in the sandbox with the real scheduler.

No driver of a storage class runs here. A volume that a driver would create exists before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from gpu_ci.kubernetes.runner_scale_set import RunnerScaleSet, RunnerScaleSetArgs
from pulumi_sandbox.providers.kubernetes.scheduling.scheduler import Placement
from pulumi_sandbox.providers.kubernetes.scheduling.volumes import CLAIM, CLASS, VOLUME
from pulumi_sandbox.providers.kubernetes.workloads.pods import pod
from pulumi_sandbox.world.store import Record

from tests.control_plane.api import until
from tests.control_plane.cluster_state import Both, gpu_node
from tests.control_plane.objects import helm_values
from tests.control_plane.test_scheduling import NO_GPU, NO_USE, pending, placed
from tests.gpu_ci.support import scale_set_wiring

SPACE = "gpu-ci"
SHARED = {"kind": "shared", "claim": "models"}
PER_RUNNER = {"kind": "per-runner", "storageClass": "gp3", "sizeGib": 100}
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
ALONE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
TOKENS = {"PersistentVolumeClaim": CLAIM, "PersistentVolume": VOLUME, "StorageClass": CLASS}
GP3 = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "gp3"},
    "provisioner": "ebs.csi.aws.com",
    "volumeBindingMode": "WaitForFirstConsumer",
}


def runner(**choices: Any) -> dict[str, Any]:
    """Return the spec of a runner's pod in a scale set with these choices."""

    def program() -> None:
        RunnerScaleSet("l4", RunnerScaleSetArgs(**{**RunnerScaleSet.EXAMPLE, **scale_set_wiring(), **choices}))

    spec: dict[str, Any] = helm_values(program)["template"]["spec"]
    return spec


def claim(mode: str, **spec: Any) -> dict[str, Any]:
    amount = {"requests": {"storage": "100Gi"}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "models", "namespace": SPACE},
        "spec": {"accessModes": [mode], "storageClassName": "efs-sc", "resources": amount, **spec},
    }


def volume(mode: str, storage_class: str) -> dict[str, Any]:
    source = {"driver": "efs.csi.aws.com", "volumeHandle": "fs-1"}
    spec = {"accessModes": [mode], "storageClassName": storage_class, "capacity": {"storage": "100Gi"}, "csi": source}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "fs-1"}, "spec": spec}


def make(both: Both, *objects: Mapping[str, Any]) -> None:
    """Create the objects in both clusters. Wait until a claim has its volume, if there is one."""
    for given in objects:
        both.make(given)
        meta = given["metadata"]
        identity = "/".join(part for part in (meta.get("namespace"), meta["name"]) if part)
        both.sandbox.world.insert(Record(TOKENS[given["kind"]], identity, meta["name"], "", dict(given), dict(given)))
    if {"PersistentVolumeClaim", "PersistentVolume"} <= {each["kind"] for each in objects}:
        until(lambda: both.api.get("v1", "PersistentVolumeClaim", SPACE, "models")[0]["status"].get("phase") == "Bound",
              "the claim is bound")  # fmt: skip


def decisions(both: Both, name: str, spec: dict[str, Any]) -> dict[str, Placement]:
    """Return the decisions of both schedulers about the pod. The real one decides again about a claim of the pod's own,
    which a controller creates after the pod.
    """
    meta = {"name": name, "namespace": SPACE}
    both.make({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})

    def real() -> Placement | None:
        found = placed(both.decided(SPACE, name))
        return None if "waiting for ephemeral volume controller" in found.message else found

    found = until(real, f"the claim of {name} exists")
    said = both.sandbox.cloud.workloads.scheduler.place(spec, meta)
    both.sandbox.world.insert(pod(name, SPACE, name, spec, said))
    return {"real": found, "sandbox": said}


def unresolvable(why: str) -> Placement:
    return Placement(message=f"0/1 nodes are available: {why}. not found")


@pytest.mark.parametrize(
    ("objects", "choices", "expected"),
    [
        ([], {"cache": SHARED}, unresolvable('persistentvolumeclaim "models" not found')),
        ([claim("ReadWriteMany")], {"cache": SHARED}, unresolvable(UNBOUND)),
        ([claim("ReadWriteMany"), volume("ReadWriteMany", "efs-sc")], {"cache": SHARED}, Placement("gpu-1")),
        ([], {"cache": PER_RUNNER}, unresolvable(UNBOUND)),
        ([GP3, volume("ReadWriteOnce", "gp3")], {"cache": PER_RUNNER}, Placement("gpu-1")),
        ([], {"scratch": {"sizeGib": 79}}, Placement("gpu-1")),
        (
            [],
            {"scratch": {"sizeGib": 80}},
            pending(1, "1 Insufficient ephemeral-storage", f"1 {NO_USE}"),
        ),
    ],
    ids=["no-claim", "unbound", "bound", "no-class", "own-volume", "scratch-fits", "scratch-too-large"],
)
def test_a_runner_with_storage_gets_the_same_node_or_the_same_reason_as_in_the_sandbox(
    both: Both, objects: list[dict[str, Any]], choices: dict[str, Any], expected: Placement
) -> None:
    both.nodes(gpu_node())
    make(both, *objects)
    assert decisions(both, "runner", runner(**choices)) == {"real": expected, "sandbox": expected}


def test_the_second_runner_with_a_claim_for_one_pod_waits(both: Both) -> None:
    both.nodes(gpu_node("one"), gpu_node("two"))
    make(both, claim("ReadWriteOncePod"), volume("ReadWriteOncePod", "efs-sc"))
    spec = runner(max=1, cache={**SHARED, "accessMode": "ReadWriteOncePod"})
    first = Placement("one")
    spec["nodeSelector"] = {**spec["nodeSelector"], "kubernetes.io/hostname": "one"}
    assert decisions(both, "first", spec) == {"real": first, "sandbox": first}
    del spec["nodeSelector"]["kubernetes.io/hostname"]
    second = pending(2, f"1 {NO_GPU}, 1 {ALONE}", "2 No preemption victims found for incoming pod")
    assert decisions(both, "second", spec) == {"real": second, "sandbox": second}
