"""Tests of the analysis of a digest and of the engine's event log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpu_common import pulumi_wire
from gpu_preview.engine.digest import parse
from gpu_preview.model import Place, Stack, Violation
from gpu_preview.report.analysis import analyze
from gpu_preview.report.locations import SourceFiles

from tests.preview.report.test_locations import program
from tests.preview.reports import stack

STACK = "urn:pulumi:dev::p::pulumi:pulumi:Stack::p-dev"
SAME, MOVED, UPDATED = (f"urn:pulumi:dev::p::a:b/c:D::{name}" for name in ("same", "moved", "updated"))
SEALED = {pulumi_wire.SIGNATURE: pulumi_wire.SECRET, "ciphertext": "[secret]"}


def step(op: str, urn: str, before: Any, after: Any, was: str = "") -> dict[str, Any]:
    sides = {"oldState": {"urn": was or urn, "inputs": before}, "newState": {"urn": urn, "inputs": after}}
    for side in sides.values():
        side["type"] = urn.split("::")[2]
    return {"op": op, "urn": urn, **sides}


def files(folder: Path) -> SourceFiles:
    return SourceFiles("", folder, "", None, None, folder)


def advice(urn: str, level: str = "advisory") -> Violation:
    return Violation(policy="p", pack="x", level=level, text=urn, urn=urn)  # type: ignore[arg-type]


def ask(tmp_path: Path, violations: tuple[Violation, ...] = (), **outputs: Any) -> Stack:
    steps = [
        step("same", STACK, {}, {}),
        step("same", SAME, {"a": 1}, {"a": 1}),
        step("same", MOVED, {"a": 1}, {"a": 1}, was=f"{MOVED}-once"),
        step("update", UPDATED, {"a": 1}, {"a": 2}),
    ]
    metadata = {"type": "pulumi:pulumi:Stack", **{side: {"outputs": values} for side, values in outputs.items()}}
    log = tmp_path / "events"
    log.write_text(json.dumps({"resOutputsEvent": {"metadata": metadata}}) + "\n")
    given = stack("dev", violations=violations, policies="ran x")
    return analyze(
        given, parse(json.dumps({"steps": steps})), SourceFiles("", tmp_path, "", None, None, tmp_path), log, None
    )


def test_advice_on_what_stays_as_it_is_is_left_out(tmp_path: Path) -> None:
    given = (advice(SAME), advice(MOVED), advice(UPDATED), advice(SAME, "mandatory"))
    found = ask(tmp_path, given)
    assert [(each.urn, each.level) for each in found.violations] == [
        (MOVED, "advisory"),
        (UPDATED, "advisory"),
        (SAME, "mandatory"),
    ]


def test_a_danger_stands_where_the_change_is_and_a_policy_and_a_warning_at_the_pool(tmp_path: Path) -> None:
    head, base = program(tmp_path / "head"), program(tmp_path / "base")
    pool, rule = "urn:pulumi:dev::p::my:own:Pool::l4", "urn:pulumi:dev::p::gcp:compute/firewall:Firewall::ssh"
    open_to = {"direction": "INGRESS", "allows": [{"protocol": "tcp", "ports": ["22"]}]}
    sides = [{**open_to, "sourceRanges": [one]} for one in ("10.0.0.0/8", "0.0.0.0/0")]
    opened = step("update", rule, *sides)
    for side in ("oldState", "newState"):
        opened[side] |= {"parent": pool, "sourcePosition": "project:///infra/pools.py#55"}
    stack_files = []
    for name in ("old.yaml", "new.yaml"):
        (tmp_path / name).write_text("config:\n  gpu-ci:pools:\n    l4: {}\n")
        stack_files.append(tmp_path / name)
    warning = {"severity": "warning", "message": "old", "urn": rule}
    document = {"steps": [step("same", pool, {}, {}), opened], "diagnostics": [warning]}
    given = stack("dev", violations=(advice(rule),))
    (tmp_path / "log").touch()
    sources = SourceFiles("Pulumi.dev.yaml", head, "", stack_files[0], stack_files[1], base)
    found = analyze(given, parse(json.dumps(document)), sources, tmp_path / "log", None)
    at = {each.rule: each.place for each in found.findings}
    in_file = Place(file="Pulumi.dev.yaml", line=3, end_line=3)
    assert (at["public"], at["warning"]) == (Place(file="infra/pools.py", line=55, end_line=55), in_file)
    assert [each.place for each in found.violations] == [in_file]


def test_a_stack_output_that_is_secret_no_longer_is_a_danger_by_the_log_alone(tmp_path: Path) -> None:
    found = ask(tmp_path, old={"key": SEALED, "kept": SEALED}, new={"key": "hunter2", "kept": SEALED})
    assert [each.text for each in found.findings] == ["Stack outputs: key was secret and is plain now"]
    assert [(each.path, each.before) for each in found.outputs] == [("key", "[secret]")]
    assert "hunter2" not in found.model_dump_json()


def outputs(tmp_path: Path, *steps: dict[str, Any]) -> list[tuple[str, str | None]]:
    """Return the outputs in the report if one is new and has an unknown value."""
    unknown = {"key": pulumi_wire.UNKNOWN_STRING}
    metadata = {"type": "pulumi:pulumi:Stack", "old": {"outputs": {}}, "new": {"outputs": unknown}}
    log = tmp_path / "events"
    log.write_text(json.dumps({"resOutputsEvent": {"metadata": metadata}}) + "\n")
    found = parse(json.dumps({"steps": [step("same", STACK, {}, {}), *steps]}))
    judgement = analyze(stack("dev"), found, files(tmp_path), log, None)
    return [(each.path, each.after) for each in judgement.outputs]


def test_an_unknown_new_output_is_reported_where_a_resource_is_made_that_it_can_be_of(tmp_path: Path) -> None:
    moved, updated = step("same", MOVED, {}, {}, was=f"{MOVED}-once"), step("update", UPDATED, {"a": 1}, {"a": 2})
    assert outputs(tmp_path, moved, updated) == []
    for op in ("create", "replace"):
        assert outputs(tmp_path, moved, updated, step(op, SAME, {}, {})) == [("key", "(unknown)")]
