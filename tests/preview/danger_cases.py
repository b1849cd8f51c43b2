"""Helpers that create a change of one resource and return the findings of the danger rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpu_common import pulumi_wire
from gpu_preview.engine.states import State
from gpu_preview.model import Finding, Operation, Resource
from gpu_preview.report.danger_rules import find

UNKNOWN = pulumi_wire.UNKNOWN_STRING
SECRET = "[secret]"
CREATE, UPDATE, REPLACE, DELETE, SAME = Operation


def urn(type_: str, name: str, parents: str = "") -> str:
    return f"urn:pulumi:dev::demo::{parents}{type_}::{name}"


def state(type_: str, name: str = "x", inputs: Mapping[str, Any] | None = None, **others: Any) -> State:
    return State(urn(type_, name), type_, inputs or {}, **others)


def resource(type_: str, operation: Operation, name: str = "x", component: str = "l4", **others: Any) -> Resource:
    given = {"urn": urn(type_, name), "type": type_, "name": name, "operation": operation, "component": component}
    return Resource(**{**given, **others})


def found(
    type_: str,
    operation: Operation,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    **others: Any,
) -> list[Finding]:
    """Return the findings on a change of one resource from its inputs in base and head. `others` are fields of both."""
    sides: Sequence[Mapping[str, Any] | None] = (
        None if operation == CREATE else before or {},
        None if operation == DELETE else after or {},
    )
    old, new = ({} if side is None else {urn(type_, "x"): state(type_, "x", side, **others)} for side in sides)
    return find(old, new, [resource(type_, operation)])


def texts(findings: Sequence[Finding]) -> list[str]:
    """Return each finding as `rule: text`."""
    return [f"{each.rule}: {each.text}" for each in findings]
