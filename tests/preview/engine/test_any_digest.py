"""Property tests: any digest and any event log lead to a report or to an error message."""

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
from gpu_preview.report import annotations, markdown
from gpu_preview.report.analysis import analyze
from gpu_preview.report.comment import CommentError, load_untrusted
from gpu_preview.report.locations import SourceFiles
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.preview import reports

STACK = "urn:pulumi:s::p::pulumi:pulumi:Stack::p-s"
POOL = "urn:pulumi:s::p::gpu-ci:gcp:RunnerPool::l4"
GROUP = "urn:pulumi:s::p::gpu-ci:gcp:RunnerPool$gcp:compute/group:Group::l4-group"
TEMPLATE = {"machineType": "g2-standard-8", "metadata": {"boot-script": "x"}, "policy": '{"a": [1, {"b": "c"}]}'}


def state(urn: str, **inputs: Any) -> dict[str, Any]:
    return {
        "urn": urn, "type": urn.split("$")[-1].split("::")[-2], "parent": STACK, "inputs": inputs, "outputs": inputs,
        "dependencies": [POOL], "protect": False, "sourcePosition": "project:///infra/pools.py#55",
        "stackTrace": [{"sourcePosition": "project:///infra/pools.py#7"}],
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
ANY_EXAMPLE = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


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
    files = SourceFiles("Pulumi.staging.yaml", folder, "", None, None, folder)
    try:
        report = reports.report(analyze(reports.stack(), parse(text), files, folder / "log", None))
    except DigestError as error:
        return str(error)
    forms = [markdown.render(report), output.to_json(report), *annotations.render(report)]
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
