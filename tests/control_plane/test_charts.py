"""Helm renders ARC's charts with the values of our components, and the API server takes every object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
from gpu_ci.component import Component
from gpu_ci.kinds.eks.component import EksRunnerPool
from gpu_ci.kinds.gke.component import GkeRunnerPool
from gpu_ci.kubernetes.arc_controller import ArcController
from pulumi_sandbox.providers.wire import decode

from tests.control_plane import charts
from tests.control_plane.api import Api
from tests.control_plane.objects import RELEASE, as_sent, declared
from tests.gpu_ci.harness import deploy
from tests.gpu_ci.support import COMPUTED, build

VOLUME = {"kind": "kubernetes", "storageClass": "gp3", "workGib": 50}
DIND = {"kind": "dind", "nodeGpus": 1}
CACHE = {"kind": "per-runner", "storageClass": "gp3", "sizeGib": 100}

pytestmark = charts.needs_arc


def release(component: type[Component], **runner: Any) -> dict[str, Any]:
    """Return the inputs of the only Helm release of a component, from its example with these fields of its runner."""
    changes = {"runner": {**component.EXAMPLE["runner"], **runner}} if runner else {}
    with mock.patch.dict(component.EXAMPLE, changes):
        [row] = deploy(lambda: build(component, "l4"), computed=COMPUTED).of(RELEASE)
    return dict(decode(row.request.object).values)


# A pool of each kind: with the fewest choices, and with choices that change the values.
RELEASES: dict[str, Callable[[], dict[str, Any]]] = {
    "controller": lambda: release(ArcController),
    "eks": lambda: release(EksRunnerPool),
    "eks, kubernetes": lambda: release(EksRunnerPool, containerMode=VOLUME),
    "eks, cache": lambda: release(EksRunnerPool, cache=CACHE, scratch={"sizeGib": 30}),
    "gke": lambda: release(GkeRunnerPool),
    "gke, dind": lambda: release(GkeRunnerPool, containerMode=DIND),
}


@pytest.mark.parametrize("name", RELEASES)
def test_the_api_server_takes_every_object_that_helm_renders(api: Api, namespace: str, name: str) -> None:
    for token, one in declared(lambda: build(ArcController, "arc")):
        if token.endswith("CustomResourceDefinitionPatch"):
            api.apply(as_sent(one))
    api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "arc-systems"}})
    objects = charts.rendered({**RELEASES[name](), "namespace": namespace})
    problems = {f"{one['kind']} {one['metadata']['name']}": api.refusal(one) for one in objects}
    assert {name: found for name, found in problems.items() if found} == {}
