"""Tests of the conversion of the engine's digest into resources of a report."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gpu_preview.engine.digest import DigestError, of_state, parse
from gpu_preview.engine.digest_steps import type_of
from gpu_preview.model import Counts, Operation

from tests.conftest import ROOT as REPOSITORY

SANDBOX = REPOSITORY / "sandbox" / "pulumi_sandbox"
ROOT = "urn:pulumi:s::p::pulumi:pulumi:Stack::p-s"
POOL = "urn:pulumi:s::p::gpu-ci:gcp:RunnerPool::l4"
GROUP = "urn:pulumi:s::p::gpu-ci:gcp:RunnerPool$gcp:compute/group:Group::l4-group"
BUCKET = "urn:pulumi:s::p::gcp:storage/bucket:Bucket::logs"


def step(op: str, urn: str, old: dict[str, Any] | None = None, new: dict[str, Any] | None = None, **more: Any) -> Any:
    states = {
        name: {"urn": urn, **state} for name, state in (("oldState", old), ("newState", new)) if state is not None
    }
    return {"op": op, "urn": urn, **states, **more}


def read(*steps: Any, diagnostics: Any = ()) -> Any:
    return parse(json.dumps({"steps": list(steps), "diagnostics": list(diagnostics)}))


@pytest.mark.parametrize(
    ("op", "operation"),
    [
        ("create", Operation.CREATE),
        ("import", Operation.CREATE),
        ("update", Operation.UPDATE),
        ("replace", Operation.REPLACE),
        ("create-replacement", Operation.REPLACE),
        ("delete", Operation.DELETE),
        ("same", Operation.SAME),
        ("read", Operation.SAME),
    ],
)
def test_an_operation_of_the_engine_is_one_of_five(op: str, operation: Operation) -> None:
    [found] = read(step(op, BUCKET, {"inputs": {}}, {"inputs": {}})).resources
    assert (found.operation, found.urn, found.type, found.name) == (
        operation,
        BUCKET,
        "gcp:storage/bucket:Bucket",
        "logs",
    )


def test_a_replacement_in_three_steps_is_one() -> None:
    found = read(
        step("create-replacement", BUCKET, {"inputs": {}}, {"inputs": {}}),
        step("replace", BUCKET, {"inputs": {"a": 1}}, {"inputs": {"a": 2}}, replaceReasons=["a"]),
        step("delete-replaced", BUCKET, {"inputs": {}}),
    )
    assert [(each.operation, each.replaced_for) for each in found.resources] == [(Operation.REPLACE, ("a",))]
    assert found.counts == Counts(replace=1)


def test_the_stack_and_default_providers_are_no_resources_of_a_cloud() -> None:
    default = "urn:pulumi:s::p::pulumi:providers:gcp::default_10_2_0"
    named = "urn:pulumi:s::p::pulumi:providers:gcp::other"
    found = read(*(step("create", urn, None, {"inputs": {}}) for urn in (ROOT, default, named)))
    assert [each.urn for each in found.resources] == [named]


def test_a_resource_belongs_to_the_topmost_component_above_it() -> None:
    inner = "urn:pulumi:s::p::gpu-ci:gcp:RunnerPool$x:y:Z$gcp:a/b:B::deep"
    middle = "urn:pulumi:s::p::gpu-ci:gcp:RunnerPool$x:y:Z::middle"
    found = read(
        step("same", ROOT, None, {}),
        step("same", POOL, None, {"parent": ROOT}),
        step("create", GROUP, None, {"parent": POOL, "dependencies": [BUCKET]}),
        step("same", middle, None, {"parent": POOL}),
        step("same", inner, None, {"parent": middle}),
        step("same", BUCKET, None, {"parent": ROOT}),
    )
    relations = {each.name: (each.component, each.parent, each.depends_on) for each in found.resources}
    assert relations == {
        "l4": ("l4", "", ()),
        "l4-group": ("l4", POOL, (BUCKET,)),
        "middle": ("l4", POOL, ()),
        "deep": ("l4", middle, ()),
        "logs": ("", "", ()),
    }


def test_another_urn_before_is_a_move() -> None:
    was = BUCKET.replace("logs", "old-logs")
    same = step("same", BUCKET, {}, {})
    same["oldState"]["urn"] = was
    found = read(same)
    assert [each.moved_from for each in found.resources] == [was]
    assert (found.counts.same, found.counts.moved) == (1, 1)


def test_errors_and_warnings_are_reported_once() -> None:
    found = read(
        diagnostics=[
            {"severity": "warning", "message": "old\n", "urn": BUCKET},
            {"severity": "warning", "message": "old\n", "urn": BUCKET},
            {"severity": "error", "message": "broken\n"},
            {"severity": "error", "message": "broken"},
            {"severity": "info", "message": "hello"},
        ]
    )
    assert [each.message for each in found.warnings] == ["old\n"]
    assert found.errors == ["broken"]


def test_that_the_program_ended_is_reported_only_where_nothing_else_is() -> None:
    ended = {"severity": "error", "message": "an unhandled error occurred: program exited with non-zero exit code: 1"}
    assert read(diagnostics=[ended]).errors == [ended["message"]]
    assert read(diagnostics=[{"severity": "error", "message": "why"}, ended]).errors == ["why"]


@pytest.mark.parametrize(
    "text", ["", "error: no such stack", "[]", '{"steps": 4}', "[" * 100_000, "{}", '{"a": 1}', '{"steps": null}']
)
def test_a_text_that_is_no_digest_is_refused(text: str) -> None:
    with pytest.raises(DigestError, match="is not what `pulumi preview --json` prints"):
        parse(text)


def test_a_state_is_its_resources_as_they_are() -> None:
    states = [{"urn": urn, "type": type_of(urn), "parent": ROOT} for urn in (ROOT, BUCKET)]
    found = of_state(json.dumps({"version": 3, "deployment": {"resources": states}}))
    assert [(each.urn, each.operation) for each in found] == [(BUCKET, Operation.SAME)]
    assert [of_state(text) for text in ("", "[]", "{}", '{"deployment": {"resources": null}}')] == [()] * 4


def test_a_secret_that_is_plain_from_now_on_is_an_update_though_the_engine_calls_it_the_same() -> None:
    sides = ({"inputs": {"labels": {"k": each, "other": "a"}}} for each in ("[secret]", "x"))
    found = read(step("same", BUCKET, *sides))
    [resource] = found.resources
    assert resource.operation == Operation.UPDATE
    assert [(each.path, each.before, each.after) for each in resource.properties] == [
        ("labels.k", "[secret]", "[was secret, not shown]")
    ]
    assert found.counts.update == 1


def of_type(operation: str, key: str, type_: str = "aws:rds/instance:Instance") -> dict[str, Any]:
    diff = {"detailedDiff": {key: {"kind": "update", "inputDiff": True}}}
    return step(operation, f"urn:pulumi:s::p::{type_}::{key}", {"inputs": {key: 1}}, {"inputs": {key: 2}}, **diff)


def test_an_update_of_a_type_that_the_sandbox_knows_by_its_shape_alone_may_be_a_replacement() -> None:
    """The message is the sandbox's own (providers/lifecycle.py), once for each type. Tags force no replacement."""
    note = "aws:rds/instance:Instance: only its shape is checked; a change replaces it only if its SDK says so"
    assert note.partition("only")[2][:21] in (SANDBOX / "providers" / "lifecycle.py").read_text()
    document = {
        "steps": [
            of_type("update", "engine"),
            of_type("update", "size"),
            of_type("update", "tags"),
            of_type("same", "other"),
            of_type("replace", "zone"),
            of_type("update", "known", "aws:ec2/vpc:Vpc"),
        ],
        "diagnostics": [{"severity": "info", "message": note, "urn": "any"}],
    }
    found = parse(json.dumps(document))
    assert [each.name for each in found.resources if each.may_replace] == ["engine", "size"]
    assert (found.counts.update, found.counts.may_replace) == (4, 2)
    assert found.warnings == []


def test_a_deleted_resource_is_marked_if_it_stays_in_the_cloud() -> None:
    [resource] = read(step("delete", BUCKET, {"inputs": {}, "retainOnDelete": True})).resources
    assert resource.retained
    new = {"inputs": {}, "retainOnDelete": True}  # which keeps the next one, and not the one that goes now
    [resource] = read(step("replace", BUCKET, {"inputs": {}}, new)).resources
    assert not resource.retained


def test_an_external_resource_is_not_listed_if_the_stack_stops_reading_it() -> None:
    other = "urn:pulumi:s::p::a:b/c:D::e"
    found = read(
        step("discard", BUCKET, {"inputs": {}}), step("read-replacement", other, {"inputs": {}}, {"inputs": {}})
    )
    assert found.resources == ()


def test_resources_that_a_digest_counts_without_a_step_are_unchanged() -> None:
    """The digest is made without --show-sames. Its summary counts the stack itself."""
    some = parse(json.dumps({"steps": [step("create", BUCKET, None, {"inputs": {}})], "changeSummary": {"same": 8}}))
    assert (some.counts.create, some.counts.same) == (1, 7)
    none = parse(json.dumps({"changeSummary": {"same": 8}}))
    assert (none.counts.same, none.resources) == (7, ())
    new = {"steps": [step("create", ROOT, None, {"inputs": {}})], "changeSummary": {"same": 1, "create": 1}}
    assert parse(json.dumps(new)).counts.same == 1
    listed = {"steps": [step("same", ROOT, {}, {}), step("same", BUCKET, {}, {})], "changeSummary": {"same": 8}}
    assert parse(json.dumps(listed)).counts.same == 1
    for count in (-1, 10**9, True, "8"):
        with pytest.raises(DigestError, match="changeSummary: value error, each operation should have a valid count"):
            parse(json.dumps({"changeSummary": {"same": count}}))
