"""A github provider with a world of its own, called as the engine calls it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pulumi.runtime.proto import provider_pb2 as pb
from pulumi_sandbox.providers.github import types
from pulumi_sandbox.providers.github.provider import Github
from pulumi_sandbox.providers.resource import Context
from pulumi_sandbox.providers.sdk.shapes import Shapes
from pulumi_sandbox.providers.server import Servicer
from pulumi_sandbox.providers.wire import decode, encode
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world.store import World

from tests.sandbox.providers.fake_cloud import Aborted, FakeCall

SHAPES = Shapes("github")
OWNER = "acme"
# Provider inputs of the SDK: a secret's value always comes as one.
SEALED = {("value",)}

# A group and a ruleset that GitHub takes; tests change one thing in them.
GROUP = {"name": "gpu", "visibility": "selected"}
RULESET: dict[str, Any] = {
    "name": "main",
    "repository": "web",
    "target": "branch",
    "enforcement": "active",
    "conditions": {"refName": {"includes": ["~DEFAULT_BRANCH"], "excludes": []}},
    "rules": {"deletion": True, "nonFastForward": True, "pullRequest": {"requiredApprovingReviewCount": 1}},
}


def urn(token: str, name: str) -> str:
    return f"urn:pulumi:dev::tests::{token}::{name}"


@dataclass(frozen=True)
class Made:
    """A resource as the engine's state has it."""

    token: str
    name: str
    id: str
    inputs: Any
    outputs: Any

    @property
    def values(self) -> dict[str, Any]:
        return decode(self.outputs).values


@dataclass
class Hub:
    """The engine's side of one provider."""

    folder: Path
    settings: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    messages: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        project = self.folder / "project"
        project.mkdir(parents=True)
        if self.settings:
            (project / "sandbox.yaml").write_text(self.settings)
        workspace = Workspace(self.folder / "sandbox", project)
        self.world = World(workspace.world)
        self.cloud = Github()
        self.cloud.__dict__["shapes"] = SHAPES  # read once for all tests
        context = Context(workspace, self.world, {"owner": OWNER, **self.config})
        self.cloud.start(context)
        self.cloud.configure(context.config)
        self.servicer = Servicer(self.cloud, context)
        self.servicer.log.say = lambda text, severity="info", urn="": self.messages.append((text, severity))  # type: ignore[method-assign]

    def call(self, name: str, request: Any) -> Any:
        return getattr(self.servicer, name)(request, FakeCall())

    def check(self, token: str, name: str, inputs: dict[str, Any], old: Made | None = None) -> pb.CheckResponse:
        secret = SEALED if "value" in inputs and token in types.SECRETS else set()
        request = pb.CheckRequest(urn=urn(token, name), news=encode(inputs, secret), randomSeed=b"seed")
        if old:
            request.olds.CopyFrom(old.inputs)
        answer: pb.CheckResponse = self.call("Check", request)
        return answer

    def problems(self, token: str, inputs: dict[str, Any], old: Made | None = None) -> list[str]:
        """Return the failures of Check, each with its property in front."""
        found = self.check(token, "one", inputs, old).failures
        return [f"{one.property}: {one.reason}" if one.property else one.reason for one in found]

    def make(self, token: str, name: str, /, **inputs: Any) -> Made:
        checked = self.check(token, name, inputs)
        assert list(checked.failures) == []
        answer = self.call("Create", pb.CreateRequest(urn=urn(token, name), properties=checked.inputs))
        return Made(token, name, answer.id, checked.inputs, answer.properties)

    def diff(self, old: Made, **inputs: Any) -> dict[str, str]:
        """The changed paths and what each does; `first` says that a replacement deletes first."""
        checked = self.check(old.token, old.name, inputs, old)
        assert list(checked.failures) == []
        answer = self.call(
            "Diff",
            pb.DiffRequest(
                id=old.id, urn=urn(old.token, old.name), olds=old.outputs, old_inputs=old.inputs, news=checked.inputs
            ),
        )
        kinds = {path: pb.PropertyDiff.Kind.Name(one.kind) for path, one in answer.detailedDiff.items()}
        return kinds | ({"first": "yes"} if answer.deleteBeforeReplace else {})

    def update(self, old: Made, **inputs: Any) -> Made:
        checked = self.check(old.token, old.name, inputs, old)
        assert list(checked.failures) == []
        answer = self.call(
            "Update",
            pb.UpdateRequest(
                id=old.id, urn=urn(old.token, old.name), olds=old.outputs, old_inputs=old.inputs, news=checked.inputs
            ),
        )
        return Made(old.token, old.name, old.id, checked.inputs, answer.properties)

    def delete(self, old: Made) -> None:
        request = pb.DeleteRequest(
            id=old.id, urn=urn(old.token, old.name), properties=old.outputs, old_inputs=old.inputs
        )
        self.call("Delete", request)

    def read(self, old: Made) -> pb.ReadResponse:
        """As a refresh asks."""
        answer: pb.ReadResponse = self.call(
            "Read",
            pb.ReadRequest(id=old.id, urn=urn(old.token, old.name), properties=old.outputs, inputs=old.inputs),
        )
        return answer

    def imported(self, token: str, given: str) -> pb.ReadResponse:
        answer: pb.ReadResponse = self.call("Read", pb.ReadRequest(id=given, urn=urn(token, "one")))
        return answer

    def invoke(self, token: str, /, **arguments: Any) -> dict[str, Any]:
        answer = self.call("Invoke", pb.InvokeRequest(tok=token, args=encode(arguments)))
        return decode(getattr(answer, "return")).values

    def refused(self, token: str, /, **inputs: Any) -> str:
        """The error of a Create."""
        with pytest.raises(Aborted) as caught:
            self.make(token, "refused", **inputs)
        return caught.value.text

    def repository(self, name: str = "web", /, **inputs: Any) -> Made:
        return self.make(types.REPOSITORY, name, name=name, **{"visibility": "private", **inputs})

    def number(self, made: Made) -> int:
        return int(made.values["repoId"])


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    made = Hub(tmp_path)
    yield made
    made.world.close()
