"""Tests of the limits on input that would need much memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gpu_preview import json_text
from gpu_preview.engine import digest, events
from gpu_preview.engine.digest import DigestTooLargeError
from gpu_preview.json_text import TooMuchError

LARGER = "is larger than any real preview: "


def test_json_of_more_parts_than_anybodys_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert json_text.read("[" + "{}," * 400_000 + "0]")[-1] == 0

    def parsed(*_: object, **__: object) -> None:
        raise AssertionError("it was parsed")

    monkeypatch.setattr(json_text.json, "loads", parsed)
    for part in ("{},", "[],", "1,", '"[[",'):
        with pytest.raises(TooMuchError, match="it has more than 1,000,000 elements"):
            json_text.read("[" + part * 1_000_000 + "0]")


@pytest.mark.parametrize(("sign", "width"), [("a", 1), ("é", 2), ("\U0001f600", 4)])
def test_a_file_is_measured_as_memory_holds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sign: str, width: int
) -> None:
    text = json.dumps(sign + "a" * 1000, ensure_ascii=False)
    (tmp_path / "file").write_text(text, encoding="utf-8")
    monkeypatch.setattr(json_text, "MAX_MIB", len(text.encode()) * width / 1024**2)
    assert json_text.read_file(tmp_path / "file") == sign + "a" * 1000
    monkeypatch.setattr(json_text, "MAX_MIB", (len(text.encode()) * width - 1) / 1024**2)
    with pytest.raises(TooMuchError, match=r"its text takes more than .* MiB of memory"):
        json_text.read_file(tmp_path / "file")


@pytest.mark.parametrize("part", ["steps", "diagnostics"])
def test_a_digest_of_more_steps_or_words_than_anybodys_is_refused(part: str) -> None:
    with pytest.raises(DigestTooLargeError) as refused:
        digest.parse(json.dumps({"steps": [], part: [{}] * 20_001}))
    assert str(refused.value) == f"{LARGER}{part}: got 20,001\n  expected: 20,000 at most"
    assert digest.too_many({"steps": [{}] * 20_000, "diagnostics": 7}) == ""


@pytest.mark.parametrize(
    "step",
    [
        {"op": "create", "newState": {"inputs": {str(at): 1 for at in range(7)}}},
        {"op": "update", "oldState": {"inputs": {}}, "newState": {"inputs": {str(at): 1 for at in range(7)}}},
        {"op": "update", "oldState": {"inputs": {"a": "[{}]"}}, "newState": {"inputs": {"a": "[1,2,3,4,5,6,7]"}}},
        {"op": "update", "detailedDiff": {str(at): {} for at in range(7)}},
    ],
)
def test_no_more_properties_than_a_report_holds_are_reported(step: object, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(step, dict)
    one, two = ({**step, "urn": f"urn:pulumi:s::p::a:b:C::{name}"} for name in ("one", "two"))
    monkeypatch.setattr(digest, "_MAX_CHANGES", 14)
    assert sum(len(each.properties) for each in digest.parse(json.dumps({"steps": [one, two]})).resources) == 14
    monkeypatch.setattr(digest, "_MAX_CHANGES", 13)
    with pytest.raises(DigestTooLargeError, match=f"{LARGER}more properties differ than a report holds"):
        digest.parse(json.dumps({"steps": [one, two]}))


def test_a_line_of_parents_without_an_end_is_followed_only_so_far() -> None:
    steps = [{"op": "same", "urn": f"u{at}", "newState": {"parent": f"u{at + 1}"}} for at in range(1_000)]
    found = {each.urn: each.component for each in digest.parse(json.dumps({"steps": steps})).resources}
    assert (found["u0"], found["u990"]) == ("u127", "u1000")


def test_a_log_that_says_more_of_policies_than_any_pack_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "events"
    log.write_text('{"policyEvent": {}}\n' * 5)
    monkeypatch.setattr(events, "_MAX_VIOLATIONS", 5)
    assert len(events.violations(log)[0]) == 5
    monkeypatch.setattr(events, "_MAX_VIOLATIONS", 4)
    with pytest.raises(TooMuchError, match="it has more than 4 policy violations"):
        events.violations(log)
    monkeypatch.setattr(events, "_MAX_EVENTS_MIB", 50 / 1024**2)
    with pytest.raises(TooMuchError, match="its events have more than"):
        events.violations(log)
