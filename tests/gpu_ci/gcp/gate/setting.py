"""A gate service with a Google and a clock of the test's own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest
from google.protobuf import json_format, struct_pb2
from gpu_ci.gcp.gate.compute_api import ApiError
from gpu_ci.gcp.gate.waiting import RealClock
from pulumi.runtime.proto import provider_pb2

from tests.gpu_ci.engine_stub import Plugin, plugin
from tests.gpu_ci.gcp.gate.fake_api import FakeClock, FakeGoogle
from tests.gpu_ci.support import run

URN = "urn:pulumi:dev::consumer::gpu-ci:gcp:RunnerPool$gpu-ci:gcp:SmokeGate::l4-gate"
TEMPLATE = "projects/p/regions/us-central1/instanceTemplates/l4-template-1"
ZONES = ("us-central1-a", "us-central1-b")
INPUTS: dict[str, Any] = {
    "project": "p",
    "template": TEMPLATE,
    "zones": list(ZONES),
    "pool": "l4",
    "labels": {"team": "ml"},
    "deadlineSec": 300,
    "onNoCapacity": "fail",
}


def struct(values: dict[str, Any]) -> struct_pb2.Struct:
    found = struct_pb2.Struct()
    found.update(values)
    return found


class Setting:
    """A Google and a clock behind every gate of a test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = FakeClock()
        self.google = FakeGoogle(self.clock)
        self.unreachable: ApiError | None = None
        self.apis_made = 0
        monkeypatch.setattr(RealClock, "now", lambda _: self.clock.now())
        monkeypatch.setattr(RealClock, "wait", lambda _, event, seconds: self.clock.wait(event, seconds))

    def api(self) -> FakeGoogle:
        if self.unreachable:
            raise self.unreachable
        self.apis_made += 1
        return self.google

    def ask(self, work: Callable[[Plugin], Awaitable[Any]]) -> Any:
        async def asked() -> Any:
            async with plugin() as running:
                running.servicer._gates._create_api = self.api
                running.servicer._stopped._create_api = self.api
                return await work(running)

        return run(asked())

    def create(self, inputs: dict[str, Any] = INPUTS, **request: Any) -> tuple[str, dict[str, Any]]:
        message = provider_pb2.CreateRequest(urn=URN, properties=struct(inputs), **request)
        response = self.ask(lambda running: running.stub.Create(message))
        return response.id, json_format.MessageToDict(response.properties)

    def refused(self, inputs: dict[str, Any] = INPUTS) -> tuple[grpc.StatusCode, str]:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            self.create(inputs)
        return caught.value.code(), str(caught.value.details())
