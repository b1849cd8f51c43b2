"""Fixtures: one real control plane for all tests of this folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gpu_ci.kubernetes.gpu_namespace import GpuNamespace, GpuNamespaceArgs
from kubernetes.dynamic.exceptions import DynamicApiError
from pulumi_sandbox.providers.kubernetes.provider import Kubernetes
from pulumi_sandbox.providers.lifecycle import Lifecycle
from pulumi_sandbox.providers.values import Unknown, leaves

from tests.control_plane.api import Api, numbered, until
from tests.control_plane.cluster_state import Both
from tests.control_plane.objects import declared
from tests.control_plane.processes import ControlPlane
from tests.sandbox.providers.kubernetes.conftest import SHAPES, Cluster


@pytest.fixture(scope="session")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    plane = ControlPlane(tmp_path_factory.mktemp("control-plane"))
    try:
        found = Api(plane.start())
        until(lambda: found.get("v1", "ServiceAccount", "default", "default"), "the controllers run")
        yield found
    finally:
        plane.stop()


class Twin(Cluster):
    """The emulated provider, which sends its objects to the real API server instead of checking them itself."""

    api: Api

    def problems(self, token: str, inputs: dict[str, Any]) -> list[str]:
        """Return the problems that the API server reports. The sandbox's own check is used if a preview does not know
        all values, or if the API server does not know the kind.
        """
        given = typed(token, inputs)
        emulated = self.sandbox_problems(token, inputs)
        if any(isinstance(one, Unknown) for _, one in leaves(given)) or not self.api.knows(given):
            return emulated
        real = [numbered(one, given) for one in self.api.problems_of(given)]
        # If the API server names no field, use the field of the sandbox if it reports the same problem there.
        unplaced = len(real) == len(emulated) == 1 and real[0].startswith(": ") and emulated[0].endswith(real[0])
        return emulated if unplaced else real

    def sandbox_problems(self, token: str, inputs: dict[str, Any]) -> list[str]:
        return super().problems(token, inputs)

    def refused(self, token: str, old: dict[str, Any], new: dict[str, Any]) -> list[str]:
        given = typed(token, old)
        self.api.apply(given)
        try:
            self.api.apply(typed(token, new), dry_run=True)
        except DynamicApiError as error:
            return [str(json.loads(error.body)["message"])]
        finally:
            meta = given["metadata"]
            self.api.delete(given["apiVersion"], given["kind"], meta["name"], meta.get("namespace"))
        return []


def typed(token: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return an object in the API's form, from its type token and the inputs of a program."""
    version, kind = token.split(":")[1:]
    return {"apiVersion": version.removeprefix("core/"), "kind": kind, **inputs}


@pytest.fixture
def cluster(api: Api, tmp_path: Path) -> Twin:
    """Replaces the sandbox's cluster, so that the sandbox's own tests compare its messages with the real ones."""
    cloud = Kubernetes()
    cloud.shapes = SHAPES
    twin = Twin(cloud, tmp_path)
    twin.messages, twin.api = [], api
    twin.lifecycle = Lifecycle(cloud, cloud.context)
    return twin


@pytest.fixture(scope="session")
def namespace(api: Api) -> str:
    """Return a GpuNamespace, whose pods must satisfy the security level `restricted`."""
    for _, given in declared(lambda: GpuNamespace("gpu-ci", GpuNamespaceArgs(gpus=16))):
        api.apply(given)
    api.ensure_account("gpu-ci")
    return "gpu-ci"


@pytest.fixture
def both(api: Api, cluster: Twin, namespace: str) -> Iterator[Both]:
    found = Both(api, cluster)
    yield found
    found.clear()
