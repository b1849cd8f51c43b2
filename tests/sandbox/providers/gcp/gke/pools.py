"""A cluster of GKE, and a GPU node pool that every rule accepts; tests change one thing in it."""

from __future__ import annotations

from typing import Any

from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.resource import Resource

from tests.sandbox.providers.gcp.conftest import Google

CLUSTER_PATH = "projects/ci-project/locations/us-central1/clusters/ci"
POOL_PATH = f"{CLUSTER_PATH}/nodePools/l4"
CLUSTER: dict[str, Any] = {"name": "ci", "location": "us-central1", "deletionProtection": False}
L4 = {"type": "nvidia-l4", "count": 1, "gpuDriverInstallationConfig": {"gpuDriverVersion": "DEFAULT"}}
TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}
POOL: dict[str, Any] = {
    "name": "l4",
    "cluster": "ci",
    "location": "us-central1",
    "nodeLocations": ["us-central1-a", "us-central1-b"],
    "initialNodeCount": 0,
    "autoscaling": {"totalMinNodeCount": 0, "totalMaxNodeCount": 2, "locationPolicy": "ANY"},
    "nodeConfig": {
        "machineType": "g2-standard-8",
        "guestAccelerators": [L4],
        "imageType": "COS_CONTAINERD",
        "taints": [TAINT],
        "labels": {"gpu-ci-pool": "l4"},
    },
}


def with_config(**changes: Any) -> dict[str, Any]:
    """Return the pool with other fields of nodeConfig; None removes one."""
    config = {**POOL["nodeConfig"], **changes}
    return {**POOL, "nodeConfig": {name: value for name, value in config.items() if value is not None}}


def cluster(google: Google, **changes: Any) -> Resource:
    return google.make(types.CLUSTER, "ci", {**CLUSTER, **changes})


def pool(google: Google, inputs: dict[str, Any] | None = None) -> Resource:
    return google.make(types.NODE_POOL, "l4", inputs or POOL)
