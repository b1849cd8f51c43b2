"""A gcp provider with a world of its own, driven as the protocol drives it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pulumi_sandbox.providers import gcp_mapping as types
from pulumi_sandbox.providers.cloud import Context, Resource
from pulumi_sandbox.providers.gcp import Gcp
from pulumi_sandbox.providers.lifecycle import Lifecycle
from pulumi_sandbox.providers.shapes import Shapes
from pulumi_sandbox.providers.values import Decoded
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world import World

SHAPES = Shapes.for_package("gcp")
PROJECT, REGION = "ci-project", "us-central1"

# A template that every rule accepts; tests change one thing in it.
TEMPLATE: dict[str, Any] = {
    "machineType": "g2-standard-8",
    "disks": [{"sourceImage": "projects/images/global/images/one", "diskType": "pd-balanced", "diskSizeGb": 100}],
    "networkInterfaces": [{"network": "default"}],
    "scheduling": {"onHostMaintenance": "TERMINATE"},
}
GROUP: dict[str, Any] = {
    "baseInstanceName": "runner",
    "targetSize": 0,
    "distributionPolicyTargetShape": "ANY",
    "distributionPolicyZones": ["us-central1-a", "us-central1-b"],
    "updatePolicy": {"type": "OPPORTUNISTIC", "minimalAction": "REPLACE", "instanceRedistributionType": "NONE"},
}


@dataclass
class Google:
    """The provider; `problems` is Check alone, `make` is Check and Create."""

    folder: Path
    config: dict[str, Any] = field(default_factory=lambda: {"project": PROJECT, "region": REGION})
    settings: str = "guest: {}\n"

    def __post_init__(self) -> None:
        project = self.folder / "project"
        project.mkdir(parents=True)
        (project / "sandbox.yaml").write_text(self.settings)
        self.workspace = Workspace(self.folder / "sandbox", project)
        self.world = World(self.workspace.world)
        self.cloud = Gcp()
        self.cloud.__dict__["shapes"] = SHAPES  # read once for all tests
        self.cloud.start(Context(self.workspace, self.world, self.config))
        self.life = Lifecycle(self.cloud, self.cloud.context)

    def resource(self, token: str, name: str, inputs: dict[str, Any], **more: Any) -> Resource:
        urn = f"urn:pulumi:dev::tests::{token}::{name}"
        return self.life.resource(urn, Decoded(dict(inputs)), **{"seed": b"seed", **more})

    def problems(self, token: str, inputs: dict[str, Any]) -> list[str]:
        _, found = self.life.check(self.resource(token, "one", inputs))
        return [f"{one.path}: {one}" for one in found]

    def make(self, token: str, name: str, inputs: dict[str, Any]) -> Resource:
        res = self.resource(token, name, inputs)
        _, problems = self.life.check(res)
        assert problems == []
        self.life.create(res)
        return res

    def template(self, **changes: Any) -> Resource:
        return self.make(types.REGION_TEMPLATE, "template", {**TEMPLATE, **changes})

    def group(self, template: str, **changes: Any) -> Resource:
        return self.make(
            types.REGION_GROUP, "group", {**GROUP, "versions": [{"instanceTemplate": template}], **changes}
        )

    def delete(self, res: Resource) -> None:
        self.life.delete(self.resource(res.token, res.name, res.inputs, id=res.id, outputs=res.outputs))


@pytest.fixture
def google(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Google]:
    # Where machines have their disks: one that is killed leaves it behind.
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    made = Google(tmp_path)
    yield made
    made.cloud.stop()
    made.world.close()


@pytest.fixture
def api(google: Google) -> Any:
    """The same provider with its Compute Engine API served: tests.sandbox.gcp.api.Api."""
    from tests.sandbox.gcp.api import Api

    google.cloud.configure(google.config)
    return Api(google)
