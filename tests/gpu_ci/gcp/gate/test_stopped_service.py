"""StoppedMachines over gRPC: what its deletion deletes, and that nothing else of its lifecycle does."""

from __future__ import annotations

from typing import Any

from google.protobuf import json_format
from pulumi.runtime.proto import provider_pb2

from tests.gpu_ci.engine_stub import Plugin
from tests.gpu_ci.gcp.gate.setting import TEMPLATE, Setting, struct
from tests.gpu_ci.gcp.gate.test_state import managed, names

URN = "urn:pulumi:dev::consumer::gpu-ci:gcp:RunnerManager$gpu-ci:gcp:StoppedMachines::manager-stopped"
EAST = "projects/p/regions/us-east1/instanceTemplates/l4-east-1"
INPUTS: dict[str, Any] = {"project": "p", "templates": [TEMPLATE, EAST]}
MACHINES = [
    managed("off"),
    managed("off-east", **{"gpu-ci-template": "l4-east-1"}),
    managed("off-old", **{"gpu-ci-template": "l4-template-0"}),
    managed("has-a-job", "RUNNING"),
]


def test_its_deletion_deletes_the_stopped_machines_of_all_its_templates(setting: Setting) -> None:
    setting.google.managed = [dict(machine) for machine in MACHINES]
    request = provider_pb2.DeleteRequest(urn=URN, properties=struct(INPUTS))
    setting.ask(lambda running: running.stub.Delete(request))
    assert names(setting) == ["off-old", "has-a-job"]


def test_nothing_is_deleted_when_it_is_made_changed_or_read(setting: Setting) -> None:
    setting.google.managed = [dict(machine) for machine in MACHINES]
    other = {**INPUTS, "templates": [EAST]}

    async def work(running: Plugin) -> list[Any]:
        given, new = struct(INPUTS), struct(other)
        return [
            await running.stub.Create(provider_pb2.CreateRequest(urn=URN, properties=given)),
            await running.stub.Diff(provider_pb2.DiffRequest(urn=URN, old_inputs=given, olds=given, news=new)),
            await running.stub.Update(provider_pb2.UpdateRequest(urn=URN, olds=given, news=new)),
            await running.stub.Read(provider_pb2.ReadRequest(urn=URN, id="x", properties=given, inputs=given)),
            await running.stub.Diff(
                provider_pb2.DiffRequest(urn=URN, old_inputs=given, news=struct({**INPUTS, "project": "q"}))
            ),
        ]

    created, changed, updated, read, moved = setting.ask(work)
    assert (created.id, json_format.MessageToDict(created.properties)) == ("manager-stopped", INPUTS)
    assert (list(changed.diffs), list(changed.replaces)) == (["templates"], [])
    assert json_format.MessageToDict(updated.properties) == other
    assert read.id == "x"
    assert list(moved.replaces) == ["project"]
    assert len(names(setting)) == 4
