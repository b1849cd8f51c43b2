"""Stack files with a pool on GKE, and the clusters that their look-ups find."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from tests.gpu_ci.harness import Deployment, Row
from tests.gpu_ci.program.stack import ON_CLUSTER, config
from tests.gpu_ci.program.test_program import ALL_CALLS, GET_CLUSTER, gke_cluster, run

IMAGE = f"ghcr.io/acme/cuda-runner:2.336.0@sha256:{'a1' * 32}"
GKE: dict[str, Any] = {"kind": "gke", "location": "us-central1"}
L4: dict[str, Any] = {
    "kind": "gke-runners",
    "clusterName": "gpu",
    "machineType": "g2-standard-8",
    "zones": ["us-central1-a", "us-central1-b"],
    "market": "spot",
    "max": 2,
    "runner": {"image": IMAGE},
}


def stack(pool: Mapping[str, Any] | None = None, cluster: Mapping[str, Any] | None = None, **keys: Any) -> Any:
    """A stack of one pool l4 on a GKE cluster, after these changes of pool and cluster; None removes a field."""
    around = copy.deepcopy(ON_CLUSTER) | {"gpu-ci:clusters": {"gpu": _with(GKE, cluster)}}
    return config({"l4": _with(L4, pool)}) | around | {f"gpu-ci:{name}": value for name, value in keys.items()}


def _with(values: Mapping[str, Any], changes: Mapping[str, Any] | None) -> dict[str, Any]:
    found = {**copy.deepcopy(dict(values)), **(changes or {})}
    return {name: value for name, value in found.items() if value is not None}


def row(found: Deployment, name: str) -> Row:
    """The resource of this name."""
    [one] = [row for row in found.rows if row.name == name]
    return one


def deployed(values: Mapping[str, Any], preview: bool = False, **found: Any) -> Deployment:
    """Run the program of a stack file, whose cluster is found with these values."""
    calls = {**ALL_CALLS, GET_CLUSTER: lambda asked: gke_cluster(asked, **found)}
    return run(values, calls=calls, preview=preview)
