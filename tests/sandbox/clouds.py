"""Drives one offline provider's hooks the way the protocol does, without an engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pulumi_sandbox.providers.cloud import Cloud, Context, Resource
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world import Record, World


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
