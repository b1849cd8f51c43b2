"""Drives one offline provider's hooks the way the protocol does, without an engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from pulumi_sandbox.providers.cloud import Cloud
from pulumi_sandbox.providers.lifecycle import Lifecycle
from pulumi_sandbox.providers.resource import Context, Resource
from pulumi_sandbox.providers.sdk.shapes import Shapes
from pulumi_sandbox.providers.values import Decoded
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world.store import Record, World


@dataclass
class Bench:
    """A cloud with a world and a configuration of its own."""

    cloud: Cloud
    folder: Path
    config: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.world = World(self.folder / "world.db")
        workspace = Workspace(self.folder, self.folder)
        self.cloud.start(Context(workspace, self.world, self.config))

    def resource(self, token: str, name: str, inputs: dict[str, Any], **more: Any) -> Resource:
        return Resource(
            token, name, f"urn:pulumi:dev::test::{token}::{name}", self.world, inputs, config=self.config, **more
        )

    def checked(self, token: str, name: str, inputs: dict[str, Any], **more: Any) -> Resource:
        res = self.resource(token, name, inputs, **more)
        self.cloud.autoname(res)
        return res

    def made(self, token: str, name: str, inputs: dict[str, Any]) -> Resource:
        """A resource after Check and Create, with its row in the world."""
        res = self.checked(token, name, inputs)
        assert list(self.cloud.refusals(res)) == []
        res.id = self.cloud.identity(res)
        res.outputs = {**res.inputs, **self.cloud.computed(res)}
        self.world.insert(Record(token, res.id, name, res.urn, res.inputs, res.outputs))
        return res


@dataclass
class Account:
    """A provider over a project of its own: `problems` is Check alone, `make` is Check and Create."""

    CLOUD: ClassVar[type[Cloud]]
    SHAPES: ClassVar[Shapes]

    folder: Path
    config: dict[str, Any]
    settings: str

    def __post_init__(self) -> None:
        project = self.folder / "project"
        project.mkdir(parents=True)
        (project / "sandbox.yaml").write_text(self.settings)
        self.workspace = Workspace(self.folder / "sandbox", project)
        self.world = World(self.workspace.world)
        self.cloud = self.CLOUD()
        self.cloud.__dict__["shapes"] = self.SHAPES  # read once for all tests
        self.cloud.start(Context(self.workspace, self.world, self.config))
        self.lifecycle = Lifecycle(self.cloud, self.cloud.context)

    def resource(self, token: str, name: str, inputs: dict[str, Any], **more: Any) -> Resource:
        urn = f"urn:pulumi:dev::tests::{token}::{name}"
        return self.lifecycle.resource(urn, Decoded(dict(inputs)), **{"seed": b"seed", **more})

    def problems(self, token: str, inputs: dict[str, Any]) -> list[str]:
        _, found = self.lifecycle.check(self.resource(token, "one", inputs))
        return [f"{one.path}: {one}" for one in found]

    def make(self, token: str, name: str, inputs: dict[str, Any]) -> Resource:
        res = self.resource(token, name, inputs)
        _, problems = self.lifecycle.check(res)
        assert problems == []
        self.lifecycle.create(res)
        return res

    def delete(self, res: Resource) -> None:
        self.lifecycle.delete(self.resource(res.token, res.name, res.inputs, id=res.id, outputs=res.outputs))
