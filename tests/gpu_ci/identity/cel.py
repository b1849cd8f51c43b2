"""Evaluates conditions of Google by a library for CEL (Common Expression Language)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import celpy
import pytest


@pytest.fixture(autouse=True)
def recursion_limit() -> Iterator[None]:
    """Restore the recursion limit, which celpy raises for the whole process."""
    limit = sys.getrecursionlimit()
    yield
    sys.setrecursionlimit(limit)


def evaluate(condition: str, *, functions: Mapping[str, Callable[..., Any]] | None = None, **variables: Any) -> bool:
    """Return the value of a condition for these variables. Raise celpy.CELEvalError if one lacks what it asks for."""
    environment = celpy.Environment()
    program = environment.program(environment.compile(condition), functions=dict(functions or {}))
    return bool(program.evaluate({name: celpy.json_to_cel(value) for name, value in variables.items()}))


def cel(condition: str, claims: Mapping[str, Any]) -> bool:
    """Evaluate a condition on a token as Google does; an error, such as a claim that is missing, refuses the token."""
    try:
        return evaluate(condition, assertion=dict(claims))
    except celpy.CELEvalError:
        return False
