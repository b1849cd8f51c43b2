"""Adds hints to problems. If the validator gave no hint, the hint is an example of a valid value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from ..args import Args
from ..errors import Problem, in_yaml

_SECONDS = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
# One part of a path, such as pools in gpu-ci:pools.l4.
_STEP = re.compile(r"[^.\[\]\"]+")


def examples_of(args: type[Args], example: Mapping[str, Any]) -> dict[str, Any]:
    """Return an example value for every field: from `example`, from the examples of the field, or its default.

    If the default is None, the value is None. The hint of `with_hint` is then to omit the field.
    """
    values: dict[str, Any] = {}
    for field in args.model_fields.values():
        default = field.get_default()
        if default is not PydanticUndefined:
            is_model = isinstance(default, BaseModel)
            values[str(field.alias)] = default.model_dump(mode="json", by_alias=True) if is_model else default
        if field.examples:
            values[str(field.alias)] = field.examples[0]
    return values | dict(example)


def below(path: str, examples: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the examples below a path, by full path."""
    for step in reversed(_STEP.findall(path)):
        examples = {step: examples}
    return examples


def with_hint(problem: Problem, examples: Mapping[str, Any]) -> Problem:
    """Return the problem. If the problem has no hint, an example becomes its hint."""
    if "whole number" in problem.text and (number := _number(problem)):
        return replace(problem, hint=number)
    if problem.hint:
        return problem
    key, value = _nearest(problem.path, examples)
    if not key:
        return problem
    if problem.text == "must be text" and re.fullmatch(r"[\d.]+|True|False", problem.got):
        hint = f'write it in quotes: "{problem.got.lower()}"'
    elif value is None:
        hint = f"leave {key} out to get the default"
    elif within := _within_limits(problem, key):
        hint = within
    else:
        hint = f"such as {key}: {in_yaml(value)}"
    return replace(problem, hint=hint)


def _within_limits(problem: Problem, key: str) -> str:
    """Return a hint with a value that the problem names, or an empty text. The nearest example is that of `key`.

    If that is a map around the field, its example can be without the field.
    """
    field = _STEP.findall(problem.path)[-1]
    found = re.match(r"must be (?:one of '([^']+)'|at (?:least|most) (\d+)$)", problem.text)
    return f"such as {field}: {found[1] or found[2]}" if found and field != key else ""


def _number(problem: Problem) -> str:
    """Return a hint with the number of a text such as '600', '10m' or '100GB', or an empty text."""
    found = re.fullmatch(r"'(\d+) ?([A-Za-z]*)'", problem.got)
    key = problem.path.rpartition(".")[2]
    if not found:
        return ""
    number, unit = int(found[1]), found[2].lower()
    if not unit:
        return f"write it without quotes: {key}: {number}"
    if key.endswith("Sec") and unit in _SECONDS:
        return f"write it in seconds: {key}: {number * _SECONDS[unit]}"
    return f"write it in GiB: {key}: {number}" if key.endswith("Gib") and unit in ("g", "gi", "gb", "gib") else ""


def shape(value: Any) -> str:
    """Describe a misplaced value. Text is not shown, because it may be a secret."""
    if isinstance(value, Mapping):
        return "a map"
    if isinstance(value, list):
        return "a list"
    return "text" if isinstance(value, str) else "nothing" if value is None else repr(value)


def section(model: type[Args], path: str, value: Any) -> list[Problem]:
    """Return the problems of a key of a stack file whose value is a map."""
    if value is None:
        return []
    if not isinstance(value, Mapping):
        example = in_yaml(model.EXAMPLE) if hasattr(model, "EXAMPLE") else ""
        return [
            Problem(path, "must be a map", shape(value), (model.__doc__ or "").splitlines()[0], f"such as {example}")
        ]
    return section_problems(model, value, f"{path}.")


def section_problems(model: type[Args], value: Mapping[str, Any], prefix: str) -> list[Problem]:
    """Return the problems that a model finds in a map. Each has its path in the stack file and a hint."""
    examples = examples_of(model, getattr(model, "EXAMPLE", {}))
    # A prefix without a dot at its end is a Pulumi namespace, such as `gcp:`.
    known = below(prefix, examples) if prefix.endswith(".") else {f"{prefix}{key}": examples[key] for key in examples}
    found = model.choice_problems(value)
    return [with_hint(replace(problem, path=f"{prefix}{problem.path}"), known) for problem in found]


def _nearest(path: str, examples: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the last key of the path that has an example, and the example."""
    key, value, at = "", None, examples
    for step in _STEP.findall(path):
        if not isinstance(at, Mapping) or step not in at:
            break
        key, value, at = step, at[step], at[step]
    return key, value
