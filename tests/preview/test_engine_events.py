"""What the engine's log says of the outputs of a stack."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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
