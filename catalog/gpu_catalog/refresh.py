"""Compares the rows of a source with the rows of the catalog, for `gpu-ci catalog refresh`. The result is a `Diff`.

This module reads no file, no clock and no network. The command shows the diff before it writes anything. No row is
deleted. A machine that the source no longer names is marked with the day on which it was first missing. A maintainer
then removes the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import TypeAlias

Value: TypeAlias = "str | int | float | bool | tuple[str, ...] | None"
Row: TypeAlias = "Mapping[str, Value]"
Rows: TypeAlias = "Mapping[str, Row]"

GONE = "gone_upstream_since"


class RefreshError(Exception):
    """The answer of a source cannot be used, and the catalog is not changed."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one field of a machine. `current` is None if the catalog has no value."""

    machine: str
    field: str
    current: Value
    upstream: Value

    def __str__(self) -> str:
        if isinstance(self.current, tuple) and isinstance(self.upstream, tuple):
            more = [f"+{each}" for each in self.upstream if each not in self.current]
            fewer = [f"-{each}" for each in self.current if each not in self.upstream]
            return f"{self.machine}: {self.field}: {' '.join([*more, *fewer]) or 'another order'}"
        return f"{self.machine}: {self.field}: {value_text(self.current)} -> {value_text(self.upstream)}"


@dataclass(frozen=True, slots=True)
class Diff:
    """The result of a comparison. `rows` is the catalog with the values of the source."""

    source: str
    added: tuple[str, ...]
    gone: tuple[str, ...]  # machines that the source no longer names
    still_gone: tuple[str, ...]  # machines that were already missing at an earlier refresh
    back: tuple[str, ...]  # machines that the source names again
    changed: tuple[Change, ...]
    same: int  # the number of equal fields, of machines in both the catalog and the source
    outside: tuple[str, ...]  # machines that the source does not cover
    rows: Rows

    @property
    def empty(self) -> bool:
        return not (self.added or self.gone or self.back or self.changed)

    def lines(self) -> Iterator[str]:
        """Yield the diff as text. The counts come first, so that a long list does not hide them."""
        yield (
            f"{self.source}: {len(self.added)} added, {len(self.changed)} fields changed, {len(self.gone)} gone, "
            f"{len(self.back)} back, {self.same} fields the same, {len(self.still_gone)} gone before, "
            f"{len(self.outside)} machines not covered"
        )
        for name in self.added:
            fields = ", ".join(f"{field} {value_text(value)}" for field, value in self.rows[name].items())
            yield f"+ {name}: {fields}"
        yield from (f"~ {change}" for change in self.changed)
        yield from (f"- {name}: kept, gone upstream since {self.rows[name][GONE]}" for name in self.gone)
        yield from (f"^ {name}: is back upstream" for name in self.back)


def value_text(value: Value) -> str:
    if value is None:
        return "unknown"
    return " ".join(value) if isinstance(value, tuple) else str(value)


def everything(_: str) -> bool:
    return True


def diff(
    current: Rows, upstream: Rows, *, source: str, today: date, covers: Callable[[str], bool] = everything
) -> Diff:
    """Compare a source with the catalog.

    `covers` returns True for machines that the source should name if they exist. Other machines are neither compared
    nor reported as missing. A field that the source leaves out or has as None does not change.
    """
    if not upstream:
        raise RefreshError(
            f"{source}: names no machines\n  expected: at least one machine\n"
            "  hint: an empty answer counts as a failed request; nothing is changed"
        )
    rows: dict[str, Row] = {}
    gone: list[str] = []
    still_gone: list[str] = []
    back: list[str] = []
    outside: list[str] = []
    changes: list[Change] = []
    same = 0
    for name, row in current.items():
        if name in upstream:
            differing = [
                Change(name, field, row.get(field), value)
                for field, value in upstream[name].items()
                if value is not None and row.get(field) != value
            ]
            same += sum(1 for value in upstream[name].values() if value is not None) - len(differing)
            changes += differing
            back += [name] if GONE in row else []
            remaining = {field: value for field, value in row.items() if field != GONE}
            rows[name] = {**remaining, **{each.field: each.upstream for each in differing}}
        elif not covers(name):
            outside.append(name)
            rows[name] = row
        else:
            (still_gone if GONE in row else gone).append(name)
            rows[name] = {GONE: today.isoformat(), **row}
    added = tuple(name for name in upstream if name not in current)
    for name in added:
        rows[name] = {field: value for field, value in upstream[name].items() if value is not None}
    return Diff(
        source=source,
        added=added,
        gone=tuple(gone),
        still_gone=tuple(still_gone),
        back=tuple(back),
        changed=tuple(changes),
        same=same,
        outside=tuple(outside),
        rows=rows,
    )
