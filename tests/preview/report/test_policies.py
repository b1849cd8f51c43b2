"""Tests of policy violations in the engine's events. The lines come from the real engine, shortened."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gpu_preview.model import Violation
from gpu_preview.report.policies import violations

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
