"""The multi-language plugin: builds the components for programs in any Pulumi language, and runs the gates.

It stands on the SDK's stable provider base. What the base's experimental sibling gets wrong (typed Outputs, integers,
lists of enums, error text, unknown arguments, options) is right here: the component's own model reads the inputs.
"""

# ruff: noqa: ARG002 - the protocol fixes every method's arguments

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, NoReturn, TypeAlias

import grpc
import pulumi
import pulumi.provider
from google.protobuf import empty_pb2, struct_pb2
from pulumi.provider import ConstructResult
from pulumi.provider.server import ComponentInitError, ProviderServicer
from pulumi.runtime._grpc_settings import _GRPC_CHANNEL_OPTIONS
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc
from pulumi.runtime.stack import wait_for_rpcs

from . import versions
from .args import Args
from .aws.limits.service import LimitsService
from .aws.node_group_limits import NodeGroupLimits
from .component import Component
from .custom_resources import EngineLog, Refused
from .errors import did_you_mean
from .gcp.gate.service import GateService
from .gcp.gate.stopped_service import StoppedService
from .gcp.smoke_gate import SmokeGate
from .gcp.stopped_machines import StoppedMachines
from .kinds import catalog
from .schema import NAME, as_json

Service: TypeAlias = GateService | LimitsService | StoppedService
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

# Seconds between two looks at the parent process.
_LOOK_EVERY = 1.0

_constructing: ContextVar[str] = ContextVar("_constructing")


class Package(pulumi.provider.Provider):
    """What the engine can ask to have built."""

    def construct(
        self, name: str, resource_type: str, inputs: Mapping[str, Any], options: pulumi.ResourceOptions | None = None
    ) -> ConstructResult:
        """Build a component from arguments that are already read and checked."""
        component = component_of(resource_type)(name, inputs["args"], options)
        return ConstructResult(urn=component.urn, state=component.state())


def component_of(token: str) -> type[Component]:
    """The component class of a type token."""
    for found in catalog():
        if found.token == token and issubclass(loaded := found.load(), Component):
            return loaded
    hint = did_you_mean(token, [found.token for found in catalog()])
    raise pulumi.RunError(f"{NAME} has no component {token}{f'; {hint}' if hint else ''}")


class Servicer(ProviderServicer):
    """The engine's questions, answered."""

    def __init__(self, engine_address: str) -> None:
        super().__init__(Package(versions.PACKAGE), [], engine_address)
        log = EngineLog(lambda: self.engine_address)
        self._gates = GateService(log)
        self._limits = LimitsService(log)
        self._stopped = StoppedService(log)
        self._services: dict[str, Service] = {
            SmokeGate.TYPE: self._gates,
            NodeGroupLimits.TYPE: self._limits,
            StoppedMachines.TYPE: self._stopped,
        }

    async def Handshake(self, request: Any, context: Context) -> Any:
        self.engine_address = request.engine_address or self.engine_address
        return provider_pb2.ProviderHandshakeResponse(accept_secrets=True, accept_resources=True, accept_outputs=True)

    async def Attach(self, request: Any, context: Context) -> Any:
        self.engine_address = request.address
        return empty_pb2.Empty()

    async def GetSchema(self, request: Any, context: Context) -> Any:
        if request.version != 0:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"unsupported schema version {request.version}")
        return provider_pb2.GetSchemaResponse(schema=as_json())

    async def CheckConfig(self, request: Any, context: Context) -> Any:
        return provider_pb2.CheckResponse(inputs=request.news)

    async def DiffConfig(self, request: Any, context: Context) -> Any:
        same = request.old_inputs == request.news
        kind = provider_pb2.DiffResponse
        return kind(changes=kind.DIFF_NONE if same else kind.DIFF_SOME)

    async def Construct(self, request: Any, context: Context) -> Any:
        _constructing.set(request.type)
        try:
            response = await self._construct(request, context)
            # An error inside an apply that nothing waits for would be lost otherwise.
            await wait_for_rpcs(await_all_outstanding_tasks=True)
        except Exception as error:  # whatever it is, it reaches the user as text
            await self._fail(error, context)
        return response

    async def _construct_inputs(self, inputs: struct_pb2.Struct, input_dependencies: Any) -> dict[str, Any]:  # type: ignore[override]
        """The arguments, read by the component's own model; by now every Output among them has its value."""
        raw = await ProviderServicer._construct_inputs(inputs, input_dependencies)
        model: type[Args] = component_of(_constructing.get()).ARGS
        args = model(**raw)
        await args.settle()
        return {"args": args}

    @staticmethod
    def _construct_options(request: Any) -> pulumi.ResourceOptions:
        """The caller's options, with the time limits, which the base reads and drops."""
        options = ProviderServicer._construct_options(request)
        if request.HasField("customTimeouts"):
            timeouts = request.customTimeouts
            options.custom_timeouts = pulumi.CustomTimeouts(
                timeouts.create or None, timeouts.update or None, timeouts.delete or None
            )
        return options

    async def _fail(self, error: BaseException, context: Context) -> NoReturn:
        """End the call with the error's text: by property where the arguments are at fault, and never a traceback."""
        cause = error.inner if isinstance(error, ComponentInitError) else error
        if isinstance(cause, pulumi.InputPropertiesError):
            await context.abort_with_status(
                self.create_grpc_invalid_properties_status("invalid arguments", cause.errors)
            )
        await context.abort(grpc.StatusCode.UNKNOWN, str(cause) or type(cause).__name__)
        raise AssertionError("abort always raises")

    async def Check(self, request: Any, context: Context) -> Any:
        return self._service(request).check(request)

    async def Diff(self, request: Any, context: Context) -> Any:
        return await self._service(request).diff(request)

    async def Create(self, request: Any, context: Context) -> Any:
        return await self._answered(self._service(request).create(request), context)

    async def Update(self, request: Any, context: Context) -> Any:
        return await self._answered(self._service(request).update(request), context)

    async def Read(self, request: Any, context: Context) -> Any:
        return await self._answered(self._service(request).read(request), context)

    async def Delete(self, request: Any, context: Context) -> Any:
        return await self._answered(self._service(request).delete(request), context)

    async def Cancel(self, request: Any, context: Context) -> Any:
        self._cancel()
        return empty_pb2.Empty()

    async def close(self) -> None:
        """Stop what runs, and let it clean up behind itself."""
        self._cancel()
        await asyncio.gather(*(service.drained() for service in self._services.values()))

    def _service(self, request: Any) -> Service:
        """What looks after resources of the request's type."""
        return self._services[request.urn.split("::")[2].rpartition("$")[2]]

    def _cancel(self) -> None:
        for service in self._services.values():
            service.cancel()

    async def _answered(self, work: Any, context: Context) -> Any:
        try:
            return await work
        except Refused as error:
            await context.abort(error.code, str(error))


async def serve(engine_address: str) -> None:
    """Serve until a signal or the end of the parent process; prints the port to standard output, for the engine.

    An engine that was killed sends no signal; without this check the plugin would run forever.
    """
    parent = os.getppid()
    server = grpc.aio.server(options=_GRPC_CHANNEL_OPTIONS)
    servicer = Servicer(engine_address)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    print(port, flush=True)  # noqa: T201 - the plugin protocol
    while os.getppid() == parent and not stop.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), _LOOK_EVERY)
    await servicer.close()
    await server.stop(grace=1)


def main() -> None:
    """Entry point of the plugin; the engine's address is its first argument, or comes later where it attaches."""
    # A failed component leaves futures unread, which asyncio would report on top of the error; so does Pulumi's runner.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    addresses = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    asyncio.run(serve(addresses[0] if addresses else ""))
