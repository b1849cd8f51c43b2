"""The engine keeps a created resource that is not ready, with the reasons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from google.protobuf import any_pb2
from pulumi.runtime.proto import provider_pb2 as pb
from pulumi.runtime.proto import status_pb2
from pulumi_sandbox.providers.diff import UPDATE, Change
from pulumi_sandbox.providers.readiness import DETAILS, NotReady
from pulumi_sandbox.providers.resource import Resource
from pulumi_sandbox.world.store import Record

from tests.sandbox.providers.fake_cloud import BOX, Aborted, Bench, FakeCall, Toys, plain, struct, urn


class Slow(Toys):
    """Its boxes never become ready, unless they are blue."""

    def await_ready(self, res: Resource) -> dict[str, Any]:
        if res.inputs.get("color") == "blue":
            return {"link": "ready"}
        raise NotReady("the box is stuck", ["its label is my-secret-label"], {"link": "stuck"})

    def not_ready(self, record: Record) -> NotReady | None:
        return NotReady("still stuck") if record.outputs.get("link") == "stuck" else None

    def forced_changes(self, res: Resource) -> list[Change]:
        return [Change(("label",), UPDATE, replacing=True)] if res.inputs.get("color") == "red" else []


class Call(FakeCall):
    trailing: tuple[tuple[str, bytes], ...] = ()

    def set_trailing_metadata(self, metadata: tuple[tuple[str, bytes], ...]) -> None:
        self.trailing = metadata


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, Slow())


def failed(bench: Bench, name: str, request: Any) -> tuple[str, pb.ErrorResourceInitFailed]:
    """The error's text, and what comes with it."""
    call = Call()
    with pytest.raises(Aborted) as caught:
        getattr(bench.servicer, name)(request, call)
    ((key, value),) = call.trailing
    assert key == DETAILS
    status = status_pb2.Status.FromString(value)
    assert (status.code, status.message) == (2, caught.value.text)
    detail: any_pb2.Any = status.details[0]
    found = pb.ErrorResourceInitFailed()
    assert detail.Unpack(found)
    return caught.value.text, found


def test_a_resource_that_is_made_and_not_ready_is_kept_with_its_reasons(bench: Bench) -> None:
    inputs = struct(name="one", size=1)
    text, found = failed(bench, "Create", pb.CreateRequest(urn=urn(BOX, "mine"), properties=inputs))
    assert text == "the box is stuck"
    assert (found.id, list(found.reasons)) == ("boxes/one", ["the box is stuck", "its label is my-secret-label"])
    assert plain(found.properties)["link"] == "stuck"
    assert plain(found.inputs) == {"name": "one", "size": 1}
    row = bench.world.get(BOX, "boxes/one")
    assert row is not None
    assert row.outputs["link"] == "stuck"


def test_an_update_and_a_refresh_say_it_again(bench: Bench) -> None:
    before = struct(name="one", size=1, color="blue")
    made = bench.create(before)
    after = struct(name="one", size=2)
    request = pb.UpdateRequest(urn=urn(BOX, "mine"), id=made.id, olds=made.properties, news=after, old_inputs=before)
    text, found = failed(bench, "Update", request)
    assert text == "the box is stuck"
    assert plain(found.inputs) == {"name": "one", "size": 2}
    read = pb.ReadRequest(urn=urn(BOX, "mine"), id=made.id, properties=found.properties, inputs=after)
    text, found = failed(bench, "Read", read)
    assert (text, list(found.reasons), found.id) == ("still stuck", ["still stuck"], "boxes/one")
    assert plain(found.properties)["link"] == "stuck"


def test_a_secret_is_in_no_reason(bench: Bench) -> None:
    inputs = struct({("label",)}, name="one", size=1, label="my-secret-label")
    _, found = failed(bench, "Create", pb.CreateRequest(urn=urn(BOX, "mine"), properties=inputs))
    assert list(found.reasons) == ["the box is stuck", "its label is [secret]"]
