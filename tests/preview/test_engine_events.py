"""What the engine's log says of the outputs of a stack."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gpu_preview import engine_events
from gpu_preview.engine_events import outputs

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
    assert [(each.path, each.before, each.after) for each in outputs(log)] == [("max", "4", "12")]


def test_a_log_without_any_has_none(tmp_path: Path) -> None:
    (tmp_path / "events").write_text('{"resOutputsEvent": 4, "pulumi:pulumi:Stack": 1}\n[]\n')
    assert outputs(tmp_path / "events") == ()


def test_a_line_longer_than_any_event_is_passed_over_and_the_next_one_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_events, "LONGEST_LINE", 400)
    log = tmp_path / "events"
    told, long = event({"max": 4}, {"max": 12}), event({"max": 4}, {"max": "x" * 2_000})
    log.write_text(f"{told}\n{long}\n")
    assert [(each.path, each.after) for each in outputs(log)] == [("max", "12")]
    log.write_text(f"{long}\n{told}\n{'x' * 399}\n{'x' * 400}")
    assert [(each.path, each.after) for each in outputs(log)] == [("max", "12")]
