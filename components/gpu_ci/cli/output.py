"""How answers and mistakes are written: tables for people, whole ones where nobody looks at a terminal, and JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import click

if TYPE_CHECKING:
    from rich.console import Console

# Where nobody looks at a terminal nothing is cut off, or folded, to fit one.
_WIDE = 10_000
# Columns whose text one copies: the others give way first where a terminal is narrow, as far as they can be read.
_READABLE = 12
_WHOLE = ("machine", "pool", "region", "quota", "fact", "source")


class Wrong(click.ClickException):
    """A question that cannot be asked: a name that does not exist, a file that is not there."""

    exit_code = 2

    def __init__(self, text: str, *, got: str = "", expected: str = "", hint: str = "") -> None:
        details = (("got", got), ("expected", expected), ("hint", hint))
        super().__init__("\n".join([text, *(f"  {label}: {value}" for label, value in details if value)]))


class Found(click.ClickException):
    """Problems that were found in what was asked about; the text is a whole report."""

    exit_code = 1


def tell(error: click.ClickException) -> None:
    """A mistake in the house form, on the error output."""
    context = getattr(error, "ctx", None)
    where = context.command_path if context else "gpu-ci"
    message = error.format_message()
    if isinstance(error, Found | Wrong):  # these name the file or the command themselves
        click.echo(message, err=True)
        return
    click.echo(f"{where}: {message}", err=True)
    if context and isinstance(error, click.UsageError) and "hint:" not in message:
        click.echo(f"  hint: {where} --help", err=True)


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_all(
    answers: Sequence[tuple[Any, ...]], show: Callable[..., None], document: Callable[..., Any], as_json: bool
) -> None:
    """One answer after the other, an empty line between two; or all of them as one JSON list."""
    if as_json:
        print_json([document(*each) for each in answers])
        return
    for place, each in enumerate(answers):
        if place:
            click.echo("")
        show(*each)


def note(text: str) -> None:
    """A word beside the answer, which is not part of it."""
    click.echo(text, err=True)


def console() -> Console:
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else _WIDE, highlight=False, soft_wrap=False)


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, right: str = "") -> None:
    """A table without empty lines around it; the columns named in `right` hold figures. Piped, lines end where their
    text does."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    figures = right.split("|")
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    lines = [tuple(row) for row in rows]
    needed = 0
    for at, heading in enumerate(headings):
        side: Literal["left", "right"] = "right" if heading in figures else "left"
        whole = heading in _WHOLE or heading in figures
        longest = max([len(heading), *(len(row[at]) for row in lines)])
        least = longest if whole else min(_READABLE, longest)
        needed += least + 3  # the space between two columns
        table.add_column(heading, overflow="fold", justify=side, no_wrap=whole, min_width=least)
    for row in lines:
        table.add_row(*(Text(cell) for cell in row))
    written = console()
    if written.is_terminal:
        # On a terminal too narrow for that, lines run over its edge: a column that is left out would be missed.
        written.size = (max(written.width, needed), written.height)
        written.print(table, crop=False, no_wrap=True)
        return
    with written.capture() as capture:
        written.print(table)
    click.echo("\n".join(line.rstrip() for line in capture.get().splitlines()))
