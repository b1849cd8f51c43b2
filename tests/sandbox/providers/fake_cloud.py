"""A cloud with two types and every hook in use, to try the protocol without any vendor's rules."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import grpc
import pytest
from google.protobuf import struct_pb2
from pulumi.runtime.proto import provider_pb2 as pb
from pulumi_sandbox.providers.cloud import Cloud
from pulumi_sandbox.providers.resource import Context, Problem, Refused, Resource
from pulumi_sandbox.providers.sdk.shape_check import ShapeCheck
from pulumi_sandbox.providers.sdk.shapes import Checked, UnknownTypeError
from pulumi_sandbox.providers.sdk.types import ObjectShape, Property, Shape, Type
from pulumi_sandbox.providers.server import Servicer
from pulumi_sandbox.providers.values import NO_SECRETS, UNKNOWN, Secrets
from pulumi_sandbox.providers.wire import decode, encode
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world.store import World

BOX = "gcp:toys/box:Box"
SHELF = "gcp:toys/shelf:Shelf"
TEXT, NUMBER = Type("string"), Type("integer")


def urn(token: str, name: str, stack: str = "dev") -> str:
    return f"urn:pulumi:{stack}::toys::{token}::{name}"


SHAPES = {
    BOX: Shape(
        ObjectShape(
            {
                "name": Property(TEXT),
                "size": Property(NUMBER, required=True),
                "color": Property(TEXT),
                "label": Property(TEXT),
                "tags": Property(Type("map", (TEXT,))),
                "password": Property(TEXT),
            }
        ),
        dict.fromkeys(("name", "color", "label", "password", "link", "token"), TEXT)
        | {"size": NUMBER, "tags": Type("map", (TEXT,))},
        secret_inputs=frozenset({"password"}),
        secret_outputs=frozenset({"password", "token"}),
    ),
    SHELF: Shape(ObjectShape({"box": Property(TEXT, required=True)}), {"box": TEXT}),
}


class FakeShapes:
    """The part of `Shapes` that the protocol uses."""

    def shape(self, token: str) -> Shape:
        if token not in SHAPES:
            raise UnknownTypeError(f"pulumi_gcp 10 has no resource {token}", f"did you mean {BOX}?")
        return SHAPES[token]

    def check(
        self, token: str, inputs: dict[str, Any], *, coerces_scalars: bool = False, secrets: Secrets = NO_SECRETS
    ) -> Checked:
        run = ShapeCheck(lambda _: ObjectShape(), lambda _: (), coerces_scalars, secrets=secrets)
        try:
            shape = self.shape(token)
        except UnknownTypeError as wrong:
            return Checked(dict(inputs), [Problem("", str(wrong), wrong.hint)])
        return Checked(run.properties(shape.inputs, inputs), run.problems)

    def check_config(self, config: dict[str, Any], secrets: Secrets = NO_SECRETS) -> Checked:
        wrong = [Problem("projct", "no such property", "did you mean 'project'?")] if "projct" in config else []
        return Checked(dict(config), wrong)


class Toys(Cloud):
    """A box may not be bigger than 9, a shelf needs its box."""

    package: ClassVar[str] = "gcp"

    def __init__(self) -> None:
        self.shapes = FakeShapes()  # type: ignore[assignment]
        self.happened: list[str] = []

    def autoname(self, res: Resource) -> None:
        if res.token == BOX:
            res.default_name()

    def rules(self, res: Resource) -> Iterable[Problem]:
        size = res.inputs.get("size")
        if size is not UNKNOWN and size is not None and size > 9:
            yield Problem("size", "must be at most 9", "two boxes hold more")

    def replaces(self, token: str, path: str) -> bool | None:
        return None if token == SHELF else path == "color"

    def replaces_by_documentation(self, token: str, path: str) -> bool | None:
        return None  # there is no SDK of toys

    def same(self, token: str, path: str, old: Any, new: Any) -> bool:
        return path == "label" and str(old).lower() == str(new).lower()

    def refusals(self, res: Resource) -> Iterable[str]:
        if res.token == SHELF and not res.world.get(BOX, res.inputs["box"]):
            yield f"Error 404: the box {res.inputs['box']} was not found"
        if res.inputs.get("color") == "boom":
            raise ZeroDivisionError("my-inner-secret")

    def identity(self, res: Resource) -> str:
        return f"boxes/{res.inputs['name']}" if res.token == BOX else "shelf"

    def computed(self, res: Resource) -> dict[str, Any]:
        if res.token != BOX:
            return {}
        return {"link": f"https://toys/{res.inputs['name']}", "token": f"of {res.inputs.get('password', 'nobody')}"}

    def created(self, res: Resource) -> None:
        self.happened.append(f"created {res.name}")

    def deleted(self, res: Resource) -> None:
        self.happened.append(f"deleted {res.name}")

    def delete_blockers(self, res: Resource) -> Iterable[str]:
        if res.outputs.get("label") == "keep":
            yield "deletion protection is on"

    def invoke(self, token: str, arguments: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        if token != "gcp:toys/double:double":
            raise Refused(f"{token}: no answer is known\n  hint: add one to sandbox.yaml")
        return {"result": arguments["value"] * 2, "echo": arguments["note"]}, ()


class Aborted(Exception):  # noqa: N818 - what gRPC does to a call
    """The exception that a servicer's `abort` raises."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code, self.text = code, text


class FakeCall:
    """A fake gRPC context, with the methods that a servicer calls."""

    def abort(self, code: grpc.StatusCode, text: str) -> NoReturn:
        raise Aborted(code, text)


class Died(BaseException):
    """Raised instead of the end of the process."""


@dataclass
class Bench:
    """A servicer over a world of the test's own, called as the engine calls it."""

    folder: Path
    cloud: Toys = field(default_factory=Toys)
    messages: list[tuple[str, str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        workspace = Workspace(self.folder, self.folder)
        self.world = World(workspace.world)
        self.context = Context(workspace, self.world)
        self.cloud.context = self.context
        self.cloud.start(self.context)
        self.servicer = Servicer(self.cloud, self.context)
        self.servicer.lifecycle.die = self._die
        self.servicer.log.say = lambda text, severity="info", urn="": self.messages.append((text, severity, urn))  # type: ignore[method-assign]

    def _die(self) -> None:
        raise Died

    def call(self, name: str, request: Any) -> Any:
        return getattr(self.servicer, name)(request, FakeCall())

    def check(
        self, news: struct_pb2.Struct, olds: struct_pb2.Struct | None = None, token: str = BOX, seed: bytes = b"one"
    ) -> pb.CheckResponse:
        request = pb.CheckRequest(urn=urn(token, "mine"), news=news, randomSeed=seed)
        if olds is not None:
            request.olds.CopyFrom(olds)
        answer = self.call("Check", request)
        assert isinstance(answer, pb.CheckResponse)
        return answer

    def create(self, inputs: struct_pb2.Struct, token: str = BOX, *, preview: bool = False) -> pb.CreateResponse:
        answer = self.call("Create", pb.CreateRequest(urn=urn(token, "mine"), properties=inputs, preview=preview))
        assert isinstance(answer, pb.CreateResponse)
        return answer


def struct(secrets: Secrets | set[tuple[str | int, ...]] = NO_SECRETS, **values: Any) -> struct_pb2.Struct:
    return encode(values, secrets)


def plain(message: Any) -> dict[str, Any]:
    return decode(message).values


def refused(bench: Bench, call: str, request: Any) -> str:
    with pytest.raises(Aborted) as caught:
        bench.call(call, request)
    return caught.value.text


def made(bench: Bench, **inputs: Any) -> tuple[str, Any, Any]:
    """A box that exists: its id, its inputs and its outputs, as the engine keeps them."""
    checked = bench.check(struct({("password",)} if "password" in inputs else set(), **inputs))
    assert list(checked.failures) == []
    answer = bench.create(checked.inputs)
    return answer.id, checked.inputs, answer.properties
