"""The provider as the engine calls it: check, preview, create, read, update, delete, lookups, faults and errors."""

from __future__ import annotations

import logging
import tempfile
import threading
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import empty_pb2, json_format
from hypothesis import given, settings
from hypothesis import strategies as st
from pulumi.runtime.proto import provider_pb2 as pb
from pulumi_sandbox.faults import Fault
from pulumi_sandbox.providers.cloud import Problem, Resource
from pulumi_sandbox.providers.sealing import CHANGED
from pulumi_sandbox.providers.values import SECRET, SIGNATURE, UNKNOWN, UNKNOWN_STRING
from pulumi_sandbox.providers.wire import decode

from tests.sandbox.fake_cloud import BOX, SHELF, Aborted, Bench, Died, struct, urn

PASSWORD = frozenset({("password",)})


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.world.close()


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


# -- Check


def test_check_coerces_names_and_notes_what_it_filled_in(bench: Bench) -> None:
    answer = bench.check(struct(size="3", tags={"a": 1}))
    inputs = plain(answer.inputs)
    assert list(answer.failures) == []
    assert inputs == {"size": 3, "tags": {"a": "1"}, "name": inputs["name"], "__defaults": ["name"]}
    assert inputs["name"].startswith("mine-")
    assert len(inputs["name"]) == len("mine-") + 7


def test_the_name_follows_the_engines_seed_and_is_kept_once_chosen(bench: Bench) -> None:
    first = plain(bench.check(struct(size=1), seed=b"one").inputs)
    assert plain(bench.check(struct(size=1), seed=b"one").inputs) == first
    assert plain(bench.check(struct(size=1), seed=b"two").inputs)["name"] != first["name"]
    olds = struct(**first)
    assert plain(bench.check(struct(size=2), olds, seed=b"two").inputs)["name"] == first["name"]
    assert plain(bench.check(struct(size=2, name="own"), olds).inputs)["name"] == "own"
    own = struct(size=2, name="own", __defaults=[])
    assert plain(bench.check(struct(size=2), own).inputs)["name"].startswith("mine-")


def test_a_wrong_value_is_a_failure_of_its_property_with_a_hint(bench: Bench) -> None:
    [failure] = bench.check(struct(size=10)).failures
    assert (failure.property, failure.reason) == ("size", "must be at most 9\n  hint: two boxes hold more")


def test_shape_problems_come_before_the_vendors_rules(bench: Bench) -> None:
    [failure] = bench.check(struct(size=10, colour="red")).failures
    assert (failure.property, failure.reason) == ("colour", "no such property\n  hint: did you mean 'color'?")
    [nested] = bench.check(struct(size=10, tags={"a": [1]})).failures
    assert (nested.property, nested.reason.splitlines()[0]) == ("", "tags.a: wrong type")


def test_a_secret_value_is_not_printed_with_what_is_wrong_with_it(bench: Bench) -> None:
    [failure] = bench.check(struct({("size",)}, size=10)).failures
    assert (failure.property, failure.reason) == ("", "size: must be at most 9\n  hint: two boxes hold more")


def test_a_rule_that_quotes_a_secret_is_told_without_it(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def quoting(res: Resource) -> list[Problem]:
        quoted = [str(res.inputs["size"]), res.inputs["label"].rpartition("/")[2], res.inputs["tags"]["a"]]
        return [Problem("label", f"not any of these\n  got: {quoted}", "did you mean hush-house?")]

    monkeypatch.setattr(bench.cloud, "rules", quoting)
    news = struct({("size",), ("label",), ("tags",)}, size=7431, label="roles/hush-hose", tags={"a": "it's"})
    [failure] = bench.check(news).failures
    assert failure.reason == "label: not any of these\n  got: ['[secret]', '[secret]', \"[secret]\"]"


def test_a_refusal_that_quotes_a_secret_is_told_without_it(bench: Bench) -> None:
    with pytest.raises(Aborted) as refused:
        bench.create(struct({("box",)}, box="boxes/hush"), SHELF)
    assert refused.value.text.startswith("Error 404: the box [secret] was not found")
    question = pb.InvokeRequest(tok="gcp:toys/none:hush", args=struct({("note",)}, note="none:hush"))
    with pytest.raises(Aborted) as unknown:
        bench.call("Invoke", question)
    assert unknown.value.text.startswith("gcp:toys/[secret]: no answer is known")


def test_a_missing_value_names_its_property(bench: Bench) -> None:
    [failure] = bench.check(struct(color="red")).failures
    assert failure.property == ""
    assert failure.reason == "size: required, and missing\n  expected: an integer"


def test_a_type_the_sdk_has_not_is_named_with_what_was_meant(bench: Bench) -> None:
    [failure] = bench.check(struct(size=1), token="gcp:toys/bocks:Bocks").failures
    assert failure.reason == f"pulumi_gcp 10 has no resource gcp:toys/bocks:Bocks\n  hint: did you mean {BOX}?"


def test_secrets_and_unknowns_go_through_check(bench: Bench) -> None:
    answer = bench.check(struct({("tags", "a")}, size=UNKNOWN, tags={"a": "x", "b": UNKNOWN}, password="p"))
    decoded = decode(answer.inputs)
    assert decoded.values["size"] is UNKNOWN
    assert decoded.values["tags"] == {"a": "x", "b": UNKNOWN}
    assert decoded.secrets == {("tags", "a"), ("password",)}


# -- preview


def test_a_previewed_create_knows_its_inputs_and_nothing_else(bench: Bench) -> None:
    answer = bench.create(struct(size=1, name="n", color=UNKNOWN, __defaults=[]), preview=True)
    assert answer.id == ""
    assert plain(answer.properties) == {
        "size": 1, "name": "n", "color": UNKNOWN, "label": UNKNOWN, "password": UNKNOWN, "link": UNKNOWN,
        "token": UNKNOWN, "tags": UNKNOWN,
    }  # fmt: skip
    assert bench.world.find() == []


def test_a_previewed_update_keeps_what_it_does_not_change(bench: Bench) -> None:
    identity, inputs, outputs = made(bench, size=1, label="x")
    news = struct(**{**plain(inputs), "size": UNKNOWN, "label": None})
    request = pb.UpdateRequest(
        urn=urn(BOX, "mine"), id=identity, olds=outputs, news=news, old_inputs=inputs, preview=True
    )
    answer = plain(bench.call("Update", request).properties)
    assert answer["size"] is UNKNOWN
    assert answer["link"] == plain(outputs)["link"]
    assert bench.world.find()[0].outputs["size"] == 1


def test_what_a_cloud_plans_is_known_in_a_preview(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.cloud, "planned", lambda res: {"link": f"planned for {res.inputs['name']}"})
    assert plain(bench.create(struct(size=1, name="n"), preview=True).properties)["link"] == "planned for n"


# -- Create, Read, Update, Delete


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


def test_drift_shows_in_what_read_answers(bench: Bench) -> None:
    identity, inputs, outputs = made(bench, size=3, color="red")
    row = bench.world.find()[0]
    bench.world.update(row.type, row.id, inputs=row.inputs | {"color": "blue"}, outputs=row.outputs | {"color": "blue"})
    read = bench.call("Read", pb.ReadRequest(id=identity, urn=row.urn, properties=outputs, inputs=inputs))
    assert plain(read.inputs)["color"] == plain(read.properties)["color"] == "blue"


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


def test_an_update_of_what_is_gone_says_how_to_go_on(bench: Bench) -> None:
    identity, inputs, outputs = made(bench, size=3)
    bench.world.delete(BOX, identity)
    request = pb.UpdateRequest(urn=urn(BOX, "mine"), id=identity, olds=outputs, news=inputs, old_inputs=inputs)
    assert refused(bench, "Update", request) == (
        f"{BOX}: {identity} does not exist any more\n"
        "  hint: pulumi-sandbox refresh --stack dev takes it out of the state"
    )


def test_an_update_by_another_stack_takes_the_row_over(bench: Bench) -> None:
    identity, inputs, outputs = made(bench, size=3)
    other = urn(BOX, "theirs", "prod")
    bench.call("Update", pb.UpdateRequest(urn=other, id=identity, olds=outputs, news=inputs, old_inputs=inputs))
    assert [(row.name, row.stack) for row in bench.world.find()] == [("theirs", "toys/prod")]


def test_delete_removes_the_row_unless_the_vendor_refuses(bench: Bench) -> None:
    identity, inputs, outputs = made(bench, size=3, label="keep")
    request = pb.DeleteRequest(id=identity, urn=urn(BOX, "mine"), properties=outputs, old_inputs=inputs)
    assert refused(bench, "Delete", request) == "deletion protection is on"
    assert len(bench.world.find()) == 1
    del request.properties.fields["label"]
    bench.call("Delete", request)
    assert bench.world.find() == []
    assert bench.cloud.happened == ["created mine", "deleted mine"]


def test_a_name_that_is_taken_is_refused(bench: Bench) -> None:
    made(bench, size=1, name="n")
    request = pb.CreateRequest(urn=urn(BOX, "other"), properties=struct(size=1, name="n"))
    assert refused(bench, "Create", request) == f"{BOX}: boxes/n already exists"


def test_what_it_refers_to_must_exist(bench: Bench) -> None:
    request = pb.CreateRequest(urn=urn(SHELF, "s"), properties=struct(box="boxes/n"))
    assert refused(bench, "Create", request) == "Error 404: the box boxes/n was not found"
    assert bench.world.find() == []
    made(bench, size=1, name="n")
    assert bench.call("Create", request).id == "shelf"


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


# -- Diff


def test_diff_says_update_or_replace_from_the_clouds_table(bench: Bench) -> None:
    request = pb.DiffRequest(
        urn=urn(BOX, "mine"),
        old_inputs=struct(size=1, color="red", label="A", name="x"),
        news=struct(size=2, color="blue", label="a", name="x"),
    )
    answer = bench.call("Diff", request)
    kinds = {path: pb.PropertyDiff.Kind.Name(one.kind) for path, one in answer.detailedDiff.items()}
    assert kinds == {"size": "UPDATE", "color": "UPDATE_REPLACE"}
    assert list(answer.replaces) == ["color"]


def test_a_replacement_that_keeps_a_name_of_the_programs_own_deletes_first(bench: Bench) -> None:
    def delete_first(old: str, new: str, defaults: list[str]) -> bool:
        request = pb.DiffRequest(
            urn=urn(BOX, "mine"),
            old_inputs=struct(color="red", name=old, __defaults=defaults),
            news=struct(color="blue", name=new, __defaults=defaults),
        )
        return bool(bench.call("Diff", request).deleteBeforeReplace)

    assert delete_first("n", "n", []) is True
    assert delete_first("n", "m", []) is False
    assert delete_first("n-1", "n-1", ["name"]) is False


def test_a_type_without_a_table_is_told_once(bench: Bench) -> None:
    request = pb.DiffRequest(urn=urn(SHELF, "s"), old_inputs=struct(box="a"), news=struct(box="b"))
    for _ in range(2):
        assert list(bench.call("Diff", request).replaces) == []
    assert bench.said == [
        (f"{SHELF}: only its shape is checked; no table says which change replaces it", "info", urn(SHELF, "s"))
    ]


def test_ignored_changes_are_none(bench: Bench) -> None:
    request = pb.DiffRequest(
        urn=urn(BOX, "mine"), old_inputs=struct(size=1), news=struct(size=2), ignoreChanges=["size"]
    )
    assert bench.call("Diff", request).changes == pb.DiffResponse.DIFF_NONE


# -- faults


def test_a_planted_refusal_comes_before_anything_is_made(bench: Bench) -> None:
    bench.world.plant(Fault("refuse", on=BOX, message="403: no"))
    bench.world.plant(Fault("quota", on="mine"))
    request = pb.CreateRequest(urn=urn(BOX, "mine"), properties=struct(size=1, name="n"))
    assert refused(bench, "Create", request) == "403: no"
    assert refused(bench, "Create", request) == "quota exceeded (a planted fault)"
    assert bench.world.find() == []
    assert bench.call("Create", request).id == "boxes/n"


def test_a_fault_the_type_has_no_part_in_is_left_for_others(bench: Bench) -> None:
    bench.world.plant(Fault("stockout"))
    made(bench, size=1)
    assert [fault.kind for fault in bench.world.faults()] == ["stockout"]


def test_a_crash_comes_after_the_row_and_before_the_answer(bench: Bench) -> None:
    bench.world.plant(Fault("crash"))
    with pytest.raises(Died):
        bench.call("Create", pb.CreateRequest(urn=urn(BOX, "mine"), properties=struct(size=1, name="n")))
    assert [row.id for row in bench.world.find()] == ["boxes/n"]
    assert bench.world.faults() == []


def test_a_slow_create_ends_at_once_when_the_engine_cancels(bench: Bench) -> None:
    bench.world.plant(Fault("slow", seconds=3600))
    told: list[str] = []
    request = pb.CreateRequest(urn=urn(BOX, "mine"), properties=struct(size=1, name="n"))
    waiting = threading.Thread(target=lambda: told.append(refused(bench, "Create", request)))
    waiting.start()
    while not bench.said:
        waiting.join(0.01)
    bench.call("Cancel", empty_pb2.Empty())
    waiting.join(60)
    assert told == ["stopped while it waited, as was asked"]
    assert bench.said == [("slow (a planted fault): 3600 s more", "status", urn(BOX, "mine"))]
    assert bench.world.find() == []


# -- lookups, configuration and errors


def test_a_lookup_answers_and_hides_what_repeats_a_secret_argument(bench: Bench) -> None:
    request = pb.InvokeRequest(tok="gcp:toys/double:double", args=struct({("note",)}, value=4, note="a secret note"))
    decoded = decode(getattr(bench.call("Invoke", request), "return"))
    assert decoded.values == {"result": 8, "echo": "a secret note"}
    assert decoded.secrets == {("echo",)}


def test_a_lookup_without_an_answer_says_how_to_add_one(bench: Bench) -> None:
    text = refused(bench, "Invoke", pb.InvokeRequest(tok="gcp:toys/none:none"))
    assert text == "gcp:toys/none:none: no answer is known\n  hint: add one to sandbox.yaml"


def test_a_lookup_of_something_unknown_is_not_answered_yet(bench: Bench) -> None:
    request = pb.InvokeRequest(tok="gcp:toys/double:double", args=struct(value=UNKNOWN, note=""))
    assert not bench.call("Invoke", request).HasField("return")


def test_the_configuration_reaches_the_resources(bench: Bench) -> None:
    bench.call("Configure", pb.ConfigureRequest(args=struct({("token",)}, project="p", token="t", zone=UNKNOWN)))
    assert bench.context.config == {"project": "p", "token": "t"}
    res = bench.servicer.life.resource(urn(BOX, "mine"), decode(struct(size=1)))
    assert res.config == {"project": "p", "token": "t"}
    assert (res.project, res.stack, res.token, res.name) == ("toys", "dev", BOX, "mine")


def test_a_wrong_key_of_the_configuration_is_told(bench: Bench) -> None:
    answer = bench.call("CheckConfig", pb.CheckRequest(news=struct(projct="p")))
    assert [(one.property, one.reason) for one in answer.failures] == [
        ("projct", "no such property\n  hint: did you mean 'project'?")
    ]


def test_a_changed_configuration_replaces_no_provider(bench: Bench) -> None:
    answer = bench.call("DiffConfig", pb.DiffRequest(old_inputs=struct(project="a"), news=struct(project="b")))
    assert (list(answer.diffs), list(answer.replaces)) == (["project"], [])


def test_the_engine_is_told_what_the_provider_takes(bench: Bench) -> None:
    hands = bench.call("Handshake", pb.ProviderHandshakeRequest())
    assert (hands.accept_secrets, hands.accept_resources, hands.accept_outputs) == (True, False, False)
    configured = bench.call("Configure", pb.ConfigureRequest())
    assert configured.acceptSecrets
    assert configured.supportsPreview
    assert bench.call("GetPluginInfo", empty_pb2.Empty()).version == version("pulumi-gcp")


def test_a_fault_of_ours_is_a_short_note_and_its_traceback_goes_to_the_log(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    request = pb.CreateRequest(urn=urn(BOX, "mine"), properties=struct(size=1, name="n", color="boom"))
    with caplog.at_level(logging.ERROR):
        text = refused(bench, "Create", request)
    assert text == (
        "pulumi-sandbox: Create went wrong inside the offline provider (ZeroDivisionError)\n"
        "  hint: please report it, with logs/gcp.log in the sandbox's folder"
    )
    assert "Traceback" in caplog.text
    assert "Traceback" not in text


def test_a_secret_that_was_plain_before_is_an_update(bench: Bench) -> None:
    request = pb.DiffRequest(urn=urn(BOX, "mine"), old_inputs=struct(label="x"), news=struct({("label",)}, label="x"))
    assert dict(bench.call("Diff", request).detailedDiff).keys() == {"label"}


def test_what_the_engine_sees_of_a_preview_is_its_own_sentinel(bench: Bench) -> None:
    tree = json_format.MessageToDict(
        bench.create(struct({("password",)}, size=1, password=UNKNOWN), preview=True).properties
    )
    assert tree["link"] == UNKNOWN_STRING
    assert tree["password"] == {SIGNATURE: SECRET, "value": UNKNOWN_STRING}
