"""Kueue in the emulated cluster: its objects, and the runners that wait for quota."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pulumi_sandbox.providers.kubernetes.helm.charts import CONTROLLER
from pulumi_sandbox.providers.kubernetes.kueue import CLUSTER_QUEUE, FLAVOR, LOCAL_QUEUE
from pulumi_sandbox.providers.kubernetes.scheduling.scheduler import POD
from pulumi_sandbox.providers.kubernetes.workloads.runners import RUNNER
from pulumi_sandbox.providers.resource import Refused, Resource

from tests.sandbox.providers.kubernetes.conftest import Cluster, changed
from tests.sandbox.providers.kubernetes.helm.test_charts import RELEASE, release, scale_set

SETTINGS = """
values:
  kubernetes:
    namespaces: [arc-systems, kueue-system]
    secrets: [ci/github-app]
    nodes: [{name: one, allocatable: {cpu: 64, memory: 256Gi, pods: 20, nvidia.com/gpu: 8}}]
"""
FLAVOR_NAME = "spec/resourceGroups/0/flavors/0/name"
GPU, NAMESPACE = "nvidia.com/gpu", "kubernetes:core/v1:Namespace"
SELECTOR = {"matchLabels": {"queued": "true"}}
CONFIGURATION = {
    "apiVersion": "config.kueue.x-k8s.io/v1beta2",
    "kind": "Configuration",
    "integrations": {"frameworks": ["pod"]},
    "managedJobsNamespaceSelector": SELECTOR,
    "resources": {"excludeResourcePrefixes": ["cpu", "memory"]},
}
SHORT = "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor gpus"


def kueue(**changes: Any) -> dict[str, Any]:
    """Return a release of Kueue with these changes of its configuration."""
    text = json.dumps({**CONFIGURATION, **changes})
    values = {"managerConfig": {"controllerManagerConfigYaml": text}}
    return release("kueue", values, name="kueue", namespace="kueue-system")


def cluster_queue(name: str, quota: int, cohort: str = "", **limits: int) -> dict[str, Any]:
    resource = {"name": GPU, "nominalQuota": str(quota), **{key: str(value) for key, value in limits.items()}}
    spec: dict[str, Any] = {
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": [GPU], "flavors": [{"name": "gpus", "resources": [resource]}]}],
    }
    return {"metadata": {"name": name}, "spec": spec | ({"cohortName": cohort} if cohort else {})}


def local_queue(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "ci"}, "spec": {"clusterQueue": name}}


def runners_of(queue: str, count: int, gpus: int = 1) -> dict[str, Any]:
    container = {"name": "runner", "image": "x", "resources": {"limits": {GPU: gpus}, "requests": {"cpu": 1}}}
    labels = {"labels": {"kueue.x-k8s.io/queue-name": queue}} if queue else {}
    template = {"metadata": labels, "spec": {"containers": [container]}}
    return {**scale_set(minRunners=count, template=template), "name": f"for-{queue or 'all'}"}


@pytest.fixture
def queued(cluster: Cluster) -> Cluster:
    """A cluster with ARC, with Kueue, and with a namespace whose pods Kueue sees."""
    cluster.settings(SETTINGS)
    cluster.up(NAMESPACE, "ci", {"metadata": {"name": "ci", "labels": {"queued": "true"}}})
    cluster.up(RELEASE, "arc", release(CONTROLLER, {}, name="arc", namespace="arc-systems"))
    cluster.up(RELEASE, "kueue", kueue())
    return cluster


def queues(cluster: Cluster, *quotas: dict[str, Any]) -> list[Resource]:
    """Create these ClusterQueues, each with a LocalQueue of its name."""
    made = [cluster.up(CLUSTER_QUEUE, each["metadata"]["name"], each) for each in quotas]
    for each in quotas:
        cluster.up(LOCAL_QUEUE, f"local-{each['metadata']['name']}", local_queue(each["metadata"]["name"]))
    return made


def phases(cluster: Cluster, queue: str) -> list[str]:
    """Return the reason or the phase of each runner of a scale set, in the order of their creation."""
    rows = [row for row in cluster.world.find(POD) if row.name.startswith(f"for-{queue}-")]
    conditions = [row.outputs["status"]["conditions"][0] for row in rows]
    assert [row.outputs["status"]["phase"] for row in cluster.world.find(RUNNER) if row.id in [r.id for r in rows]] == [
        row.outputs["status"]["phase"] for row in rows
    ]
    return [each.get("reason", "Running") for each in conditions]


def test_runners_beyond_the_quota_wait_behind_a_gate(queued: Cluster) -> None:
    queues(queued, cluster_queue("vision", 2))
    queued.up(RELEASE, "set", runners_of("vision", 3))
    assert sorted(phases(queued, "vision")) == ["Running", "Running", "SchedulingGated"]
    [gated] = [row for row in queued.world.find(POD) if "schedulingGates" in row.inputs["spec"]]
    assert gated.inputs["spec"]["schedulingGates"] == [{"name": "kueue.x-k8s.io/admission"}]
    assert queued.messages[-1] == ("info", f"the runner {gated.name} waits for quota: {SHORT}, 1 more needed")


def test_a_queue_borrows_what_its_cohort_does_not_use_and_the_lender_waits(queued: Cluster) -> None:
    queues(queued, cluster_queue("vision", 2, "gpu"), cluster_queue("speech", 2, "gpu"))
    borrowing = queued.up(RELEASE, "set", runners_of("vision", 3))
    assert phases(queued, "vision") == ["Running"] * 3
    queued.up(RELEASE, "other", runners_of("speech", 2))
    assert sorted(phases(queued, "speech")) == ["Running", "SchedulingGated"]
    # The borrowed GPU returns once its runner has ended.
    queued.lifecycle.delete(borrowing)
    assert phases(queued, "speech") == ["Running", "Running"]


@pytest.mark.parametrize(
    ("own", "other", "running"),
    [
        (cluster_queue("vision", 1, "gpu"), cluster_queue("speech", 3, "gpu"), 4),
        (cluster_queue("vision", 1, "gpu", borrowingLimit=1), cluster_queue("speech", 3, "gpu"), 2),
        (cluster_queue("vision", 1, "gpu"), cluster_queue("speech", 3, "gpu", lendingLimit=2), 3),
        (cluster_queue("vision", 1, "gpu"), cluster_queue("speech", 3, "h100"), 1),
        (cluster_queue("vision", 1, "gpu"), changed(cluster_queue("speech", 3, "gpu"), FLAVOR_NAME, "other"), 1),
        (cluster_queue("vision", 0, "gpu"), cluster_queue("speech", 3, "gpu"), 3),
    ],
    ids=[
        "all",
        "borrowing-limit",
        "lending-limit",
        "other-cohort",
        "other-flavor",
        "only-borrows",
    ],
)
def test_a_queue_uses_what_its_limits_allow(queued: Cluster, own: Any, other: Any, running: int) -> None:
    queues(queued, own, other)
    queued.up(RELEASE, "set", runners_of("vision", 5))
    assert phases(queued, "vision").count("Running") == running


@pytest.mark.parametrize("kind", ["ClusterQueue", "LocalQueue", "ResourceFlavor"])
def test_an_object_of_kueue_needs_its_release(cluster: Cluster, kind: str) -> None:
    cluster.settings("values: {kubernetes: {namespaces: [ci]}}")
    metadata = {"name": "it", **({"namespace": "ci"} if kind == "LocalQueue" else {})}
    with pytest.raises(Refused) as caught:
        cluster.up(f"kubernetes:kueue.x-k8s.io/v1beta2:{kind}", "it", {"metadata": metadata, "spec": {}})
    assert str(caught.value).startswith(f'no matches for kind "{kind}" in version "kueue.x-k8s.io/v1beta2"\n  hint: ')


def test_the_release_takes_every_object_of_kueue_with_it(queued: Cluster) -> None:
    queues(queued, cluster_queue("vision", 2))
    queued.up(FLAVOR, "flavor", {"metadata": {"name": "gpus"}, "spec": {"nodeLabels": {"a": "b"}}})
    made = {token: len(queued.world.find(token)) for token in (CLUSTER_QUEUE, LOCAL_QUEUE, FLAVOR)}
    queued.lifecycle.delete(queued.resource(RELEASE, "kueue", kueue(), id="kueue-system/kueue"))
    left = {token: len(queued.world.find(token)) for token in made}
    assert (list(made.values()), list(left.values())) == ([1, 1, 1], [0, 0, 0])


STEPS = "spec/resourceGroups/0/flavors/0/resources/0"
# The change of a ClusterQueue, and its problem.
WRONG_QUEUES: list[tuple[str, Any, str]] = [
    ("spec/cohort", "gpu", "spec.cohort: field not declared in schema"),
    ("spec/resourceGroups/0/flavors/0/name", ..., "spec.resourceGroups[0].flavors[0].name: Required value"),
    (
        f"{STEPS}/borrowingLimit",
        "1",
        "spec: Invalid value: borrowingLimit must be nil when cohort is empty",
    ),
]


@pytest.mark.parametrize(("path", "value", "problem"), WRONG_QUEUES)
def test_a_wrong_cluster_queue_is_refused(cluster: Cluster, path: str, value: Any, problem: str) -> None:
    assert cluster.problems(CLUSTER_QUEUE, changed(cluster_queue("vision", 2), path, value)) == [problem]
