"""What is made of a digest and of the engine's log, for a reviewer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpu_preview.digest import parse
from gpu_preview.judge import Files, judged
from gpu_preview.report import Stack, Violation

from tests.preview.reports import stack

STACK = "urn:pulumi:dev::p::pulumi:pulumi:Stack::p-dev"
SAME, MOVED, UPDATED = (f"urn:pulumi:dev::p::a:b/c:D::{name}" for name in ("same", "moved", "updated"))
SEALED = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "ciphertext": "[secret]"}


def step(op: str, urn: str, before: Any, after: Any, was: str = "") -> dict[str, Any]:
    sides = {"oldState": {"urn": was or urn, "inputs": before}, "newState": {"urn": urn, "inputs": after}}
    for side in sides.values():
        side["type"] = urn.split("::")[2]
    return {"op": op, "urn": urn, **sides}


def advice(urn: str, level: str = "advisory") -> Violation:
    return Violation(policy="p", pack="x", level=level, text=urn, urn=urn)  # type: ignore[arg-type]


def ask(tmp_path: Path, violations: tuple[Violation, ...] = (), **outputs: Any) -> Stack:
    steps = [
        step("same", STACK, {}, {}),
        step("same", SAME, {"a": 1}, {"a": 1}),
        step("same", MOVED, {"a": 1}, {"a": 1}, was=f"{MOVED}-once"),
        step("update", UPDATED, {"a": 1}, {"a": 2}),
    ]
    metadata = {"type": "pulumi:pulumi:Stack", **{side: {"outputs": told} for side, told in outputs.items()}}
    log = tmp_path / "events"
    log.write_text(json.dumps({"resOutputsEvent": {"metadata": metadata}}) + "\n")
    given = stack("dev", violations=violations, policies="asked: x")
    return judged(given, parse(json.dumps({"steps": steps})), Files("", tmp_path, "", None, None), events=log)


def test_advice_on_what_stays_as_it_is_is_left_out_and_counted(tmp_path: Path) -> None:
    given = (advice(SAME), advice(MOVED), advice(UPDATED), advice(SAME, "mandatory"))
    found = ask(tmp_path, given)
    assert [(each.urn, each.level) for each in found.violations] == [
        (MOVED, "advisory"),
        (UPDATED, "advisory"),
        (SAME, "mandatory"),
    ]
    assert found.policies == "asked: x; 1 piece of advice left out, on what this change leaves alone"


def test_a_stack_output_that_is_secret_no_longer_is_a_danger_by_the_log_alone(tmp_path: Path) -> None:
    found = ask(tmp_path, old={"key": SEALED, "kept": SEALED}, new={"key": "hunter2", "kept": SEALED})
    assert [each.text for each in found.findings] == ["Stack outputs: key was secret and is plain now"]
    assert [(each.path, each.before) for each in found.outputs] == [("key", "[secret]")]
    assert "hunter2" not in found.model_dump_json()


def test_a_stack_whose_outputs_are_the_same_has_none_that_differ(tmp_path: Path) -> None:
    assert ask(tmp_path, old={"key": 1}, new={"key": 1}).outputs == ()
