"""Option types that the preview and drift commands share."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click


class FiniteRange(click.FloatRange):
    """A finite number with a minimum. `nan` and `inf` are rejected, because such a limit would never apply."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number


class ReportCommand(click.Command):
    """A command that exits with 1 on every error, also on a usage error. Higher exit codes are results."""

    def make_context(self, *given: Any, **named: Any) -> click.Context:
        with _errors_exit_with_1():
            return super().make_context(*given, **named)

    def invoke(self, ctx: click.Context) -> Any:
        with _errors_exit_with_1():
            return super().invoke(ctx)


@contextmanager
def _errors_exit_with_1() -> Iterator[None]:
    try:
        yield
    except click.ClickException as error:
        error.exit_code = 1  # type: ignore[misc]  # click declares it as a class attribute; this sets the instance's
        raise
