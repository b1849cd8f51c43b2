"""Finds resources by name and prints them on the command line."""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from pulumi_sandbox.providers.secret_digests import redact
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world.store import Record, World, WorldError

if TYPE_CHECKING:
    from rich.console import Console

LISTED = 5
# Without a terminal, no cell is shortened to fit a width.
WIDE = 400


@contextmanager
def open_world() -> Iterator[World]:
    """Return the emulated cloud state of this project."""
    try:
        world = World(Workspace.find().world)
    except WorldError as wrong:
        raise click.ClickException(str(wrong)) from None
    try:
        yield world
    finally:
        world.close()


def chosen(world: World, wanted: str) -> Record:
    """Return the one resource with this id, end of an id, `TYPE/ID`, `TYPE/ID@CLUSTER`, URN or name."""
    rows = world.find()
    spellings: tuple[Callable[[Record], str], ...] = (
        lambda row: row.urn,
        lambda row: row.path,
        lambda row: f"{row.type}/{row.id}",
        lambda row: row.id,
        lambda row: row.name,
        lambda row: row.id.rpartition("/")[2],
    )
    for key in spellings:
        found = [row for row in rows if key(row) == wanted]
        if len(found) == 1:
            return found[0]
        if found:
            meant = "".join(f"\n    {row.path}" for row in found)
            raise click.ClickException(
                f"world: {wanted}: there are {len(found)} of that name\n  hint: say which one:{meant}"
            )
    raise click.ClickException(f"world: {wanted}: no such resource{suggestion(wanted, rows)}")


def suggestion(wanted: str, rows: Sequence[Record]) -> str:
    spellings = {spelling: row for row in rows for spelling in (row.id, row.name, row.id.rpartition("/")[2], row.urn)}
    near = [one for one in spellings if wanted in one] or difflib.get_close_matches(wanted, spellings, LISTED, 0.6)
    rows_meant = list(dict.fromkeys(spellings[one].path for one in near if one))[:LISTED]
    if len(rows_meant) == 1:
        return f"\n  hint: did you mean {rows_meant[0]}?"
    if rows_meant:
        return "\n  hint: did you mean one of these?" + "".join(f"\n    {one}" for one in rows_meant)
    return "\n  hint: pulumi-sandbox world list shows all resources" if rows else "\n  hint: the world is empty"


def as_json(row: Record) -> dict[str, Any]:
    return {
        "type": row.type, "name": row.name, "id": row.id, "urn": row.urn, "stack": row.stack, "origin": row.origin,
        "created": row.created, "cluster": row.cluster, "inputs": redact(row.inputs), "outputs": redact(row.outputs),
    }  # fmt: skip


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def console() -> Console:
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else WIDE, highlight=False, soft_wrap=False)


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    given = list(rows)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    # Leave out empty columns.
    filled = [at for at in range(len(headings)) if any(row[at] for row in given)]
    for at in filled:
        table.add_column(headings[at], overflow="fold")
    for row in given:
        table.add_row(*(Text(row[at]) for at in filled))
    console().print(table)
