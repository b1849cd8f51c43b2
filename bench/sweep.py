"""Measure the CPU seconds and requests of one pass of the runner manager, and the interval that GitHub's limits allow.

    make bench ARGS="--only sweep"

The client of GitHub, the decision, the loop and the SQLite store are the real ones. GitHub is another process on
127.0.0.1, whose CPU time is not counted. Machines are a list in memory.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx2
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from gpu_manager.github.adapter import GithubAdapter
from gpu_manager.github.app_token import App
from gpu_manager.loop import Manager
from gpu_manager.model import Insert, Machine, OperationState, Pool, Rung
from gpu_manager.stores.sqlite import SqliteStore
from gpu_manager.view import view
from rich.console import Console
from rich.table import Table

from .github_server import ORG

GOAL_CPU_SEC = 2.0
_MAXIMUM = 10
# All machines run jobs of twenty minutes, and each machine changes its job twice in that time.
_JOB_SEC = 1200.0
_POINTS_A_MINUTE = 900
"""The secondary limit. It is not documented if a 304 answer costs a point (docs.github.com, "Rate limits")."""


@dataclass(frozen=True)
class Size:
    """The size of an organization."""

    repositories: int
    runs: int
    jobs: int
    pools: int


SIZES = (Size(50, 250, 1000, 20), Size(200, 50, 200, 60), Size(200, 250, 1000, 60))


@dataclass(frozen=True)
class Measured:
    """The measurements of one size."""

    size: Size
    first_cpu_sec: float
    """The CPU seconds of the pass that starts all machines, with every answer new."""
    cpu_sec: float
    """The median CPU seconds of a later pass."""
    requests: int
    """The requests of a later pass."""
    changed: float
    """The requests of a later pass whose answer was new (not status 304)."""
    interval_sec: float

    @property
    def requests_an_hour(self) -> float:
        return self.requests * 3600 / self.interval_sec

    @property
    def counted_an_hour(self) -> float:
        """Requests an hour against the primary limit, with a complete sweep for each hour's new token."""
        return self.changed * 3600 / self.interval_sec + self.requests

    @property
    def cpu_share(self) -> float:
        return self.cpu_sec / self.interval_sec


class Machines:
    """Compute Engine with a machine for each insert. Implements ports.Compute."""

    def __init__(self) -> None:
        self._machines: dict[str, Machine] = {}

    def machines(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
        return tuple(self._machines.values())

    def operation(self, pool: Pool, zone: str, operation: str) -> OperationState:
        return OperationState(True)

    def starting(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
        return ()

    def preempted(self, pools: Sequence[Pool]) -> frozenset[str]:
        return frozenset()

    def insert(self, pool: Pool, insert: Insert) -> str:
        rung = insert.rung
        self._machines[insert.machine] = Machine(
            insert.machine, pool.name, rung.zone, "RUNNING", rung.market, rung.machine_type, pool.template
        )
        return f"operation-{insert.machine}"

    def delete(self, project: str, zone: str, name: str) -> None:
        self._machines.pop(name, None)


def pools(count: int) -> list[Pool]:
    rungs = tuple(Rung(f"us-central1-{zone}", "g2-standard-8", "spot", "nvidia-l4", 0.5) for zone in "abc")
    return [
        Pool(f"pool-{number:02}", "acme-ci", f"templates/{number}", rungs, _MAXIMUM,
             frozenset({"self-hosted", "gpu", f"pool-{number:02}"}), runner_group="gpu")
        for number in range(count)
    ]  # fmt: skip


def measured(size: Size, passes: int, folder: Path) -> Measured:
    """Return CPU seconds of this process and requests of passes over one organization."""
    arguments = [str(each) for each in (size.repositories, size.runs, size.jobs, size.pools)]
    command = [sys.executable, "-m", "bench.github_server", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout
            address = f"http://127.0.0.1:{int(server.stdout.readline())}"
            return _passes(size, passes, address, folder)
        finally:
            server.kill()


def _passes(size: Size, passes: int, address: str, folder: Path) -> Measured:
    key_file = folder / "app.pem"
    key_file.write_bytes(
        rsa.generate_private_key(65537, 2048).private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )
    found = pools(size.pools)
    github = GithubAdapter(address, App(1, 2, key_file), ORG, ["gpu"])
    store = SqliteStore(folder / f"{size.repositories}-{size.runs}.sqlite")
    manager = Manager(found, github, Machines(), store)
    seconds, requests, changed, intervals = [], [], [], []
    try:
        for number in range(passes + 1):
            before, began = github.requests, time.process_time()
            done = manager.step()
            store.publish(view(found, done))
            seconds.append(time.process_time() - began)
            if done.observation.jobs is None or len(done.observation.jobs) != size.jobs:
                raise SystemExit(
                    f"pass {number} saw {done.observation.jobs and len(done.observation.jobs)} of {size.jobs} jobs"
                )
            sent, unchanged = (after - then for after, then in zip(github.requests, before, strict=True))
            requests.append(sent)
            changed.append(sent - unchanged)
            intervals.append(github.interval_sec(active=True))
            running = min(size.pools * _MAXIMUM, size.jobs)
            changes = round(running * 2 / _JOB_SEC * intervals[-1])
            httpx2.post(f"{address}/changed?jobs={changes}")
    finally:
        github.close()
        store.close()
    return Measured(
        size,
        seconds[0],
        statistics.median(seconds[1:]),
        round(statistics.mean(requests[1:])),
        statistics.mean(changed[1:]),
        statistics.mean(intervals[1:]),
    )


def bench_sweep(rounds: int, console: Console) -> None:
    """Print the table of all sizes; the goal is 2 s of CPU for the first one."""
    with tempfile.TemporaryDirectory(prefix="gpu-ci bench ") as name:
        # Every fifth pass reads more lists.
        found = [measured(size, 5 * rounds, Path(name)) for size in SIZES]
    table = Table(
        "repositories", "active runs", "queued jobs", "pools", "first pass, CPU s", "later, CPU s", "requests",
        "not 304", "interval s", "requests an hour", "counted an hour", "CPU",
        title=f"one pass, goal {GOAL_CPU_SEC:.0f} s of CPU",
    )  # fmt: skip
    for each in found:
        size = each.size
        table.add_row(
            str(size.repositories), str(size.runs), str(size.jobs), str(size.pools), f"{each.first_cpu_sec:.2f}",
            f"{each.cpu_sec:.2f}", str(each.requests), f"{each.changed:.0f}", f"{each.interval_sec:.0f}",
            f"{each.requests_an_hour:.0f}", f"{each.counted_an_hour:.0f}", f"{each.cpu_share:.1%}",
        )  # fmt: skip
    console.print(table)
