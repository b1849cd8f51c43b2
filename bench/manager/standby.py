"""Measure the effect of the number of machines on standby and of the duration of their start.

    make bench ARGS="--only standby"

It uses the histories of `compare` with other numbers of stopped machines and other start times.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from . import report
from .compare import STANDBY, Options, Row, histories, simulate_row, total, with_pool, with_standby
from .report import Total
from .world import START_SEC

COUNTS = (2, 3, 4, 6, 8)
_LATER_SEC = (-30.0, 30.0)


class Setting(NamedTuple):
    """The varied settings."""

    stopped: int
    """The number of stopped machines."""
    start_sec: tuple[float, float]


class Found(NamedTuple):
    """The results of one setting."""

    setting: Setting
    plain: Total
    """Our policy without the webhook's hint."""
    hint: Total
    pool: Total
    """RunsOn with the same number of stopped machines."""


SETTINGS = (
    *(Setting(count, START_SEC) for count in COUNTS),
    *(Setting(STANDBY, (START_SEC[0] + later, START_SEC[1] + later)) for later in _LATER_SEC),
)

_HEADINGS = ("stopped machines", "start of one", "gpu-ci: median wait", "p95", "USD per job hour", "disks, USD",
             "with the hint: median wait", "RunsOn with a pool: median wait", "USD per job hour")  # fmt: skip


def bench_standby(options: Options, console: Console, out: Path | None = None) -> list[Found]:
    """Print a row for each setting, and write the rows to `out`."""
    found = []
    for each in _all(options):
        found.append(each)
        console.print("  ".join(_cells(each)))
    if out:
        content = [
            {"setting": each.setting._asdict(), **{name: value._asdict() for name, value in _rows_of(each)}}
            for each in found
        ]
        out.write_text(json.dumps(content, indent=1) + "\n")
    return found


def _rows_of(found: Found) -> tuple[tuple[str, Total], ...]:
    return ("plain", found.plain), ("hint", found.hint), ("pool", found.pool)


def _all(options: Options) -> Iterator[Found]:
    for setting in SETTINGS:
        all_histories = list(histories(options._replace(start_sec=setting.start_sec)))

        def of(row: Row) -> Total:
            return total(row, [each for found in simulate_row(row, all_histories).values() for each in found])  # noqa: B023

        yield Found(setting, *map(of, (*with_standby(setting.stopped), with_pool(setting.stopped))))


def read(file: Path) -> list[Found]:
    """Return the content of a file that `bench_standby` wrote."""
    return [
        Found(
            Setting(each["setting"]["stopped"], tuple(each["setting"]["start_sec"])),
            *(Total(**each[name]) for name in ("plain", "hint", "pool")),
        )
        for each in json.loads(file.read_text())
    ]


def markdown(found: Sequence[Found]) -> str:
    """Return the table of docs/how-it-works/runner-manager-simulation.md."""
    lines = [_HEADINGS, ("---",) * len(_HEADINGS), *(_cells(each) for each in found)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cells(found: Found) -> tuple[str, ...]:
    low, high = found.setting.start_sec
    plain, pool = report.named(found.plain), report.named(found.pool)
    return (
        str(found.setting.stopped), f"{low:.0f} to {high:.0f} s", plain["median wait"], plain["p95"],
        plain["USD per job hour"], f"{found.plain.disk_usd:.0f} of {found.plain.usd:.0f}",
        report.named(found.hint)["median wait"], pool["median wait"], pool["USD per job hour"],
    )  # fmt: skip
