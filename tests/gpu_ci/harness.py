"""Runs a program against an in-process recorder that keeps every registration whole.

What it proves: what a program asks of the engine. What it does not: that a provider or a cloud would accept it.
"""

# ruff: noqa: N802 - the names are the protocol's

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from unittest import mock

import grpc
from google.protobuf import empty_pb2, json_format, struct_pb2
from gpu_common import pulumi_wire
from pulumi.runtime import config as config_module
from pulumi.runtime import mocks, resource, settings
from pulumi.runtime import stack as stack_module
from pulumi.runtime.proto import resource_pb2, source_pb2

UNKNOWN = pulumi_wire.UNKNOWN_STRING
STACK = "pulumi:pulumi:Stack"

# What lookups answer: token -> answer(arguments).
Calls: TypeAlias = Mapping[str, Callable[[dict[str, Any]], Mapping[str, Any]]]
# What clouds compute, by type: outputs, or a function of the registration.
Computed: TypeAlias = Mapping[str, Mapping[str, Any] | Callable[[Any], Mapping[str, Any]]]


@dataclass(frozen=True)
class Row:
    """One registered resource, with all that was said about it."""

    urn: str
    type: str
    name: str
    parent: str
    inputs: dict[str, Any]
    request: Any

    @property
    def parent_name(self) -> str:
        return self.parent.rpartition("::")[2]


class RefusedLookup(grpc.RpcError):
    """The error of the engine for a provider that rejects a lookup. An answer of `Calls` may raise it."""

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNKNOWN

    def details(self) -> str:
        return str(self.args[0])


class Input(str):
    """The name of an input, whose value an output has."""

    __slots__ = ()


class Recorder(mocks.MockMonitor):
    """The SDK's own mock monitor with real URNs, no duplicates, and the requests kept."""

    def __init__(self, computed: Computed, calls: Calls, preview: bool, existing: Callable[[str], bool]) -> None:
        super().__init__(_Unused())
        self.rows: list[Row] = []
        self.outputs: dict[str, dict[str, Any]] = {}
        self._computed = computed
        self._calls = calls
        self._preview = preview
        self._existing = existing

    def make_urn(self, parent: str, type_: str, name: str) -> str:
        qualifier = "" if not parent or STACK in parent else parent.split("::")[2] + "$"
        return f"urn:pulumi:{settings.get_stack()}::{settings.get_project()}::{qualifier}{type_}::{name}"

    def RegisterResource(self, request: Any) -> Any:
        urn = self.make_urn(request.parent, request.type, request.name)
        if request.type == STACK:
            return resource_pb2.RegisterResourceResponse(urn=urn)
        assert urn not in {row.urn for row in self.rows}, f"duplicate URN {urn}"
        inputs = json_format.MessageToDict(request.object)
        self.rows.append(Row(urn, request.type, request.name, request.parent, inputs, request))
        state = struct_pb2.Struct()
        state.CopyFrom(request.object)
        if not self._preview:
            found = self._computed.get(request.type, {})
            computed = found(request) if callable(found) else found
            state.update({name: inputs[of] if isinstance(of, Input) else of for name, of in computed.items()})
        is_new = self._preview and not self._existing(request.type)
        identity = "" if is_new or not request.custom else f"{request.name}-id"
        return resource_pb2.RegisterResourceResponse(urn=urn, id=identity, object=state)

    def Invoke(self, request: Any) -> Any:
        # The SDK's own makes an event loop in the calling thread and leaves it open.
        assert request.tok in self._calls, f"the program calls {request.tok}, which this test does not answer"
        answer = struct_pb2.Struct()
        answer.update(self._calls[request.tok](json_format.MessageToDict(request.args)))
        return resource_pb2.ResourceInvokeResponse(**{"return": answer})

    def RegisterResourceOutputs(self, request: Any) -> Any:
        self.outputs[request.urn] = json_format.MessageToDict(request.outputs)
        return empty_pb2.Empty()


class _Unused(mocks.Mocks):
    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        raise AssertionError("the recorder answers registrations itself")

    def call(self, args: mocks.MockCallArgs) -> tuple[dict[str, Any], list[tuple[str, str]]]:
        raise AssertionError("the recorder answers calls itself")


@dataclass
class Deployment:
    """The resources that a program registered."""

    rows: list[Row]
    outputs: dict[str, dict[str, Any]] = field(default_factory=dict)

    def of(self, type_: str) -> list[Row]:
        """The resources whose type ends so."""
        return [row for row in self.rows if row.type.endswith(type_)]

    def one(self, type_: str) -> Row:
        (row,) = self.of(type_)
        return row


def deploy(
    program: Callable[[], Any],
    *,
    computed: Computed | None = None,
    calls: Calls | None = None,
    preview: bool = False,
    existing: Callable[[str], bool] = lambda _: False,
    config: Mapping[str, str] | None = None,
    secrets: Iterable[str] = (),
) -> Deployment:
    """Run a program as the CLI would, and return what it registered. Errors of the program come out as they are.

    `existing` says of a type whether its resources exist before a preview, so that their IDs are known.
    """

    def go() -> Deployment:
        # The loop comes first: Outputs made while settings are configured need it.
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        # A failed program leaves futures unread; the CLI's own runner silences asyncio about them too.
        loop.set_exception_handler(lambda _loop, _context: None)
        try:
            recorder = Recorder(computed or {}, calls or {}, preview, existing)
            settings.ROOT.set(None)
            settings.configure(_settings(recorder, preview))
            config_module.set_all_config(dict(config or {}), list(secrets))
            # Without the stack trace of each resource, which takes a sixth of the time. The recorder does not read it.
            # After each Output that is known, the SDK waits again for all others. It waits for all at once here.
            with (
                mock.patch.object(resource, "_get_stack_trace", source_pb2.StackTrace),
                mock.patch.object(asyncio, "FIRST_COMPLETED", asyncio.FIRST_EXCEPTION),
            ):
                loop.run_until_complete(stack_module.run_in_stack(lambda: program() and None))
            return Deployment(recorder.rows, recorder.outputs)
        finally:
            _cancel_rest(loop)
            loop.close()
            asyncio.set_event_loop(None)

    return contextvars.copy_context().run(go)


def _settings(recorder: Recorder, preview: bool) -> settings.Settings:
    features = set(recorder.GetDeploymentInfo(empty_pb2.Empty()).supportedFeatures)  # type: ignore[no-untyped-call]
    return mocks.MockSettings(  # type: ignore[no-untyped-call]
        monitor=recorder,
        monitor_features=features,
        engine=mocks.MockEngine(None),
        project="project",
        stack="stack",
        dry_run=preview,
        organization="organization",
        callbacks=None,
        outputs=set(),
        lock=settings.SETTINGS.lock,
        package_refs={},
        base_providers_by_ref={},
        root_directory=".",
    )


def _cancel_rest(loop: asyncio.AbstractEventLoop) -> None:
    """A program that failed leaves futures whose results are never read."""
    rest = asyncio.all_tasks(loop)
    for task in rest:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*rest, return_exceptions=True))
