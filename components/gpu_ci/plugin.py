"""The Pulumi plugin: creates the components for programs in any Pulumi language, and provides the custom resources.

The plugin uses the stable provider base class of the Python SDK. The SDK also has an experimental component provider,
which has defects: typed Outputs, integers, lists of enums, error texts, unknown arguments, and options.
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
from .aws.smoke_gate import SmokeGate as Ec2SmokeGate
from .component import Component
from .custom_resources import EngineLog, Refused
from .ec2_gate.service import Ec2GateService
from .errors import did_you_mean
from .gcp.deployed_models import DeployedModels
from .gcp.gate.deployed_models_service import DeployedModelsService
from .gcp.gate.service import GateService, StoppedService
from .gcp.smoke_gate import SmokeGate
from .gcp.stopped_machines import StoppedMachines
from .kinds import catalog
from .schema import NAME, as_json

Service: TypeAlias = DeployedModelsService | GateService | LimitsService | StoppedService
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

_PARENT_CHECK_EVERY_SEC = 1.0
"""The interval between two checks that the parent process still runs."""

_constructed_type: ContextVar[str] = ContextVar("_constructed_type")
"""The type token of the component that the current request creates."""


class Package(pulumi.provider.Provider):
    """The components that the engine can create."""

    def construct(
        self, name: str, resource_type: str, inputs: Mapping[str, Any], options: pulumi.ResourceOptions | None = None
    ) -> ConstructResult:
        """Create a component from its validated arguments."""
        component = component_of(resource_type)(name, inputs["args"], options)
        return ConstructResult(urn=component.urn, state=component.state())


def component_of(token: str) -> type[Component]:
    """Return the component class of a type token."""
    for found in catalog():
        if found.token == token and issubclass(loaded := found.load(), Component):
            return loaded
    hint = did_you_mean(token, [found.token for found in catalog()])
    raise pulumi.RunError(f"{NAME} has no component {token}{f'; {hint}' if hint else ''}")


class Servicer(ProviderServicer):
    """The gRPC service that answers the engine's requests."""

    def __init__(self, engine_address: str) -> None:
        super().__init__(Package(versions.PACKAGE), [], engine_address)
        log = EngineLog(lambda: self.engine_address)
        self._gates = GateService(log)
        self._limits = LimitsService(log)
        self._stopped = StoppedService(log)
        self._services: dict[str, Service] = {
            SmokeGate.TYPE: self._gates,
            Ec2SmokeGate.TYPE: Ec2GateService(log),
            NodeGroupLimits.TYPE: self._limits,
            StoppedMachines.TYPE: self._stopped,
            DeployedModels.TYPE: DeployedModelsService(log),
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
        _constructed_type.set(request.type)
        try:
            response = await self._construct(request, context)
            # Wait for every `apply`. Otherwise, an error in an `apply` on which no output depends would be lost.
            await wait_for_rpcs(await_all_outstanding_tasks=True)
        except Exception as error:  # any error must reach the user as text
            await self._fail(error, context)
        return response

    async def _construct_inputs(self, inputs: struct_pb2.Struct, input_dependencies: Any) -> dict[str, Any]:  # type: ignore[override]
        """Return the arguments, validated by the model of the component. Wait for every Output among them."""
        raw = await ProviderServicer._construct_inputs(inputs, input_dependencies)
        model: type[Args] = component_of(_constructed_type.get()).ARGS
        args = model(**raw)
        await args.settle()
        return {"args": args}

    @staticmethod
    def _construct_options(request: Any) -> pulumi.ResourceOptions:
        """Return the caller's options. The base class ignores the custom timeouts, so they are added here."""
        options = ProviderServicer._construct_options(request)
        if request.HasField("customTimeouts"):
            timeouts = request.customTimeouts
            options.custom_timeouts = pulumi.CustomTimeouts(
                timeouts.create or None, timeouts.update or None, timeouts.delete or None
            )
        return options

    async def _fail(self, error: BaseException, context: Context) -> NoReturn:
        """End the call with the error's text, without a traceback. Invalid arguments are reported for each property."""
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
        return await self._with_grpc_status(self._service(request).create(request), context)

    async def Update(self, request: Any, context: Context) -> Any:
        return await self._with_grpc_status(self._service(request).update(request), context)

    async def Read(self, request: Any, context: Context) -> Any:
        return await self._with_grpc_status(self._service(request).read(request), context)

    async def Delete(self, request: Any, context: Context) -> Any:
        return await self._with_grpc_status(self._service(request).delete(request), context)

    async def Cancel(self, request: Any, context: Context) -> Any:
        self._cancel()
        return empty_pb2.Empty()

    async def close(self) -> None:
        """Cancel the running requests, and wait until they have cleaned up."""
        self._cancel()
        await asyncio.gather(*(service.drained() for service in self._services.values()))

    def _service(self, request: Any) -> Service:
        """Return the service for resources of the request's type."""
        return self._services[request.urn.split("::")[2].rpartition("$")[2]]

    def _cancel(self) -> None:
        for service in self._services.values():
            service.cancel()

    async def _with_grpc_status(self, work: Any, context: Context) -> Any:
        """Await the work. End the call with the code and the text of a Refused error."""
        try:
            return await work
        except Refused as error:
            await context.abort(error.code, str(error))


async def serve(engine_address: str) -> None:
    """Print the port to standard output for the engine. Then serve requests until a signal or the parent's end.

    If the engine is killed, it sends no signal, so the plugin checks that its parent process still runs.
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
            await asyncio.wait_for(stop.wait(), _PARENT_CHECK_EVERY_SEC)
    await servicer.close()
    await server.stop(grace=1)


def main() -> None:
    """Run the plugin. The first argument is the engine's address. Without an address, the engine attaches later."""
    # After an error in a component, asyncio would log messages about unread futures in addition to the error. Pulumi's
    # own Python runner sets the same level.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    addresses = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    asyncio.run(serve(addresses[0] if addresses else ""))
