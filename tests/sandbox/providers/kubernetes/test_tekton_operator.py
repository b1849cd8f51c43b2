"""Tekton in the emulated cluster: what its operator and the controller of its listeners do for a deployment."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.kubernetes.releases import PATCH
from pulumi_sandbox.providers.kubernetes.tekton_operator import CONFIG, LISTENER, SERVICE
from pulumi_sandbox.providers.readiness import NotReady
from pulumi_sandbox.providers.resource import Refused

from tests.sandbox.providers.kubernetes.conftest import Cluster
from tests.sandbox.providers.kubernetes.helm.test_charts import RELEASE, release

PIPELINE = "kubernetes:tekton.dev/v1:Pipeline"
OPERATOR = release("tekton-operator", {"installCRDs": False}, name="tekton", namespace="ci")
PRUNERS = {"pruner": {"disabled": True}, "tektonpruner": {"disabled": False}}


def config(condition: str = "condition=Ready", **spec: Any) -> dict[str, Any]:
    metadata = {"name": "config", "annotations": {"pulumi.com/waitFor": condition}}
    return {"metadata": metadata, "spec": {**PRUNERS, **spec}}


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


@pytest.mark.parametrize(
    ("condition", "spec"),
    [("condition=Ready", {"pruner": {"disabled": False}}), ("condition=Ready=False", {}), ("condition=Installed", {})],
    ids=["both-pruners", "other-status", "other-condition"],
)
def test_both_pruners_and_other_conditions_are_not_ready(operated: Cluster, condition: str, spec: Any) -> None:
    with pytest.raises(NotReady, match="timed out waiting for the condition"):
        ready(operated, config(condition, **spec))


def test_a_listener_is_ready_and_has_its_service_until_it_is_deleted(operated: Cluster) -> None:
    ready(operated, config())
    made = operated.up(LISTENER, "it", named("it"))
    assert [(row.id, row.inputs["spec"]["ports"][0]["port"]) for row in operated.world.find(SERVICE)] == [
        ("ci/el-it", 8080)
    ]
    operated.lifecycle.delete(made)
    assert operated.world.find(SERVICE) == []


def test_the_config_cannot_go_after_its_operator(operated: Cluster) -> None:
    ready(operated, config())
    operated.lifecycle.delete(operated.resource(RELEASE, "tekton", OPERATOR, id="ci/tekton"))
    with pytest.raises(Refused, match=r"^the TektonConfig has a finalizer"):
        operated.lifecycle.delete(operated.resource(CONFIG, "config", config(), id="config"))
