"""Tests with a real GPU or a real account. Each asks for a confirmation first."""

from __future__ import annotations

from collections.abc import Mapping

VARIABLE = "GPU_CI_CONFIRM"


class RefusedError(Exception):
    """The run does not start; the text says why."""


def require(expected: str, environment: Mapping[str, str]) -> None:
    """Raise RefusedError unless the user has named the target in GPU_CI_CONFIRM."""
    if environment.get(VARIABLE) != expected:
        raise RefusedError(
            "not confirmed\n"
            f"  got: {VARIABLE}={environment.get(VARIABLE, '')}\n"
            f"  expected: {VARIABLE}={expected}\n"
            f"  hint: set {VARIABLE}={expected} if you agree to the plan above"
        )
