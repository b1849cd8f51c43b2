"""How answers and mistakes are written: tables for people, whole ones where nobody looks at a terminal, and JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import click
from gpu_common.suggest import closest

if TYPE_CHECKING:
    from rich.console import Console

# Where nobody looks at a terminal nothing is cut off, or folded, to fit one.
_WIDE = 10_000
# Columns whose text one copies: the others give way first where a terminal is narrow, as far as they can be read.
_READABLE, _TIGHT = 12, 7
_WORD = 30  # longer words are broken
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


class InputError(Failure):
    """A question that cannot be asked: a name that does not exist, a file that is not there."""

    exit_code = 2

    def __init__(self, text: str, *, got: str = "", expected: str = "", hint: str = "") -> None:
        details = {"got": got, "expected": expected, "hint": hint}
        lines = [text, *(f"  {label}: {value}" for label, value in details.items() if value)]
        super().__init__("\n".join(lines), [{"text": text, **details}])


class ProblemsFound(Failure):
    """Problems that were found in what was asked about; the text is a whole report."""

    exit_code = 1


def print_error(error: click.ClickException, as_json: bool = False) -> None:
    """A mistake in the house form on the error output, and for a script as JSON where the answer would be."""
    failure = error if isinstance(error, Failure) else _usage(error)
    click.echo(failure.format_message(), err=True)
    if as_json:
        print_json(failure.document)


def _usage(error: click.ClickException) -> InputError:
    """What click found wrong with the words of a command. The names in `options` bring a hint with them."""
    context = getattr(error, "ctx", None)
    where = context.command_path if context else "gpu-ci"
    text, _, hint = error.format_message().partition("\n  hint: ")
    if isinstance(error, click.NoSuchOption) and context:
        text, hint = _unknown_option(error, context)
    return InputError(f"{where}: {text}", hint=hint or (f"{where} --help" if context else ""))


# What users call an option that has another name here.
_OTHER_NAMES = {"--budget": ("usd", "price", "cost")}


def _unknown_option(error: click.NoSuchOption, context: click.Context) -> tuple[str, str]:
    """Return the text for an option that does not exist, and the hint with the option that may be meant."""
    own = {name for parameter in context.command.params for name in parameter.opts}
    words = error.option_name.strip("-").split("-")
    near = next((name for name, others in _OTHER_NAMES.items() if name in own and set(words) & set(others)), "")
    near = near or closest(error.option_name, own, 0.75)
    hint = f"did you mean {near}" if near else f"{context.command_path} --help"
    return f"No such option '{error.option_name}'.", hint


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def note(text: str) -> None:
    """A word beside the answer, which is not part of it."""
    click.echo(text, err=True)


def console() -> Console:
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else _WIDE, highlight=False, soft_wrap=False)


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, right: str = "") -> None:
    """A table without empty lines around it; the columns named in `right` hold figures. Where a terminal is too narrow
    for it, each row stands by itself, a line for each of its cells. Lines end where their text does."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    figures = right.split("|")
    lines = [tuple(row) for row in rows]
    terminal = console()
    columns = [Column(heading, [row[at] for row in lines], heading in figures) for at, heading in enumerate(headings)]
    gap = next((gap for gap in (3, 2, 1) if _width(columns, gap) <= terminal.width), 0)
    if not gap:
        print_records(headings, lines)
        return
    # Of the gap, one sign is the table's own.
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, (gap - 1) // 2, 0, gap // 2))
    widths = _widths(columns, gap, terminal.width)
    for column, width in zip(columns, widths, strict=True):
        heading = column.heading if gap == 3 else column.heading.replace(" ", "\n")
        justification: Literal["left", "right"] = "right" if column.is_figure else "left"
        table.add_column(heading, overflow="fold", justify=justification, width=width)
    for row in lines:
        table.add_row(*(Text(cell) for cell in row))
    with terminal.capture() as capture:
        terminal.print(table, crop=False)
    click.echo("\n".join(line.rstrip() for line in capture.get().splitlines()))


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    heading: str
    cells: Sequence[str]
    is_figure: bool

    @property
    def is_whole(self) -> bool:
        """Whether its text is never folded."""
        return self.is_figure or self.heading in _WHOLE

    def longest(self, gap: int) -> int:
        """The width at which nothing is folded. The words of a heading may stand below each other in a tight table."""
        headings = [self.heading] if gap == 3 else self.heading.split()
        return max(map(len, [*headings, *self.cells]), default=0)

    def least(self, gap: int) -> int:
        """The least width it can be read at."""
        if self.is_whole:
            return self.longest(gap)
        longest_word = max((len(word) for cell in self.cells for word in cell.split()), default=0)
        return min(self.longest(gap), max(_READABLE if gap > 1 else _TIGHT, min(longest_word, _WORD)))


def _width(columns: Sequence[Column], gap: int) -> int:
    return sum(column.least(gap) for column in columns) + gap * (len(columns) - 1)


def _widths(columns: Sequence[Column], gap: int, room: int) -> list[int]:
    """The width of each column: what there is beyond the least goes to those that would be folded, in turn."""
    widths = [column.least(gap) for column in columns]
    room -= _width(columns, gap)
    while folded := [at for at, column in enumerate(columns) if widths[at] < column.longest(gap)][:room]:
        for at in folded:
            widths[at] += 1
        room -= len(folded)
    return widths


def print_records(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Each row by itself: its first cell, and below it the others with their headings; empty ones are left out."""
    indent = 4 + max(map(len, headings))
    for row in rows:
        click.echo(row[0])
        for heading, cell in zip(headings[1:], row[1:], strict=True):
            if cell:
                print_text(f"  {heading.ljust(indent - 2)}{cell}", indent)


def print_text(text: str, indent: int = 0) -> None:
    """A line; on a terminal folded at words, and what follows indented."""
    import textwrap

    width = console().width
    if len(text) > width:
        text = textwrap.fill(
            text, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
        )
    click.echo(text)
