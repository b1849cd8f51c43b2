"""Kueue and Tekton in the emulated cluster: their kinds, and what becomes ready."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.kubernetes.operators import CONFIG, LISTENER, SERVICE
from pulumi_sandbox.providers.kubernetes.releases import PATCH
from pulumi_sandbox.providers.readiness import NotReady
from pulumi_sandbox.providers.resource import Refused

from tests.sandbox.providers.kubernetes.conftest import Cluster
from tests.sandbox.providers.kubernetes.helm.test_releases import RELEASE, release

PIPELINE = "kubernetes:tekton.dev/v1:Pipeline"
OPERATOR = release("tekton-operator", {"installCRDs": False}, name="tekton", namespace="ci")


def config(condition: str = "condition=Ready") -> dict[str, Any]:
    return {"metadata": {"name": "config", "annotations": {"pulumi.com/waitFor": condition}}, "spec": {}}


def named(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "ci"}, "spec": {}}


def ready(cluster: Cluster, inputs: dict[str, Any]) -> None:
    """Create the TektonConfig, and wait for it as the provider does."""
    cluster.cloud.await_ready(cluster.up(CONFIG, "config", inputs))


@pytest.fixture
def operated(cluster: Cluster) -> Cluster:
    """A cluster with the operator and its definition of the TektonConfig."""
    cluster.settings("values: {kubernetes: {namespaces: [ci]}}")
    names = {"kind": "TektonConfig", "plural": "tektonconfigs"}
    spec = {"group": "operator.tekton.dev", "names": names, "scope": "Cluster"}
    cluster.up(PATCH, "definition", {"metadata": {"name": "tektonconfigs.operator.tekton.dev"}, "spec": spec})
    cluster.up(RELEASE, "tekton", OPERATOR)
    return cluster


def test_kinds_of_tekton_are_unknown_until_the_config_is_ready(operated: Cluster) -> None:
    with pytest.raises(Refused, match=r'^no matches for kind "Pipeline" in version "tekton.dev/v1"\n  hint: '):
        operated.up(PIPELINE, "it", named("it"))
    ready(operated, config())
    assert [row.id for row in operated.world.find(CONFIG)] == ["config"]
    operated.up(PIPELINE, "it", named("it"))


@pytest.mark.parametrize("condition", ["condition=Ready", "condition=Ready=True", 'jsonpath={.metadata["name"]}'])
def test_the_config_becomes_ready(operated: Cluster, condition: str) -> None:
    ready(operated, config(condition))


@pytest.mark.parametrize("condition", ["condition=Ready=False", "condition=Installed"])
def test_other_conditions_are_not_met(operated: Cluster, condition: str) -> None:
    with pytest.raises(NotReady, match="timed out waiting for the condition"):
        ready(operated, config(condition))


def test_a_listener_is_ready_and_has_its_service_until_it_is_deleted(operated: Cluster) -> None:
    ready(operated, config())
    made = operated.up(LISTENER, "it", named("it"))
    assert [(row.id, row.inputs["spec"]["ports"][0]["port"]) for row in operated.world.find(SERVICE)] == [
        ("ci/el-it", 8080)
    ]
    operated.lifecycle.delete(made)
    assert operated.world.find(SERVICE) == []


@pytest.mark.parametrize(
    ("kind", "identity"), [("ClusterQueue", "it"), ("LocalQueue", "ci/it"), ("ResourceFlavor", "it")]
)
def test_an_object_of_kueue_needs_its_release(cluster: Cluster, kind: str, identity: str) -> None:
    cluster.settings("values: {kubernetes: {namespaces: [ci, kueue-system]}}")
    token = f"kubernetes:kueue.x-k8s.io/v1beta2:{kind}"
    inputs = {"metadata": {"name": "it", **({"namespace": "ci"} if kind == "LocalQueue" else {})}, "spec": {}}
    with pytest.raises(Refused) as caught:
        cluster.up(token, "it", inputs)
    assert str(caught.value).startswith(f'no matches for kind "{kind}" in version "kueue.x-k8s.io/v1beta2"\n  hint: ')
    cluster.up(RELEASE, "kueue", release("kueue", {}, name="kueue", namespace="kueue-system"))
    assert cluster.up(token, "it", inputs).id == identity
