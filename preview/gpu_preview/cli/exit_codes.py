"""What `gpu-ci preview` and `gpu-ci drift` end with where there is no report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click


class ReportCommand(click.Command):
    """A command whose exit code is an answer, and 2 is one: every mistake ends with 1, that of a question too."""

    def make_context(self, *given: Any, **named: Any) -> click.Context:
        with _mistakes_end_with_one():
            return super().make_context(*given, **named)

    def invoke(self, ctx: click.Context) -> Any:
        with _mistakes_end_with_one():
            return super().invoke(ctx)


@contextmanager
def _mistakes_end_with_one() -> Iterator[None]:
    try:
        yield
    except click.ClickException as error:
        error.exit_code = 1  # type: ignore[misc]  # click has one for each class, and this is one of an error
        raise
