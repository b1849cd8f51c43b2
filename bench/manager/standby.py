"""Simulate several numbers of machines on standby and several start times, and print their waits and costs.

    make bench ARGS="--only standby"

compare.py simulates one number and one start time. This module runs the same histories with each entry of SETTINGS.
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
# Changes of the start time, because START_SEC is an assumption.
_START_CHANGES_SEC = (-30.0, 30.0)


class Setting(NamedTuple):
    """The number of stopped machines, and how long the start of one takes."""

    stopped: int
    """The number of stopped machines."""
    start_sec: tuple[float, float]
    """The shortest and longest time from the start of a stopped machine to its registered runner."""


class Result(NamedTuple):
    """The results of one setting."""

    setting: Setting
    plain: Total
    """Our policy without the webhook's hint (an event that starts the next pass early)."""
    hint: Total
    """Our policy with the webhook's hint."""
    pool: Total
    """RunsOn with the same number of stopped machines."""


SETTINGS = (
    *(Setting(count, START_SEC) for count in COUNTS),
    *(Setting(STANDBY, (START_SEC[0] + change, START_SEC[1] + change)) for change in _START_CHANGES_SEC),
)

_HEADINGS = ("stopped machines", "time to start", "gpu-ci: median wait", "p95", "USD per job hour", "disks, USD",
             "with the hint: median wait", "RunsOn with a pool: median wait", "USD per job hour")  # fmt: skip


def bench_standby(options: Options, console: Console, out: Path | None = None) -> list[Result]:
    """Print a row for each setting, and write the rows to `out`."""
    results = []
    for each in _results(options):
        results.append(each)
        console.print("  ".join(_cells(each)))
    if out:
        content = [
            {"setting": each.setting._asdict(), **{name: value._asdict() for name, value in _rows_of(each)}}
            for each in results
        ]
        out.write_text(json.dumps(content, indent=1) + "\n")
    return results


def _rows_of(result: Result) -> tuple[tuple[str, Total], ...]:
    return ("plain", result.plain), ("hint", result.hint), ("pool", result.pool)


def _results(options: Options) -> Iterator[Result]:
    for setting in SETTINGS:
        all_histories = list(histories(options._replace(start_sec=setting.start_sec)))

        def total_of(row: Row) -> Total:
            return total(row, [each for outcomes in simulate_row(row, all_histories).values() for each in outcomes])  # noqa: B023

        yield Result(setting, *map(total_of, (*with_standby(setting.stopped), with_pool(setting.stopped))))


def read(file: Path) -> list[Result]:
    """Return the content of a file that `bench_standby` wrote."""
    return [
        Result(
            Setting(each["setting"]["stopped"], tuple(each["setting"]["start_sec"])),
            *(Total(**each[name]) for name in ("plain", "hint", "pool")),
        )
        for each in json.loads(file.read_text())
    ]


def markdown(results: Sequence[Result]) -> str:
    """Return the measured settings as a table in Markdown."""
    lines = [_HEADINGS, ("---",) * len(_HEADINGS), *(_cells(each) for each in results)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cells(result: Result) -> tuple[str, ...]:
    low, high = result.setting.start_sec
    plain, pool = report.named(result.plain), report.named(result.pool)
    return (
        str(result.setting.stopped), f"{low:.0f} to {high:.0f} s", plain["median wait"], plain["p95"],
        plain["USD per job hour"], f"{result.plain.disk_usd:.0f} of {result.plain.usd:.0f}",
        report.named(result.hint)["median wait"], pool["median wait"], pool["USD per job hour"],
    )  # fmt: skip
