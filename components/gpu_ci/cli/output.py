"""How answers and mistakes are written: tables for people, whole ones where nobody looks at a terminal, and JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import click

if TYPE_CHECKING:
    from rich.console import Console

# Where nobody looks at a terminal nothing is cut off, or folded, to fit one.
_WIDE = 10_000
# Columns whose text one copies: the others give way first where a terminal is narrow, as far as they can be read.
_READABLE = 12
_WHOLE = ("machine", "pool", "region", "quota", "fact", "source")


class Failure(click.ClickException):
    """Why there is no answer: as the text people read, and problem by problem."""

    def __init__(self, text: str, problems: Sequence[Mapping[str, str]]) -> None:
        super().__init__(text)
        self.problems = [{name: value for name, value in problem.items() if value} for problem in problems]

    @property
    def document(self) -> dict[str, Any]:
        """The same for a script."""
        return {"error": {"problems": self.problems}}


class Wrong(Failure):
    """A question that cannot be asked: a name that does not exist, a file that is not there."""

    exit_code = 2

    def __init__(self, text: str, *, got: str = "", expected: str = "", hint: str = "") -> None:
        details = {"got": got, "expected": expected, "hint": hint}
        lines = [text, *(f"  {label}: {value}" for label, value in details.items() if value)]
        super().__init__("\n".join(lines), [{"text": text, **details}])


class Found(Failure):
    """Problems that were found in what was asked about; the text is a whole report."""

    exit_code = 1


def tell(error: click.ClickException, as_json: bool = False) -> None:
    """A mistake in the house form on the error output, and for a script as JSON where the answer would be."""
    failure = error if isinstance(error, Failure) else _usage(error)
    click.echo(failure.format_message(), err=True)
    if as_json:
        print_json(failure.document)


def _usage(error: click.ClickException) -> Wrong:
    """What click found wrong with the words of a command. The names in `options` bring a hint with them."""
    context = getattr(error, "ctx", None)
    where = context.command_path if context else "gpu-ci"
    text, _, hint = error.format_message().partition("\n  hint: ")
    return Wrong(f"{where}: {text}", hint=hint or (f"{where} --help" if context else ""))


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


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
