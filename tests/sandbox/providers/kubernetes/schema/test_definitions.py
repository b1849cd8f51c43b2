"""Custom resource definitions of ARC: created by a chart, and taken over by a stack."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.kubernetes.helm.charts import CONTROLLER
from pulumi_sandbox.providers.kubernetes.schema.definitions import DEFINITION, PATCH
from pulumi_sandbox.providers.resource import Refused

from tests.sandbox.providers.kubernetes.conftest import Cluster, changed
from tests.sandbox.providers.kubernetes.helm.test_charts import RELEASE, release

KINDS = ("autoscalinglisteners", "autoscalingrunnersets", "ephemeralrunners", "ephemeralrunnersets")
NAMES = [f"{kind}.actions.github.com" for kind in KINDS]
OLD = "{} is still version 0.13.1: Helm does not update it, and fields of 0.14.2 are lost"


@pytest.fixture
def ready(cluster: Cluster) -> Cluster:
    cluster.settings("values: {kubernetes: {namespaces: [arc-systems]}}\n")
    return cluster


def controller(number: str, **fields: Any) -> dict[str, Any]:
    return {**release(CONTROLLER, {}, name="arc", namespace="arc-systems"), "version": number, **fields}


def patch(cluster: Cluster, name: str) -> None:
    cluster.up(PATCH, name.partition(".")[0], {"metadata": {"name": name}, "spec": {"group": "actions.github.com"}})


def names(cluster: Cluster, token: str) -> list[str]:
    return [row.id for row in cluster.world.find(token)]


def warnings(cluster: Cluster) -> list[str]:
    return [text for severity, text in cluster.messages if severity == "warning"]


def test_helm_brings_definitions_with_the_first_version_of_a_release_and_leaves_them_as_they_are(
    ready: Cluster,
) -> None:
    arc = ready.up(RELEASE, "arc", controller("0.13.1"))
    assert (names(ready, DEFINITION), warnings(ready)) == (NAMES, [])
    ready.change(arc, changed(arc.inputs, "version", "0.14.2"))
    assert warnings(ready) == [OLD.format(name) for name in NAMES]
    ready.lifecycle.delete(arc)
    assert names(ready, DEFINITION) == NAMES


def test_a_patch_takes_over_the_definition_that_helm_brought(ready: Cluster) -> None:
    arc = ready.up(RELEASE, "arc", controller("0.13.1"))
    patch(ready, NAMES[1])
    assert (names(ready, DEFINITION), names(ready, PATCH)) == ([NAMES[0], *NAMES[2:]], [NAMES[1]])
    ready.change(arc, changed(arc.inputs, "version", "0.14.2"))
    assert warnings(ready) == [OLD.format(name) for name in (NAMES[0], *NAMES[2:])]


def test_a_controller_without_definitions_is_refused_with_what_is_missing(ready: Cluster) -> None:
    for name in NAMES[:3]:
        patch(ready, name)
    with pytest.raises(Refused) as caught:
        ready.up(RELEASE, "arc", controller("0.14.2", skipCrds=True))
    assert str(caught.value) == (
        "the controller's custom resource definitions are missing: ephemeralrunnersets.actions.github.com\n"
        "  hint: a cluster accepts the release, but its pod exits again and again; Helm creates definitions only at "
        "the installation of a release without skipCrds, so create them before the release"
    )
    patch(ready, NAMES[3])
    ready.up(RELEASE, "arc", controller("0.14.2", skipCrds=True))
    assert names(ready, DEFINITION) == []


def test_a_patch_that_a_stack_left_behind_is_made_again(ready: Cluster) -> None:
    for _ in range(2):
        patch(ready, NAMES[0])
    assert names(ready, PATCH) == [NAMES[0]]
