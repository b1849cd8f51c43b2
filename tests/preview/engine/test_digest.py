"""Tests of the conversion of the engine's digest into resources of a report."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from gpu_common import pulumi_wire
from gpu_preview import json_text
from gpu_preview.cli import output
from gpu_preview.engine import events
from gpu_preview.engine.digest import DigestError, of_state, parse
from gpu_preview.model import Counts, Operation
from gpu_preview.report import markdown
from gpu_preview.report.analysis import analyze, warnings
from gpu_preview.report.comment import CommentError, load_untrusted
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import ROOT as REPOSITORY
from tests.preview import reports

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


def test_that_the_program_ended_is_reported_only_where_nothing_else_is() -> None:
    ended = {"severity": "error", "message": "an unhandled error occurred: program exited with non-zero exit code: 1"}
    assert read(diagnostics=[ended]).errors == [ended["message"]]
    assert read(diagnostics=[{"severity": "error", "message": "why"}, ended]).errors == ["why"]


@pytest.mark.parametrize(
    "text",
    ["", "error: no such stack", "[]", '{"steps": 4}', "[" * 100_000, "{}", '{"a": 1}', '{"steps": null}',
     '{"steps": [1]}', '{"steps": [{"op": "same"}]}', '{"steps": [{"op": "x", "urn": "u"}]}',
     '{"steps": [{"op": "same", "urn": "u", "oldState": []}]}', '{"steps": [], "more": NaN}'],
)  # fmt: skip
def test_a_text_that_is_no_digest_is_refused(text: str) -> None:
    with pytest.raises(DigestError, match="is not what `pulumi preview --json` prints"):
        parse(text)


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


SECRET = "[secret]"
TOPIC = "urn:pulumi:s::p::gcp:bigquery/job:Job::j"
VM = "urn:pulumi:s::p::aws:ec2/instance:Instance::vm"


def unclear(urn: str, before: dict[str, Any], after: dict[str, Any], op: str = "update") -> Any:
    """Return the resource of a step whose type the sandbox knows only by its shape."""
    kind = urn.split("::")[2]
    diagnostic = {"severity": "info", "message": f"{kind}: only its shape is checked; more", "urn": urn}
    [found] = read(step(op, urn, {"inputs": before}, {"inputs": after}), diagnostics=[diagnostic]).resources
    return found


@pytest.mark.parametrize(
    ("urn", "before", "after", "expected"),
    [
        (BUCKET, {"name": "a"}, {"name": "b"}, True),
        (BUCKET, {"labels": {"a": "1"}}, {"labels": {"a": "2"}}, False),
        (BUCKET, {"labels": {"a": "1"}, "name": "a"}, {"labels": {"a": "2"}, "name": "b"}, True),
        (BUCKET, {"tags": {"a": "1"}}, {"tags": {"a": "2"}}, True),
        (TOPIC, {"labels": {"a": "1"}}, {"labels": {"a": "2"}}, True),
        (VM, {"tags": {"a": "1"}}, {"tags": {"a": "2"}}, False),
        (BUCKET, {"name": SECRET}, {"name": "b"}, False),
        (BUCKET, {}, {}, True),
    ],
)
def test_an_update_of_labels_or_of_secrecy_alone_is_no_replacement(
    urn: str, before: dict[str, Any], after: dict[str, Any], expected: bool
) -> None:
    assert unclear(urn, before, after).may_replace is expected


def test_a_replaced_external_resource_is_created_and_nothing_is_deleted() -> None:
    [found] = read(step("replace", BUCKET, {"inputs": {}, "external": True}, {"inputs": {}})).resources
    assert found.operation == Operation.CREATE


def test_an_imported_resource_is_reported_as_existing() -> None:
    found = read(step("import", BUCKET, None, {"inputs": {}}))
    assert (found.resources[0].operation, found.resources[0].imported) == (Operation.CREATE, True)
    assert [(each.rule, each.text) for each in warnings(found)] == [
        ("imported", "logs exists already and is imported: the stack manages it from now on, and nothing is created")
    ]
    assert not read(step("create", BUCKET, None, {"inputs": {}})).resources[0].imported


@pytest.mark.parametrize("order", [("delete", "create"), ("create", "delete")])
def test_the_worse_of_two_steps_on_one_resource_counts(order: tuple[str, str]) -> None:
    [found] = read(*(step(op, BUCKET, {"inputs": {}}, {"inputs": {}}) for op in order)).resources
    assert found.operation == Operation.DELETE


def test_a_summary_that_counts_what_no_step_tells_is_refused() -> None:
    with pytest.raises(DigestError):
        parse(json.dumps({"steps": [], "changeSummary": {"delete": 3}}))
    assert parse(json.dumps({"steps": [], "changeSummary": {"same": 3}})).resources == ()
    failed = {"steps": [], "changeSummary": {"create": 1}, "diagnostics": [{"severity": "error", "message": "x"}]}
    assert parse(json.dumps(failed)).errors == ["x"]


STACK = "urn:pulumi:s::p::pulumi:pulumi:Stack::p-s"
TEMPLATE = {"machineType": "g2-standard-8", "metadata": {"boot-script": "x"}, "policy": '{"a": [1, {"b": "c"}]}'}


def state(urn: str, **inputs: Any) -> dict[str, Any]:
    return {
        "urn": urn, "type": urn.split("$")[-1].split("::")[-2], "parent": STACK, "inputs": inputs, "outputs": inputs,
        "dependencies": [POOL], "protect": False,
    }  # fmt: skip


DIGEST: dict[str, Any] = {
    "steps": [
        {"op": "same", "urn": STACK, "oldState": state(STACK), "newState": state(STACK)},
        {"op": "create", "urn": POOL, "newState": state(POOL, **TEMPLATE)},
        {
            "op": "replace", "urn": GROUP, "oldState": state(GROUP, **TEMPLATE, size=1),
            "newState": state(GROUP, **TEMPLATE, size=2),
            "detailedDiff": {"size": {"kind": "update-replace", "inputDiff": True}, "policy": {"kind": "update"}},
            "diffReasons": ["size"], "replaceReasons": ["size"],
        },
        {"op": "delete", "urn": f"{GROUP}2", "oldState": state(f"{GROUP}2", **TEMPLATE)},
    ],
    "diagnostics": [{"severity": "warning", "message": "warning: old; hint: newer", "urn": POOL}],
}  # fmt: skip
EVENTS: list[dict[str, Any]] = [
    {"policyLoadEvent": {}},
    {"policyEvent": {"policyName": "p", "policyPackName": "k", "policyPackVersion": "1", "message": "no",
                     "enforcementLevel": "mandatory", "resourceUrn": POOL}},
    {"policyAnalyzeSummaryEvent": {"policyPackName": "k", "policyPackVersion": "1", "passed": ["p"], "failed": ["q"]}},
    {"resOutputsEvent": {"metadata": {"type": "pulumi:pulumi:Stack", "old": {"outputs": {"a": 1}},
                                      "new": {"outputs": {"a": 2, "b": "[1]"}}}}},
]  # fmt: skip

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["[secret]", pulumi_wire.UNKNOWN_STRING, "\ud800", '{"\\ud800": "\\udc00"}', "[NaN]"])
)
KEYS = st.text(max_size=4) | st.sampled_from(["urn", "__defaults", "inputs", "name", 'a"b', "a.b", "\ud800"])
ANYTHING = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3))
ANY_EXAMPLE = settings(
    max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, part in parts for place in places(part, (*path, key)))]


def put(value: Any, path: tuple[str | int, ...], part: Any) -> Any:
    if not path:
        return part
    found = copy.deepcopy(value)
    inside = found
    for step in path[:-1]:
        inside = inside[step]
    inside[path[-1]] = part
    return found


def error_of(folder: Path, text: str) -> str:
    """Return all forms of the report, or the error."""
    (folder / "log").touch()
    try:
        report = reports.report(analyze(reports.stack(), parse(text), None, None, folder / "log", None))
    except DigestError as error:
        return str(error)
    forms = [markdown.render(report), output.to_json(report)]
    return "".join(form.encode().decode() for form in forms)


@ANY_EXAMPLE
@given(st.sampled_from(places(DIGEST)), ANYTHING)
def test_any_value_at_any_path_of_a_digest_leads_to_a_report_or_an_error(
    tmp_path: Path, place: tuple[str | int, ...], value: Any
) -> None:
    assert error_of(tmp_path, json.dumps(put(DIGEST, place, value)))


@ANY_EXAMPLE
@given(st.sampled_from(places(EVENTS)[1:]), ANYTHING)
def test_any_value_at_any_path_of_the_event_log_is_read_or_left_out(
    tmp_path: Path, place: tuple[str | int, ...], value: Any
) -> None:
    log = tmp_path / "events"
    log.write_text("\n".join(map(json.dumps, put(EVENTS, place, value))), encoding="utf-8")
    broken, asked = events.violations(log)
    differing = events.outputs(log).differing(creates_resources=False)
    # Nothing in it is a sign that no file can hold.
    "".join([asked, *(each.text for each in broken), *(each.path for each in differing)]).encode()
    # One event that is of no form takes nothing from the others.
    if place[0] != 2:
        assert asked == "ran k 1 (2 rules)"
    if place[0] != 1:
        assert [(each.policy, each.pack, each.level, each.text, each.urn) for each in broken] == [
            ("p", "k", "mandatory", "no", POOL)
        ]
    if place[0] != 3:
        assert [(each.path, each.before, each.after) for each in differing] == [
            ("a", "1", "2"),
            ("b", None, '"[1]"'),
        ]


@ANY_EXAMPLE
@given(ANYTHING)
def test_any_value_is_no_report_and_a_state_with_what_it_has_of_one(tmp_path: Path, value: Any) -> None:
    (tmp_path / "report.json").write_text(json.dumps(value), encoding="utf-8")
    with pytest.raises(CommentError, match="is no report"):
        load_untrusted(tmp_path / "report.json")
    assert len(of_state(json.dumps({"deployment": {"resources": value}}))) <= len(json.dumps(value))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1, "a": 2}', {"a": 2}),
        ('"\\ud83d\\ude00"', "\U0001f600"),
        ('["\\ud800", {"\\uDC00": 1}]', ["?", {"?": 1}]),
        ("[" * 128 + "]" * 128, None),
    ],
)
def test_json_of_anybody_can_be_written_again(text: str, value: Any) -> None:
    found = json_text.read(text)
    assert json.dumps(found, ensure_ascii=False).encode()
    assert value is None or found == value


@pytest.mark.parametrize("text", ["[" * 129 + "]" * 129, "[" * 100_000, "NaN", "[-Infinity]", "", "{"])
def test_json_that_no_value_can_be_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        json_text.read(text)
