"""Prints results and errors of commands, as tables or as JSON. Long lines are folded only on a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import click
from gpu_common.suggest import closest

if TYPE_CHECKING:
    from rich.console import Console

# The width of output that does not go to a terminal. Scripts need lines that are neither cut off nor folded.
_UNLIMITED_WIDTH = 10_000
# The minimum width of a folded column by the gap between columns, and the length of words that are broken.
_LEAST_WIDTH, _LONGEST_WORD = {3: 12, 1: 7}, 30
# Columns that are never folded, because users copy their text. Other columns are folded on a narrow terminal.
_NEVER_FOLDED = ("machine", "pool", "region", "quota", "fact", "source")


class Failure(click.ClickException):
    """An error with a text for people and a list of problems for JSON."""

    def __init__(self, text: str, problems: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(text)
        self.problems = [{name: value for name, value in problem.items() if value} for problem in problems]

    @property
    def document(self) -> dict[str, Any]:
        """The error as a JSON document."""
        return {"error": {"problems": self.problems}}


class InputError(Failure):
    """Invalid input, such as a name that does not exist or a missing file."""

    exit_code = 2

    def __init__(self, text: str, *, got: str = "", expected: str = "", hint: str = "") -> None:
        details = {"got": got, "expected": expected, "hint": hint}
        lines = [text, *(f"  {label}: {value}" for label, value in details.items() if value)]
        super().__init__("\n".join(lines), [{"text": text, **details}])


class ProblemsFound(Failure):
    """Problems found in the input. The text is a complete report."""

    exit_code = 1


def print_error(error: click.ClickException, as_json: bool = False) -> None:
    """Print an error to stderr and, with `as_json`, as JSON to stdout instead of the result."""
    failure = error if isinstance(error, Failure) else _usage(error)
    click.echo(failure.format_message(), err=True)
    if as_json:
        print_json(failure.document)


def _usage(error: click.ClickException) -> InputError:
    """Convert a usage error of click into an InputError. Errors of the types in options.py already contain a hint."""
    context = getattr(error, "ctx", None)
    where = context.command_path if context else "gpu-ci"
    text, _, hint = error.format_message().partition("\n  hint: ")
    if isinstance(error, click.NoSuchOption) and context:
        near = closest(error.option_name, {name for each in context.command.params for name in each.opts}, 0.75)
        text, hint = f"No such option '{error.option_name}'.", f"did you mean {near}" if near else ""
    return InputError(f"{where}: {text}", hint=hint or (f"{where} --help" if context else ""))


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def note(text: str) -> None:
    """Print a note to stderr, so that it is not part of the result."""
    click.echo(text, err=True)


def console() -> Console:
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else _UNLIMITED_WIDTH, highlight=False, soft_wrap=False)


def first_and_count(names: Sequence[str]) -> str:
    """Return the first instance type of a pool, by which nodes are counted, and the number of the others."""
    others = f" (+{len(names) - 1})" if len(names) > 1 else ""
    return f"{names[0]}{others}" if names else ""


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, right: str = "") -> None:
    """Print a table without empty lines around it and without trailing spaces.

    Columns named in `right`, separated by `|`, are aligned to the right. If the terminal is too narrow for the table,
    each row is printed as a record with one line for each cell.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    lines = [tuple(row) for row in rows]
    terminal = console()
    columns = [(heading, [row[at] for row in lines]) for at, heading in enumerate(headings)]
    is_fixed = {heading: heading in (*_NEVER_FOLDED, *right.split("|")) for heading in headings}
    for gap in _LEAST_WIDTH:  # rich itself adds one character between columns
        # With a small gap, each line of a heading has one word.
        names = {heading: heading if gap == 3 else heading.replace(" ", "\n") for heading in headings}
        least = [_least_width([*names[name].split("\n"), *cells], is_fixed[name], gap) for name, cells in columns]
        if sum(least) + gap * (len(least) - 1) <= terminal.width:
            break
    else:
        print_records(headings, lines)
        return
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, gap // 2))
    for heading in headings:
        justify: Literal["left", "right"] = "right" if heading in right.split("|") else "left"
        table.add_column(names[heading], overflow="fold", justify=justify, no_wrap=is_fixed[heading])
    for row in lines:
        table.add_row(*(Text(cell) for cell in row))
    with terminal.capture() as capture:
        terminal.print(table, crop=False)
    click.echo("\n".join(line.rstrip() for line in capture.get().splitlines()))


def _least_width(cells: Sequence[str], is_fixed: bool, gap: int) -> int:
    """Return the smallest readable width of a column."""
    longest = max(map(len, cells))
    longest_word = max((len(word) for cell in cells for word in cell.split()), default=0)
    return longest if is_fixed else min(longest, max(_LEAST_WIDTH[gap], min(longest_word, _LONGEST_WORD)))


def print_records(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print each row as a record: the first cell, then a line with heading and value for each other cell.

    Empty cells are left out.
    """
    indent = 4 + max(map(len, headings))
    for row in rows:
        click.echo(row[0])
        for heading, cell in zip(headings[1:], row[1:], strict=True):
            if cell:
                print_text(f"  {heading.ljust(indent - 2)}{cell}", indent)


def print_text(text: str, indent: int = 0) -> None:
    """Print a line. On a terminal it is folded between words, with the following lines indented."""
    import textwrap

    width = console().width
    if len(text) > width:
        text = textwrap.fill(
            text, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
        )
    click.echo(text)
