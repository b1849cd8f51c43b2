"""Tests of the outputs of a stack in the engine's event log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gpu_common import pulumi_wire
from gpu_preview.engine import events
from gpu_preview.engine.events import Outputs, outputs, violations
from gpu_preview.model import Violation

STACK = "pulumi:pulumi:Stack"


def event(old: dict[str, Any], new: dict[str, Any], kind: str = STACK) -> str:
    sides = {name: {"outputs": side} for name, side in (("old", old), ("new", new))}
    return json.dumps({"sequence": 1, "resOutputsEvent": {"metadata": {"type": kind, **sides}}})


def test_the_last_word_on_the_stack_counts(tmp_path: Path) -> None:
    log = tmp_path / "events"
    log.write_text(
        "\n".join([
            event({"max": 4}, {"max": 4}),
            event({"x": 1}, {"x": 2}, f"not {STACK}"),
            event({"max": 4, "key": "[secret]"}, {"max": 12, "key": "[secret]"}),
            "no JSON pulumi:pulumi:Stack resOutputsEvent",
        ])
    )  # fmt: skip
    assert [(each.path, each.before, each.after) for each in outputs(log).differing(creates_resources=False)] == [
        ("max", "4", "12")
    ]


def test_a_line_longer_than_any_event_is_passed_over_and_the_next_one_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "LONGEST_LINE_BYTES", 400)
    log = tmp_path / "events"
    short, long = event({"max": 4}, {"max": 12}), event({"max": 4}, {"max": "x" * 2_000})
    log.write_text(f"{short}\n{long}\n")
    assert [(each.path, each.after) for each in outputs(log).differing(creates_resources=True)] == [("max", "12")]
    log.write_text(f"{long}\n{short}\n{'x' * 399}\n{'x' * 400}")
    assert [(each.path, each.after) for each in outputs(log).differing(creates_resources=True)] == [("max", "12")]


WIRE = pulumi_wire.SIGNATURE
SEALED = {WIRE: pulumi_wire.SECRET, "ciphertext": "[secret]"}
UNKNOWN = pulumi_wire.UNKNOWN_STRING


def logged(tmp_path: Path, old: dict[str, Any], new: dict[str, Any]) -> Outputs:
    (tmp_path / "log").write_text(event(old, new))
    return outputs(tmp_path / "log")


def test_secrets_and_outputs_in_the_engines_own_form_are_read_as_in_its_digest(tmp_path: Path) -> None:
    known = {WIRE: pulumi_wire.OUTPUT}
    old = {"a": SEALED, "b": [{"c": SEALED}], "d": {**known, "value": "x", "secret": True}}
    new = {"a": "x", "b": {**known, "value": {"c": SEALED}}, "d": known}
    assert logged(tmp_path, old, new) == (
        {"a": "[secret]", "b": [{"c": "[secret]"}], "d": "[secret]"},
        {"a": "x", "b": {"c": "[secret]"}, "d": UNKNOWN},
    )


def test_a_secret_output_that_is_plain_now_shows_neither_the_value_nor_the_engines_form(tmp_path: Path) -> None:
    found = logged(tmp_path, {"k": SEALED, "o": SEALED, "s": SEALED}, {"k": "x", "o": {"a": [1]}, "s": SEALED})
    assert [(each.path, each.before, each.after) for each in found.differing(creates_resources=False)] == [
        ("k", "[secret]", "[was secret, not shown]"),
        ("o", "[secret]", "[was secret, not shown]"),
    ]


LOADING: dict[str, Any] = {"sequence": 0, "timestamp": 1, "policyLoadEvent": {}}
URN = "urn:pulumi:dev::p::gcp:storage/bucket:Bucket::assets"


def summary(key: str, pack: str = "gpu-ci", version: str = "0.1.0", **names: list[str]) -> dict[str, Any]:
    tag = f"{version}-tag"
    return {key: {"policyPackName": pack, "policyPackVersion": version, "policyPackVersionTag": tag, **names}}


def of_resource(**given: Any) -> dict[str, Any]:
    return summary("policyAnalyzeSummaryEvent", **given)


def of_stack(**given: Any) -> dict[str, Any]:
    return summary("policyAnalyzeStackSummaryEvent", **given)


def broken(level: str = "mandatory", policy: str = "required-labels", urn: str = URN) -> dict[str, Any]:
    expected = {
        "resourceUrn": urn,
        "message": "Labels are there.\nlabels has no team\n",
        "color": "never",
        "policyName": policy,
        "policyPackName": "gpu-ci",
        "policyPackVersion": "0.1.0",
        "enforcementLevel": level,
    }
    return {"policyEvent": {key: value for key, value in expected.items() if value}}


def read_events(folder: Path, *events: dict[str, Any], end: str = "") -> tuple[list[Violation], str]:
    log = folder / "events.json"
    log.write_text("".join(f"{json.dumps(event)}\n" for event in events) + end)
    return violations(log)


def test_a_violation_has_its_rule_its_pack_and_the_whole_text(tmp_path: Path) -> None:
    found, _ = read_events(tmp_path, LOADING, broken(), of_resource(failed=["required-labels"]))
    assert found == [
        Violation(
            policy="required-labels",
            pack="gpu-ci",
            level="mandatory",
            text="Labels are there.\nlabels has no team",
            urn=URN,
        )
    ]


@pytest.mark.parametrize(
    ("engines", "ours"),
    [("mandatory", "mandatory"), ("remediate", "mandatory"), ("advisory", "advisory"), ("warning", "advisory")],
)
def test_a_violation_that_fails_a_preview_is_mandatory(tmp_path: Path, engines: str, ours: str) -> None:
    [found], _ = read_events(tmp_path, broken(engines))
    assert found.level == ours


def test_every_pack_that_answered_is_named_with_its_version_and_how_many_rules_looked(tmp_path: Path) -> None:
    _, text = read_events(
        tmp_path,
        LOADING,
        of_resource(passed=["a", "b"]),
        of_resource(passed=["a"], failed=["c"]),
        of_stack(passed=["d"]),
        of_resource(pack="another", version="2.1.0", passed=["a"]),
        of_resource(pack="silent", version="3.0.0"),
    )
    assert text == "ran another 2.1.0 (1 rule), gpu-ci 0.1.0 (4 rules), silent 3.0.0 (0 rules)"


@pytest.mark.parametrize(
    ("events", "text"),
    [
        ([], "no policy pack was given"),
        ([{"preludeEvent": {}}, {"summaryEvent": {}}], "no policy pack was given"),
        ([LOADING, {"cancelEvent": {}}], "policy packs were requested, but none ran"),
    ],
)
def test_the_report_says_why_no_rule_ran(tmp_path: Path, events: list[dict[str, Any]], text: str) -> None:
    assert read_events(tmp_path, *events) == ([], text)
