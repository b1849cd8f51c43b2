"""Mistakes of pools on GKE clusters, each with the one problem that its user reads."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.gpu_ci.program import gke
from tests.gpu_ci.program.stack import refused

pytestmark = pytest.mark.usefixtures("short_definitions")

POOL, CLUSTER = "gpu-ci:pools.l4", "gpu-ci:clusters.gpu"
NO_START = ", so no runner would start"
ON_NO_NODE = "is on no node of the pool, so no runner would ever start: GKE offers nvidia.com/gpu"
WIRED, FORM = "is set by gpu-ci, not in a stack file", "has a form that is not accepted"
SSD = {"machineType": "g2-standard-8", "localSsdCount": 1}


def runner(**changes: Any) -> dict[str, Any]:
    """A pool whose runner has these fields."""
    return {"runner": {"image": gke.IMAGE, **changes}}


# The changes of the pool and of the cluster, then path, text and hint of the one problem.
BAD: list[tuple[dict[str, Any], dict[str, Any], str, str, str]] = [
    # The cluster.
    ({}, {"kind": "GKE"}, f"{CLUSTER}.kind", "unknown kind of cluster", "did you mean gke"),
    ({}, {"kind": None}, f"{CLUSTER}.kind", "is missing", "such as kind: gke"),
    ({}, {"location": None}, f"{CLUSTER}.location", "is missing", "such as location: us-central1"),
    (
        {},
        {"location": "us-moon1"},
        f"{CLUSTER}.location",
        "is not a region or a zone of Google Cloud",
        "such as us-central1",
    ),
    # A zonal cluster has nodes in other zones of its region only.
    (
        {"zones": ["us-east1-b"]},
        {"location": "us-central1-a"},
        f"{POOL}.zones",
        "are in us-east1, but the cluster is in us-central1",
        "use zones of us-central1",
    ),
    (
        {},
        {"location": "US-Central1"},
        f"{CLUSTER}.location",
        "is not a region or a zone of Google Cloud",
        "did you mean us-central1",
    ),
    ({}, {"location": 3}, f"{CLUSTER}.location", "must be text", 'write it in quotes: "3"'),
    ({}, {"project": "Acme"}, f"{CLUSTER}.project", FORM, "such as project: acme-clusters"),
    ({}, {"project": 3}, f"{CLUSTER}.project", "must be text", "such as project: acme-clusters"),
    (
        {},
        {"devicePlugin": {}},
        f"{CLUSTER}.devicePlugin",
        "cannot be set",
        "remove it: GKE installs its own device plugin",
    ),
    (
        {},
        {"subnets": {}},
        f"{CLUSTER}.subnets",
        "cannot be set",
        "remove it: nodes are in the subnetwork of the cluster, or in subnetwork of their pool",
    ),
    ({}, {"subnetwork": "x"}, f"{CLUSTER}.subnetwork", "cannot be set", "remove it: use subnetwork of a pool instead"),
    ({}, {"region": "us-central1"}, f"{CLUSTER}.region", "cannot be set", "remove it: use location instead"),
    ({}, {"zone": "us-central1-a"}, f"{CLUSTER}.zone", "cannot be set", "remove it: use location instead"),
    ({}, {"profile": "ci"}, f"{CLUSTER}.profile", "unknown key", ""),
    (
        {},
        {"namespace": "default"},
        f"{CLUSTER}.namespace",
        "is a namespace of Kubernetes itself",
        "use a namespace for this purpose only, such as gpu-ci",
    ),
    (
        {},
        {"namespace": "arc-systems"},
        f"{CLUSTER}.namespace",
        "is already the namespace of the controller",
        "give one of the two another name",
    ),
    (
        {},
        {"privateRanges": ["169.254.169.254/32"]},
        f"{CLUSTER}.privateRanges[0]",
        "contains addresses that give the machine's credentials",
        "use a range without these addresses",
    ),
    ({}, {"networkPolicies": "no"}, f"{CLUSTER}.networkPolicies", "must be true or false", ""),
    # The pool and its cluster.
    ({"clusterName": "gpus"}, {}, f"{POOL}.clusterName", "is not a cluster of gpu-ci:clusters", "did you mean gpu"),
    (
        {"clusterName": "T4_nodes"},
        {},
        f"{POOL}.clusterName",
        "is not a cluster of gpu-ci:clusters",
        "describe it under gpu-ci:clusters, such as {T4_nodes: {kind: gke, location: us-central1}}",
    ),
    ({"clusterName": None}, {}, f"{POOL}.clusterName", "is missing", "such as clusterName: ci"),
    ({"location": "us-central1"}, {}, f"{POOL}.location", WIRED, "remove it"),
    ({"project": "acme-ci"}, {}, f"{POOL}.project", WIRED, "remove it"),
    ({"pool": "other"}, {}, f"{POOL}.pool", WIRED, "remove it"),
    ({"workloadIdentity": True}, {}, f"{POOL}.workloadIdentity", WIRED, "remove it"),
    (
        {"zones": ["us-east1-b", "us-east1-c"]},
        {},
        f"{POOL}.zones",
        "are in us-east1, but the cluster is in us-central1",
        "use zones of us-central1",
    ),
    (
        {"subnetwork": "default"},
        {},
        f"{POOL}.subnetwork",
        FORM,
        "such as subnetwork: projects/acme-ci/regions/us-central1/subnetworks/gpu",
    ),
    (
        {"subnetwork": "projects/acme-ci/regions/us-east1/subnetworks/gpu"},
        {},
        f"{POOL}.subnetwork",
        "is in us-east1, but the cluster is in us-central1",
        "use a subnetwork of us-central1",
    ),
    (
        {"instanceTypes": ["g6.2xlarge"]},
        {},
        f"{POOL}.instanceTypes",
        "cannot be set",
        "remove it: use machineType instead",
    ),
    ({"amiType": "AL2023_x86_64_NVIDIA"}, {}, f"{POOL}.amiType", "cannot be set", "remove it: use imageType instead"),
    (
        {"image": "projects/a/global/images/b"},
        {},
        f"{POOL}.image",
        "cannot be set",
        "remove it: use imageType for the node image, and runner.image for the container image",
    ),
    (
        {"runnerLabels": ["gpu"]},
        {},
        f"{POOL}.runnerLabels",
        "cannot be set",
        "remove it: jobs name the scale set in runs-on, which runner.scaleSetName sets",
    ),
    # The runner and its node.
    (
        runner(cpus=8),
        {},
        f"{POOL}.runner.cpus",
        f"is more than the 7 CPUs that g2-standard-8 has for pods{NO_START}",
        "cpus: 7, or a larger machine type",
    ),
    (
        runner(memoryGib=28),
        {},
        f"{POOL}.runner.memoryGib",
        f"is more than the 27 GiB that g2-standard-8 has for pods{NO_START}",
        "memoryGib: 27, or a larger machine type",
    ),
    (
        runner(ephemeralStorageGib=50),
        {},
        f"{POOL}.runner.ephemeralStorageGib",
        f"is more than the 49 GiB that a disk of 100 GiB has for pods{NO_START}",
        "ephemeralStorageGib: 49, or a larger diskGib",
    ),
    (
        {**SSD, **runner(ephemeralStorageGib=288)},
        {},
        f"{POOL}.runner.ephemeralStorageGib",
        f"is more than the 287 GiB that a disk of 375 GiB has for pods{NO_START}",
        "ephemeralStorageGib: 287, or more local SSDs",
    ),
    (
        runner(cache={"kind": "shared", "claim": "models", "accessMode": "RWX"}),
        {},
        f"{POOL}.runner.cache.accessMode",
        "must be one of 'ReadWriteMany', 'ReadOnlyMany', 'ReadWriteOnce' or 'ReadWriteOncePod'",
        "such as accessMode: ReadWriteMany",
    ),
    (runner(cpus=0), {}, f"{POOL}.runner.cpus", "must be at least 1", "such as cpus: 1"),
    (
        runner(gpus=2),
        {},
        f"{POOL}.runner.gpus",
        f"is more than the 1 of g2-standard-8{NO_START}",
        "gpus: 1, or another machine type with more GPUs",
    ),
    (runner(gpuResource="nvidia.com/gpu.shared"), {}, f"{POOL}.runner.gpuResource", ON_NO_NODE, "remove it"),
    (runner(gpuResource="nvidia.com/mig-1g.5gb"), {}, f"{POOL}.runner.gpuResource", ON_NO_NODE, "remove it"),
    (
        {"minIdle": 3},
        {},
        f"{POOL}.minIdle",
        "is more than the 2 runners that fit on 2 nodes",
        "lower minIdle, or raise max",
    ),
    (
        {"smoke": {"nodes": 3}},
        {},
        f"{POOL}.smoke.nodes",
        "is more than the pool's maximum of 2 nodes, so the check could never pass",
        "nodes: 2, which is the whole pool, or raise max",
    ),
    ({"smoke": {"deadlineSec": 60}}, {}, f"{POOL}.smoke.deadlineSec", "must be at least 600", ""),
    (
        {"prePull": {"images": [gke.IMAGE]}},
        {},
        f"{POOL}.prePull.images[0]",
        "is the runner's image, which nodes pull anyway",
        "remove it",
    ),
    ({"runner": None}, {}, f"{POOL}.runner", "is missing", ""),
    # What only the nodes of EKS or VMs have.
    ({"efa": True}, {}, f"{POOL}.efa", "unknown key", ""),
    ({"ladder": []}, {}, f"{POOL}.ladder", "unknown key", ""),
    ({"standby": 1}, {}, f"{POOL}.standby", "unknown key", ""),
]


@pytest.mark.parametrize(
    ("pool", "cluster", "path", "text", "hint"), BAD, ids=[f"{json.dumps(row[0])}{json.dumps(row[1])}" for row in BAD]
)
def test_a_mistake_is_one_problem_with_its_hint(
    pool: dict[str, Any], cluster: dict[str, Any], path: str, text: str, hint: str
) -> None:
    found = refused(gke.stack(pool, cluster)).problems
    assert [(each.path, each.text) for each in found] == [(path, text)]
    assert hint in (found[0].hint, "")
    assert found[0].hint
