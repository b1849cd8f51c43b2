"""Adds hints to problems. If the validator gave no hint, the hint is an example of a valid value."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from ..args import Args
from ..errors import Problem, in_yaml, shape

A = TypeVar("A", bound=Args)

# One part of a path, such as pools in gpu-ci:pools.l4.
_STEP = re.compile(r"[^.\[\]\"]+")


def with_hints(problems: Iterable[Problem], model: type[Args], example: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of a map, each with a hint. `example` is a valid map of the model."""
    examples = {str(each.alias): each.examples[0] for each in model.model_fields.values() if each.examples}
    defaults = {str(each.alias): _plain(each.default) for each in model.model_fields.values()}
    given = {key: each for key, each in defaults.items() if isinstance(each, int | float) or each}
    return [_with_hint(each, given | examples | dict(example)) for each in problems]


def _plain(default: Any) -> Any:
    """Return the default of a field as YAML, or None if it has none."""
    if isinstance(default, BaseModel):
        return default.model_dump(mode="json", by_alias=True, exclude_none=True)
    return None if default is PydanticUndefined else default


def _with_hint(problem: Problem, examples: Mapping[str, Any]) -> Problem:
    """Return the problem. If it has no hint, the example of the last key of its path that has one becomes its hint."""
    key, at = "", examples
    for step in _STEP.findall(problem.path):
        if not isinstance(at, Mapping) or step not in at:
            break
        key, at = step, at[step]
    return replace(problem, hint=f"such as {key}: {in_yaml(at)}") if key and not problem.hint else problem


def section(model: type[A], path: str, value: Any) -> tuple[A | None, list[Problem]]:
    """Return the arguments in a key of a stack file whose value is a map, and its problems."""
    example = getattr(model, "EXAMPLE", {})
    if value is None:
        return None, []
    if not isinstance(value, Mapping):
        expected = (model.__doc__ or "").splitlines()[0]
        hint = f"such as {in_yaml(example)}"
        return None, [Problem(path, "must be a map", shape(value), expected, hint, "wrong-type")]
    args, problems = model.parse(value)
    return args, [each.under(path) for each in with_hints(problems, model, example)]
