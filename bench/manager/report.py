"""The results of all policies as a table, on the terminal and in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.console import Console
from rich.table import Table


class Total(NamedTuple):
    """The results of one row over all histories."""

    row: str
    markets: str
    ours: bool
    keeps_machines: bool
    """True if machines are started before jobs need them."""
    median_sec: float
    p95_sec: float
    longest_sec: float
    median_delay_sec: float
    p95_delay_sec: float
    jobs: int
    done: int
    reruns: int
    lost: int
    expired: int
    machine_hours: float
    usd: float
    disk_usd: float
    """The part of `usd` for the disks of stopped machines."""
    usd_per_job_hour: float
    """The cost per hour of completed jobs."""


_HEADINGS = ("policy", "buys", "median wait", "p95", "longest", "median delay", "p95 delay", "done", "reruns", "lost",
             "never began", "machine h", "USD", "USD per job hour")  # fmt: skip


def show(totals: Sequence[Total], title: str, console: Console) -> None:
    table = Table(*_HEADINGS, title=title)
    for each in totals:
        table.add_row(*cells(each))
    console.print(table)
    for line in against_peers(totals):
        console.print(line)


def markdown(totals: Sequence[Total]) -> str:
    """Return the totals as a table in Markdown."""
    lines = [_HEADINGS, ("---",) * len(_HEADINGS), *(cells(each) for each in totals)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def against_peers(totals: Sequence[Total]) -> list[str]:
    """Return for each of our rows a sentence about the peer with the shortest wait in the same markets.

    If that peer starts machines before jobs need them, another sentence compares the best of the other peers.
    """
    found = []
    for ours in totals:
        peers = [each for each in totals if not each.ours and each.markets == ours.markets]
        others = [each for each in peers if not each.keeps_machines]
        if ours.ours and peers:
            best = dict.fromkeys(min(group, key=lambda each: each.median_sec) for group in (others, peers))
            found += [_against(ours, each) for each in best]
    return found


def _against(ours: Total, best: Total) -> str:
    wait, cost = ours.median_sec / best.median_sec, ours.usd_per_job_hour / best.usd_per_job_hour
    return (
        f"{ours.row} ({ours.markets}) against {best.row}: {wait:.2f} of the median wait, "
        f"{cost:.2f} of the cost of a job hour"
    )


def cells(each: Total) -> tuple[str, ...]:
    return (
        each.row, each.markets, _duration(each.median_sec), _duration(each.p95_sec), _duration(each.longest_sec),
        _duration(each.median_delay_sec), _duration(each.p95_delay_sec), f"{each.done} of {each.jobs}",
        str(each.reruns), str(each.lost), str(each.expired), f"{each.machine_hours:.0f}", f"{each.usd:.0f}",
        f"{each.usd_per_job_hour:.3f}",
    )  # fmt: skip


def named(each: Total) -> dict[str, str]:
    """Return the cells by their headings."""
    return dict(zip(_HEADINGS, cells(each), strict=True))


def _duration(seconds: float) -> str:
    if seconds < 600:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
