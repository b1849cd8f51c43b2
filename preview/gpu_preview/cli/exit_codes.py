"""The exit code of `gpu-ci preview` and `gpu-ci drift` for errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click


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
