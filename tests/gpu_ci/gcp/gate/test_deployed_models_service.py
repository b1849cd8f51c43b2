"""DeployedModels over gRPC: its deletion undeploys the models of an endpoint, and never one with traffic by itself."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from gpu_ci.gcp.deployed_models import DeployedModels
from gpu_ci.gcp.gate.waiting import RealClock
from pulumi.runtime.proto import provider_pb2

from tests.gpu_ci.delivery.fake_vertex import ENDPOINT, FakeVertex
from tests.gpu_ci.delivery.rollouts import target
from tests.gpu_ci.engine_stub import plugin
from tests.gpu_ci.gcp.gate.setting import struct
from tests.gpu_ci.support import run

URN = f"urn:pulumi:dev::consumer::gpu-ci:gcp:VertexEndpoint${DeployedModels.TYPE}::scan-models"


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeVertex:
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "planted")
    fake = FakeVertex()
    fake.add("5002", "2", "scan-2")
    monkeypatch.setattr(RealClock, "now", lambda _: fake.now)
    monkeypatch.setattr(RealClock, "wait", lambda _, event, seconds: fake.sleep(seconds))
    return fake


def delete(fake: FakeVertex, **inputs: Any) -> None:
    async def work() -> None:
        async with plugin() as running:
            running.servicer._services[DeployedModels.TYPE]._create_api = lambda _: target(fake)._api
            given = struct({"endpoint": ENDPOINT, **inputs})
            await running.stub.Delete(provider_pb2.DeleteRequest(urn=URN, properties=given))

    run(work())


def test_model_with_traffic_stops_the_deletion(fake: FakeVertex) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as found:
        delete(fake)
    assert "got: 5001 (100 %)" in found.value.details()
    assert "forceDestroy: true" in found.value.details()
    assert fake.changes == []


def test_models_without_traffic_are_undeployed(fake: FakeVertex) -> None:
    fake.set_split({})
    delete(fake)
    assert fake.models == {}


def test_force_undeploys_models_with_traffic(fake: FakeVertex) -> None:
    fake.labels["gpu-ci-status"] = "done"
    delete(fake, forceDestroy=True)
    assert fake.models == {}
    assert fake.split == {}
    assert [kind for kind, _ in fake.changes] == ["patch", "undeploy", "undeploy"]


def test_missing_endpoint_is_no_error(fake: FakeVertex) -> None:
    async def work() -> None:
        async with plugin() as running:
            running.servicer._services[DeployedModels.TYPE]._create_api = lambda _: target(fake)._api
            given = struct({"endpoint": ENDPOINT.replace("7001", "7002")})
            await running.stub.Delete(provider_pb2.DeleteRequest(urn=URN, properties=given))

    run(work())
    assert fake.changes == []


def test_failed_undeployment_stops_the_deletion(fake: FakeVertex) -> None:
    fake.set_split({})
    fake.fault = lambda number, method, path: "failed-operation" if path.endswith("undeployModel") else None
    with pytest.raises(grpc.aio.AioRpcError) as found:
        delete(fake)
    assert "was not undeployed: the operation failed" in found.value.details()


def test_other_endpoint_replaces(fake: FakeVertex) -> None:
    async def work() -> Any:
        async with plugin() as running:
            old, new = struct({"endpoint": ENDPOINT}), struct({"endpoint": f"{ENDPOINT}1", "forceDestroy": True})
            return await running.stub.Diff(provider_pb2.DiffRequest(urn=URN, old_inputs=old, olds=old, news=new))

    found = run(work())
    assert (list(found.diffs), list(found.replaces)) == (["endpoint", "forceDestroy"], ["endpoint"])
    assert fake.requests == []
