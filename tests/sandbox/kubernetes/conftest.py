"""A kubernetes provider with a world of its own, and objects that every rule accepts."""

from __future__ import annotations

import copy
import itertools
from pathlib import Path
from typing import Any

import pytest
from pulumi_sandbox.providers.cloud import Resource
from pulumi_sandbox.providers.kubernetes import Kubernetes
from pulumi_sandbox.providers.lifecycle import Lifecycle
from pulumi_sandbox.providers.shapes import Shapes
from pulumi_sandbox.providers.values import NO_SECRETS, Decoded, Secrets

from tests.sandbox.clouds import Bench

SHAPES = Shapes.for_package("kubernetes")
JOB = "kubernetes:batch/v1:Job"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
GPU = "nvidia.com/gpu"

POD: dict[str, Any] = {
    "restartPolicy": "Never",
    "containers": [{"name": "smoke", "image": "python:3.12", "resources": {"limits": {GPU: 1}}}],
}


def job(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "smoke", "namespace": "default"},
        "spec": {"template": {"spec": copy.deepcopy(POD)}, **spec},
    }


def deployment(**spec: Any) -> dict[str, Any]:
    pod = {"containers": [{"name": "web", "image": "web:1"}]}
    return {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod},
            **spec,
        },
    }


def changed(given: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy with another value at a path of names and numbers; `...` takes what is there away."""
    given = copy.deepcopy(given)
    steps: list[Any] = [int(one) if one.isdigit() else one for one in path.split("/")]
    at: Any = given
    for here, after in itertools.pairwise(steps):
        if isinstance(at, dict):
            at = at.setdefault(here, [] if isinstance(after, int) else {})
        else:
            if here == len(at):
                at.append({})
            at = at[here]
    if value is ...:
        del at[steps[-1]]
    elif isinstance(at, list) and steps[-1] == len(at):
        at.append(value)
    else:
        at[steps[-1]] = value
    return given


class Cluster(Bench):
    """Drives the provider's hooks, and tells what it said."""

    said: list[tuple[str, str]]
    life: Lifecycle

    def settings(self, text: str) -> None:
        """Another sandbox.yaml, as a provider that starts would find it."""
        (self.folder / "sandbox.yaml").write_text(text)
        self.cloud.__dict__.pop("lookups", None)

    def up(self, token: str, name: str, inputs: dict[str, Any], secrets: Secrets = NO_SECRETS) -> Resource:
        """Check and Create through the protocol's own steps; raises Refused."""
        res = self.resource(token, name, inputs, log=lambda text, severity="info": self.said.append((severity, text)))
        res.secrets = secrets
        self.cloud.autoname(res)
        assert [f"{one.path}: {one}" for one in self.cloud.rules(res)] == []
        self.life.create(res)
        return res

    def change(self, made: Resource, inputs: dict[str, Any]) -> Resource:
        """Check and Update of what `up` made."""
        res = self.resource(
            made.token,
            made.name,
            inputs,
            id=made.id,
            old_inputs=made.inputs,
            outputs=made.outputs,
            log=lambda text, severity="info": self.said.append((severity, text)),
        )
        self.cloud.autoname(res)
        self.life.update(res, Decoded(made.outputs))
        return res

    def told(self, token: str, inputs: dict[str, Any]) -> list[str]:
        """What Check says, as `path: text`."""
        kind = token.rsplit(":", 1)[-1]
        version = token.split(":")[1].removeprefix("core/")
        given = {"apiVersion": version, "kind": kind, **inputs}
        return [f"{one.path}: {one.text}" for one in self.cloud.rules(self.resource(token, "it", given))]


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    cloud = Kubernetes()
    cloud.shapes = SHAPES
    bench = Cluster(cloud, tmp_path)
    bench.said = []
    bench.life = Lifecycle(cloud, cloud.context)
    return bench
