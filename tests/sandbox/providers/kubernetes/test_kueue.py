"""Kueue in the emulated cluster: its objects."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pulumi_sandbox.providers.kubernetes.kueue import CLUSTER_QUEUE, FLAVOR, LOCAL_QUEUE
from pulumi_sandbox.providers.resource import Refused, Resource

from tests.sandbox.providers.kubernetes.conftest import Cluster, changed
from tests.sandbox.providers.kubernetes.helm.test_charts import RELEASE, release

SETTINGS = """
values:
  kubernetes:
    namespaces: [kueue-system]
"""
GPU, NAMESPACE = "nvidia.com/gpu", "kubernetes:core/v1:Namespace"
SELECTOR = {"matchLabels": {"queued": "true"}}
CONFIGURATION = {
    "apiVersion": "config.kueue.x-k8s.io/v1beta2",
    "kind": "Configuration",
    "integrations": {"frameworks": ["pod"]},
    "managedJobsNamespaceSelector": SELECTOR,
    "resources": {"excludeResourcePrefixes": ["cpu", "memory"]},
}


def kueue(**changes: Any) -> dict[str, Any]:
    """Return a release of Kueue with these changes of its configuration."""
    text = json.dumps({**CONFIGURATION, **changes})
    values = {"managerConfig": {"controllerManagerConfigYaml": text}}
    return release("kueue", values, name="kueue", namespace="kueue-system")


def cluster_queue(name: str, quota: int) -> dict[str, Any]:
    resource = {"name": GPU, "nominalQuota": str(quota)}
    spec: dict[str, Any] = {
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": [GPU], "flavors": [{"name": "gpus", "resources": [resource]}]}],
    }
    return {"metadata": {"name": name}, "spec": spec}


def local_queue(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "ci"}, "spec": {"clusterQueue": name}}


@pytest.fixture
def queued(cluster: Cluster) -> Cluster:
    """A cluster with Kueue, and with a namespace whose pods Kueue sees."""
    cluster.settings(SETTINGS)
    cluster.up(NAMESPACE, "ci", {"metadata": {"name": "ci", "labels": {"queued": "true"}}})
    cluster.up(RELEASE, "kueue", kueue())
    return cluster


def queues(cluster: Cluster, *quotas: dict[str, Any]) -> list[Resource]:
    """Create these ClusterQueues, each with a LocalQueue of its name."""
    made = [cluster.up(CLUSTER_QUEUE, each["metadata"]["name"], each) for each in quotas]
    for each in quotas:
        cluster.up(LOCAL_QUEUE, f"local-{each['metadata']['name']}", local_queue(each["metadata"]["name"]))
    return made


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


# The change of a ClusterQueue, and its problem.
WRONG_QUEUES: list[tuple[str, Any, str]] = [
    ("spec/cohort", "gpu", "spec.cohort: field not declared in schema"),
    ("spec/resourceGroups/0/flavors/0/name", ..., "spec.resourceGroups[0].flavors[0].name: Required value"),
]


@pytest.mark.parametrize(("path", "value", "problem"), WRONG_QUEUES)
def test_a_wrong_cluster_queue_is_refused(cluster: Cluster, path: str, value: Any, problem: str) -> None:
    assert cluster.problems(CLUSTER_QUEUE, changed(cluster_queue("vision", 2), path, value)) == [problem]
