"""The engine's two services as a plugin meets them over gRPC, and the plugin itself served in this process."""

# ruff: noqa: N802 - the names are the protocol's

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from google.protobuf import empty_pb2, json_format, struct_pb2
from gpu_ci.plugin import Servicer
from gpu_common import pulumi_wire
from pulumi.runtime.proto import (
    engine_pb2_grpc,
    errors_pb2,
    provider_pb2,
    provider_pb2_grpc,
    resource_pb2,
    resource_pb2_grpc,
    status_pb2,
)

from tests.gpu_ci.support import CALLS, COMPUTED, run

STACK_URN = "urn:pulumi:dev::consumer::pulumi:pulumi:Stack::consumer-dev"

FEATURES = (
    resource_pb2.RESOURCE_MONITOR_FEATURE_SECRETS,
    resource_pb2.RESOURCE_MONITOR_FEATURE_RESOURCE_REFERENCES,
    resource_pb2.RESOURCE_MONITOR_FEATURE_ALIAS_SPECS,
    resource_pb2.RESOURCE_MONITOR_FEATURE_OUTPUT_VALUES,
)


class Monitor(resource_pb2_grpc.ResourceMonitorServicer, engine_pb2_grpc.EngineServicer):
    """Records what is registered and logged. URNs are made here, as there are no settings on a server's threads."""

    def __init__(self, computed: Mapping[str, Mapping[str, Any]]) -> None:
        self.requests: list[Any] = []
        self.logs: list[Any] = []
        self._computed = computed

    def GetDeploymentInfo(self, request: Any, context: Any) -> Any:
        return resource_pb2.DeploymentInfo(supportedFeatures=FEATURES)

    def RegisterResource(self, request: Any, context: Any) -> Any:
        self.requests.append(request)
        qualifier = "" if request.parent in ("", STACK_URN) else f"{request.parent.split('::')[2]}$"
        state = struct_pb2.Struct()
        state.CopyFrom(request.object)
        state.update(self._computed.get(request.type, {}))
        urn = f"urn:pulumi:dev::consumer::{qualifier}{request.type}::{request.name}"
        identity = f"{request.name}-id" if request.custom else ""
        return resource_pb2.RegisterResourceResponse(urn=urn, id=identity, object=state)

    def Invoke(self, request: Any, context: Any) -> Any:
        answer = struct_pb2.Struct()
        answer.update(CALLS[request.tok](json_format.MessageToDict(request.args)))
        return resource_pb2.ResourceInvokeResponse(**{"return": answer})

    def RegisterResourceOutputs(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()

    def Log(self, request: Any, context: Any) -> Any:
        self.logs.append(request)
        return empty_pb2.Empty()

    def inputs(self, type_: str) -> dict[str, Any]:
        """The inputs of the one resource whose type ends so."""
        (found,) = [request for request in self.requests if request.type.endswith(type_)]
        return json_format.MessageToDict(found.object)


class Plugin:
    """A running plugin, and a stub of the engine."""

    def __init__(self, servicer: Servicer, stub: Any, monitor: Monitor, address: str) -> None:
        self.servicer = servicer
        self.stub = stub
        self.monitor = monitor
        self.address = address

    async def construct(self, type_: str, name: str, inputs: Mapping[str, Any], **request: Any) -> Any:
        """Ask for a component, as the engine does."""
        struct = struct_pb2.Struct()
        struct.update(inputs)
        return await self.stub.Construct(
            provider_pb2.ConstructRequest(
                project="consumer",
                stack="dev",
                monitorEndpoint=self.address,
                type=type_,
                name=name,
                inputs=struct,
                **{"parent": STACK_URN, **request},
            )
        )


@contextlib.asynccontextmanager
async def plugin(computed: Mapping[str, Mapping[str, Any]] | None = None) -> AsyncIterator[Plugin]:
    """Serve both ends, and end them again."""
    # As the plugin's own main does: a failed component leaves futures unread.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    monitor = Monitor(computed or {})
    with ThreadPoolExecutor(8) as threads:
        engine = grpc.server(threads)
        resource_pb2_grpc.add_ResourceMonitorServicer_to_server(monitor, engine)
        engine_pb2_grpc.add_EngineServicer_to_server(monitor, engine)
        address = f"127.0.0.1:{engine.add_insecure_port('127.0.0.1:0')}"
        engine.start()
        server = grpc.aio.server()
        servicer = Servicer(address)
        provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield Plugin(servicer, provider_pb2_grpc.ResourceProviderStub(channel), monitor, address)
        await servicer.close()
        await server.stop(None)
        engine.stop(None).wait()


def secret(value: Any) -> dict[str, Any]:
    return {pulumi_wire.SIGNATURE: pulumi_wire.SECRET, "value": value}


def output(value: Any = None, *, is_secret: bool = False) -> dict[str, Any]:
    """An output value as the engine sends it; without a value it is unknown."""
    found = {pulumi_wire.SIGNATURE: pulumi_wire.OUTPUT, "secret": is_secret, "dependencies": []}
    return found if value is None else {**found, "value": value}


def details(error: grpc.aio.AioRpcError) -> list[tuple[str, str]]:
    """The structured part of an error: path and reason of each property."""
    (packed,) = [value for key, value in error.trailing_metadata() or () if key == "grpc-status-details-bin"]
    status = status_pb2.Status.FromString(packed if isinstance(packed, bytes) else packed.encode())
    found = errors_pb2.InputPropertiesError()
    assert status.details[0].Unpack(found)
    return [(one.property_path, one.reason) for one in found.errors]


def asked(work: Callable[[Plugin], Awaitable[Any]]) -> Any:
    """Do something with a plugin that builds pools."""

    async def ask() -> Any:
        async with plugin(COMPUTED) as running:
            return await work(running)

    return run(ask())


def refused(type_: str, inputs: dict[str, Any], name: str = "l4") -> tuple[grpc.aio.AioRpcError, Plugin]:
    """The error a component is refused with, and the plugin that did."""

    async def ask(running: Plugin) -> Any:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.construct(type_, name, inputs)
        return caught.value, running

    found: tuple[grpc.aio.AioRpcError, Plugin] = asked(ask)
    return found
