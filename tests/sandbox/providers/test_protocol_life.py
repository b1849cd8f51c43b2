"""The provider as the engine calls it: Create, Read, Update, Delete, and planted faults."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

import pytest
from google.protobuf import empty_pb2
from gpu_common.pulumi_wire import SIGNATURE
from hypothesis import given, settings
from hypothesis import strategies as st
from pulumi.runtime.proto import provider_pb2 as pb
from pulumi_sandbox.providers.secret_digests import CHANGED, is_digest
from pulumi_sandbox.providers.wire import decode
from pulumi_sandbox.world.faults import Fault

from tests.sandbox.providers.fake_cloud import BOX, Bench, Died, made, plain, refused, struct, urn

PASSWORD = frozenset({("password",)})


def test_a_created_resource_is_in_the_world_and_reads_back_the_same(bench: Bench) -> None:
    identity, inputs, outputs = made(bench, size=3, name="n", password="hunter22", tags={"a": "b"})
    assert identity == "boxes/n"
    assert plain(outputs) == {
        "size": 3, "name": "n", "password": "hunter22", "tags": {"a": "b"}, "link": "https://toys/n",
        "token": "of hunter22",
    }  # fmt: skip
    [row] = bench.world.find()
    assert (row.type, row.id, row.name, row.urn, row.stack) == (BOX, identity, "mine", urn(BOX, "mine"), "toys/dev")
    assert bench.cloud.happened == ["created mine"]
    read = bench.call("Read", pb.ReadRequest(id=identity, urn=row.urn, properties=outputs, inputs=inputs))
    assert read.id == identity
    assert read.properties == outputs
    assert read.inputs == inputs


def test_no_secret_is_stored_in_plain_text_and_all_stay_marked(bench: Bench) -> None:
    _, inputs, outputs = made(bench, size=3, name="n", password="hunter22")
    assert decode(inputs).secrets == PASSWORD
    assert decode(outputs).secrets == PASSWORD | {("token",)}
    bench.world.close()
    for path in bench.folder.iterdir():
        assert b"hunter22" not in path.read_bytes(), path.name


def test_an_import_by_id_answers_the_inputs_and_secrets_as_placeholders(bench: Bench) -> None:
    identity, inputs, _ = made(bench, size=3, password="hunter22", label="x")
    read = bench.call("Read", pb.ReadRequest(id=identity, urn=urn(BOX, "imported")))
    decoded = decode(read.inputs)
    assert decoded.values == plain(inputs) | {"password": CHANGED}
    assert decoded.secrets == PASSWORD
    assert decode(read.properties).secrets == PASSWORD | {("token",)}


def test_what_is_gone_reads_as_an_empty_id_and_deletes_without_an_error(bench: Bench) -> None:
    identity, inputs, outputs = made(bench, size=3)
    bench.world.delete(BOX, identity)
    read = bench.call("Read", pb.ReadRequest(id=identity, urn=urn(BOX, "mine"), properties=outputs, inputs=inputs))
    assert read.id == ""
    assert not read.HasField("properties")
    bench.call("Delete", pb.DeleteRequest(id=identity, urn=urn(BOX, "mine"), properties=outputs, old_inputs=inputs))
    assert bench.cloud.happened == ["created mine"]


def test_an_update_changes_the_row_and_drops_what_the_program_dropped(bench: Bench) -> None:
    identity, inputs, outputs = made(bench, size=3, label="x", tags={"a": "b"})
    news = struct(**{**{name: value for name, value in plain(inputs).items() if name != "label"}, "size": 4})
    request = pb.UpdateRequest(urn=urn(BOX, "mine"), id=identity, olds=outputs, news=news, old_inputs=inputs)
    answer = plain(bench.call("Update", request).properties)
    [row] = bench.world.find()
    assert answer["size"] == row.inputs["size"] == row.outputs["size"] == 4
    assert "label" not in answer
    assert "label" not in row.outputs
    assert row.outputs["tags"] == {"a": "b"}
    assert row.outputs["link"] == plain(outputs)["link"]


@pytest.mark.parametrize("preview", [False, True])
def test_an_output_that_was_secret_stays_so_and_an_input_only_while_the_program_says_so(
    bench: Bench, preview: bool
) -> None:
    """A stack may hold outputs secret that no SDK names, as additionalSecretOutputs has them."""
    inputs = struct({("label",)}, size=3, name="n", label="a-secret-label")
    made_one = bench.create(inputs)
    olds = struct({("link",), ("label",)}, **plain(made_one.properties))
    request = pb.UpdateRequest(
        urn=urn(BOX, "mine"), id=made_one.id, olds=olds, news=struct(size=4, name="n", label="a-plain-label"),
        old_inputs=inputs, preview=preview,
    )  # fmt: skip
    answer = decode(bench.call("Update", request).properties)
    assert answer.secrets == {("link",), ("token",)}
    assert (answer.values["link"], answer.values["label"]) == ("https://toys/n", "a-plain-label")
    [row] = bench.world.find()
    assert is_digest(row.outputs["link"]) is not preview
    assert is_digest(row.outputs["label"]) is preview


def test_delete_removes_the_row_unless_the_vendor_refuses(bench: Bench) -> None:
    identity, inputs, outputs = made(bench, size=3, label="keep")
    request = pb.DeleteRequest(id=identity, urn=urn(BOX, "mine"), properties=outputs, old_inputs=inputs)
    assert refused(bench, "Delete", request) == "deletion protection is on"
    assert len(bench.world.find()) == 1
    del request.properties.fields["label"]
    bench.call("Delete", request)
    assert bench.world.find() == []
    assert bench.cloud.happened == ["created mine", "deleted mine"]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 9), st.dictionaries(st.text(min_size=1), st.text()), st.none() | st.text())
def test_a_box_of_any_kind_reads_back_with_no_difference(size: int, tags: dict[str, str], label: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        tags = {name: value for name, value in tags.items() if name != SIGNATURE}
        identity, inputs, outputs = made(bench, size=size, tags=tags, label=label, password="hunter22")
        read = bench.call("Read", pb.ReadRequest(id=identity, urn=urn(BOX, "m"), properties=outputs, inputs=inputs))
        diff = bench.call(
            "Diff", pb.DiffRequest(urn=urn(BOX, "m"), old_inputs=read.inputs, olds=read.properties, news=inputs)
        )
        bench.world.close()
        assert diff.changes == pb.DiffResponse.DIFF_NONE
        assert read.properties == outputs


def test_a_planted_refusal_comes_before_anything_is_made(bench: Bench) -> None:
    bench.world.add_fault(Fault("refuse", on=BOX, message="403: no"))
    bench.world.add_fault(Fault("quota", on="mine"))
    request = pb.CreateRequest(urn=urn(BOX, "mine"), properties=struct(size=1, name="n"))
    assert refused(bench, "Create", request) == "403: no"
    assert refused(bench, "Create", request) == "quota exceeded (a planted fault)"
    assert bench.world.find() == []
    assert bench.call("Create", request).id == "boxes/n"


def test_a_crash_comes_after_the_row_and_before_the_answer(bench: Bench) -> None:
    bench.world.add_fault(Fault("crash"))
    with pytest.raises(Died):
        bench.call("Create", pb.CreateRequest(urn=urn(BOX, "mine"), properties=struct(size=1, name="n")))
    assert [row.id for row in bench.world.find()] == ["boxes/n"]
    assert bench.world.faults() == []


def test_a_slow_create_ends_at_once_when_the_engine_cancels(bench: Bench) -> None:
    bench.world.add_fault(Fault("slow", seconds=3600))
    messages: list[str] = []
    request = pb.CreateRequest(urn=urn(BOX, "mine"), properties=struct(size=1, name="n"))
    waiting = threading.Thread(target=lambda: messages.append(refused(bench, "Create", request)))
    waiting.start()
    while not bench.messages:
        waiting.join(0.01)
    bench.call("Cancel", empty_pb2.Empty())
    waiting.join(60)
    assert messages == ["cancelled while it waited"]
    assert bench.messages == [("slow (a planted fault): 3600 s more", "status", urn(BOX, "mine"))]
    assert bench.world.find() == []
