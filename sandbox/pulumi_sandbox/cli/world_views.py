"""Finds resources by name and prints them on the command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
from gpu_common.suggest import closest

from pulumi_sandbox.providers.secret_digests import redact
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world.store import Record, World, WorldError

if TYPE_CHECKING:
    from rich.console import Console

# Without a terminal, no cell is shortened to fit a width.
WIDTH_WITHOUT_TERMINAL = 400


@contextmanager
def open_world() -> Iterator[World]:
    """Yield the emulated cloud state of this project."""
    try:
        world = World(Workspace.find().world)
    except WorldError as error:
        raise click.ClickException(str(error)) from None
    try:
        yield world
    finally:
        world.close()


def find_one(world: World, name: str) -> Record:
    """Return the one resource with this id, end of an id, `TYPE/ID`, `TYPE/ID@CLUSTER`, URN or name."""
    rows = world.find()
    forms: tuple[Callable[[Record], str], ...] = (
        lambda row: row.urn,
        lambda row: row.path,
        lambda row: f"{row.type}/{row.id}",
        lambda row: row.id,
        lambda row: row.name,
        lambda row: row.id.rpartition("/")[2],
    )
    for form in forms:
        matches = [row for row in rows if form(row) == name]
        if len(matches) == 1:
            return matches[0]
        if matches:
            candidates = "".join(f"\n    {row.path}" for row in matches)
            raise click.ClickException(
                f"world: {name}: {len(matches)} resources have this name\n  hint: use one of:{candidates}"
            )
    raise click.ClickException(f"world: {name}: no such resource{suggestion(name, rows)}")


def suggestion(name: str, rows: Sequence[Record]) -> str:
    similar = closest(name, [form for row in rows for form in (row.id, row.name, row.id.rpartition("/")[2])])
    return (
        f"\n  hint: did you mean {similar}?" if similar else "\n  hint: pulumi-sandbox world list shows all resources"
    )


def as_json(row: Record) -> dict[str, Any]:
    return {
        "type": row.type, "name": row.name, "id": row.id, "urn": row.urn, "stack": row.stack, "origin": row.origin,
        "created": row.created, "cluster": row.cluster, "inputs": redact(row.inputs), "outputs": redact(row.outputs),
    }  # fmt: skip


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def console() -> Console:
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL, highlight=False, soft_wrap=False)


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    all_rows = list(rows)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    # Leave out empty columns.
    columns = [column for column in range(len(headings)) if any(row[column] for row in all_rows)]
    for column in columns:
        table.add_column(headings[column], overflow="fold")
    for row in all_rows:
        table.add_row(*(Text(row[column]) for column in columns))
    console().print(table)
