"""Measure the CPU seconds and requests of one pass of the runner manager, and the interval that GitHub's limits allow.

    make bench ARGS="--only sweep"

The client of GitHub, the decision, the loop and the SQLite store are the real ones. GitHub is another process on
127.0.0.1, with the sandbox's answers and with ETags; its CPU time is not counted. Machines are a list in memory.
"""

from __future__ import annotations

import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import httpx2
from gpu_manager.github.adapter import GithubAdapter
from gpu_manager.github.app_token import App
from gpu_manager.loop import Manager
from gpu_manager.model import Insert, Machine, OperationState, Pool, Rung
from gpu_manager.ports import Requested
from gpu_manager.stores.sqlite import SqliteStore
from gpu_manager.view import view
from pulumi_sandbox.providers.github.actions import documents
from pulumi_sandbox.providers.github.repositories import Repository
from rich.console import Console
from rich.table import Table

from tests.manager.github.fake_github import KEY

GOAL_CPU_SEC = 2.0
ORG, GROUP = "acme", 2
_BASE = "https://api.github.com"
_LIMIT = 1_000_000
_MAXIMUM = 10
# All machines run jobs of twenty minutes, and each machine changes its job twice in that time.
_JOB_SEC = 1200.0


class Size(NamedTuple):
    """The size of an organization."""

    repositories: int
    runs: int
    jobs: int
    pools: int


SIZES = (Size(50, 250, 1000, 20), Size(200, 50, 200, 60), Size(200, 250, 1000, 60))


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

    def inserted(self, machine: Machine) -> bool:
        return True

    def insert(self, pool: Pool, insert: Insert) -> Requested:
        rung = insert.rung
        self._machines[insert.machine] = Machine(
            insert.machine, pool.name, rung.zone, "RUNNING", rung.market, rung.machine_type, pool.template
        )
        return Requested(f"operation-{insert.machine}", "")

    def delete(self, project: str, zone: str, name: str) -> None:
        self._machines.pop(name, None)


def pools(count: int) -> list[Pool]:
    rungs = tuple(Rung(f"us-central1-{zone}", "g2-standard-8", "spot", "nvidia-l4", 0.5) for zone in "abc")
    return [
        Pool(f"pool-{number:02}", "acme-ci", f"templates/{number}", rungs, _MAXIMUM,
             frozenset({"self-hosted", "gpu", f"pool-{number:02}"}), runner_group="gpu")
        for number in range(count)
    ]  # fmt: skip


@dataclass
class Answers:
    """The answer of each path as bytes, with a number that grows with each change."""

    bodies: dict[str, bytes] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    jobs: list[tuple[str, str]] = field(default_factory=list)
    """For each job the paths that change with it: the jobs of its run, and the list that contains its run."""
    turn: int = 0
    """The index of the job that changes next."""

    def put(self, path: str, value: dict[str, Any]) -> None:
        self.bodies[path], self.versions[path] = json.dumps(value).encode(), 1

    def change(self, count: int) -> None:
        for _ in range(count):
            for path in self.jobs[self.turn % len(self.jobs)]:
                self.versions[path] += 1
            # 37 spreads the changes over the runs, because it has no common factor with their number.
            self.turn += 37


def answers(size: Size) -> Answers:
    """Return the lists that the sweep reads. Jobs are spread evenly over the runs, and runs over the repositories."""
    (repositories, runs, jobs, pools), result, now = size, Answers(), time.time() - 600
    repositories_of_org = [Repository(1000 + number, ORG, f"repository-{number:03}") for number in range(repositories)]
    visible = {"visibility": "selected", "default": False, "allows_public_repositories": False}
    group = {"id": GROUP, "name": "gpu", **visible}
    result.put(f"/orgs/{ORG}/actions/runner-groups", {"total_count": 1, "runner_groups": [group]})
    result.put(f"/orgs/{ORG}/actions/runner-groups/{GROUP}/runners", {"total_count": 0, "runners": []})
    documents_of_repositories = [documents.repository(_BASE, home) for home in repositories_of_org]
    for first in range(0, repositories, 100):
        page = {"total_count": repositories, "repositories": documents_of_repositories[first : first + 100]}
        result.put(f"/orgs/{ORG}/actions/runner-groups/{GROUP}/repositories?{first // 100 + 1}", page)
    of_home: dict[int, list[dict[str, Any]]] = {number: [] for number in range(repositories)}
    for number in range(runs):
        at, run_id = number % repositories, 5_000_000 + number
        runs_path = f"/repos/{repositories_of_org[at].full_name}/actions/runs"
        jobs_path = f"{runs_path}/{run_id}/jobs"
        run = {
            "id": run_id, "workflow": "CI", "branch": "main", "sha": f"{number:040x}", "number": number, "attempt": 1,
            "status": "queued", "conclusion": None, "createdAt": now, "updatedAt": now, "startedAt": now,
        }  # fmt: skip
        of_home[at].append(documents.run(_BASE, run, repositories_of_org[at]))
        own = range(number * jobs // runs, (number + 1) * jobs // runs)
        found = [documents.job(_BASE, _job(each, repositories_of_org[at], run, pools), run) for each in own]
        result.put(jobs_path, {"total_count": len(found), "jobs": found})
        result.jobs += [(jobs_path, f"{runs_path}?queued")] * len(found)
    for number, home in enumerate(repositories_of_org):
        for status in ("queued", "in_progress", "requested", "pending", "waiting"):
            listed = of_home[number] if status == "queued" else []
            page = {"total_count": len(listed), "workflow_runs": listed}
            result.put(f"/repos/{home.full_name}/actions/runs?{status}", page)
    return result


def _job(number: int, home: Repository, run: dict[str, Any], pools: int) -> dict[str, Any]:
    return {
        "id": 9_000_000 + number, "runId": run["id"], "repository": home.full_name, "attempt": 1, "name": "gpu tests",
        "labels": ["self-hosted", "gpu", f"pool-{number % pools:02}"], "status": "queued", "conclusion": None,
        "createdAt": run["createdAt"], "startedAt": None, "completedAt": None, "runner": None, "steps": [],
    }  # fmt: skip


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    answers: Answers

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        query = parse_qs(address.query)
        path = address.path
        if "status" in query:
            path += f"?{query['status'][0]}"
        elif path.endswith("/repositories"):
            path += f"?{query.get('page', ['1'])[0]}"
        etag = f'W/"{self.answers.versions[path]}-{hash(path)}"'
        self._send(304 if self.headers.get("If-None-Match") == etag else 200, self.answers.bodies[path], etag, path)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        address = urlsplit(self.path)
        if address.path == "/changed":
            self.answers.change(int(parse_qs(address.query)["jobs"][0]))
            self._send(204, b"")
        else:
            ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
            self._send(201, json.dumps({"token": "ghs_of_the_measurement", "expires_at": ends}).encode())

    def _send(self, status: int, body: bytes, etag: str = "", path: str = "") -> None:
        self.send_response(status)
        if etag:
            self.send_header("ETag", etag)
        base, _, page = path.rpartition("?")
        if base.endswith("/repositories") and f"{base}?{int(page) + 1}" in self.answers.bodies:
            self.send_header("Link", f'<{_BASE}{base}?page={int(page) + 1}>; rel="next"')
        for name, value in {"limit": _LIMIT, "remaining": _LIMIT - 1, "reset": int(time.time()) + 3600}.items():
            self.send_header(f"X-RateLimit-{name}", str(value))
        if status not in (204, 304):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if status not in (204, 304):
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def measured(size: Size, passes: int, folder: Path) -> list[str]:
    """Return the row of one organization: CPU seconds of this process and requests of its passes."""
    _Handler.answers = answers(size)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    process = multiprocessing.get_context("fork").Process(target=server.serve_forever, daemon=True)
    process.start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    key_file = folder / "app.pem"
    key_file.write_bytes(KEY)
    found = pools(size.pools)
    compute: Any = Machines()
    github = GithubAdapter(address, App(1, 2, key_file), ORG, ["gpu"])
    store = SqliteStore(folder / f"{size.repositories}-{size.runs}.sqlite")
    manager = Manager(found, github, compute, store)
    seconds, requests, changed, intervals = [], [], [], []
    try:
        for number in range(passes + 1):
            before, began = github.requests, time.process_time()
            done = manager.step()
            store.publish(view(found, done))
            seconds.append(time.process_time() - began)
            jobs = done.observation.jobs
            if jobs is None or len(jobs) != size.jobs:
                raise SystemExit(f"pass {number} saw {jobs and len(jobs)} of {size.jobs} jobs")
            sent, unchanged = (after - then for after, then in zip(github.requests, before, strict=True))
            requests.append(sent)
            changed.append(sent - unchanged)
            intervals.append(github.interval_sec(active=True))
            running = min(size.pools * _MAXIMUM, size.jobs)
            httpx2.post(f"{address}/changed?jobs={round(running * 2 / _JOB_SEC * intervals[-1])}")
    finally:
        github.close()
        store.close()
        process.kill()
        server.server_close()
    # The first pass starts all machines, and every answer is new. An hour's new token costs a complete sweep.
    cpu_sec, interval_sec = statistics.median(seconds[1:]), statistics.mean(intervals[1:])
    sent, new = round(statistics.mean(requests[1:])), statistics.mean(changed[1:])
    return [
        *map(str, size), f"{seconds[0]:.2f}", f"{cpu_sec:.2f}", str(sent), f"{new:.0f}", f"{interval_sec:.0f}",
        f"{sent * 3600 / interval_sec:.0f}", f"{new * 3600 / interval_sec + sent:.0f}", f"{cpu_sec / interval_sec:.1%}",
    ]  # fmt: skip


def bench_sweep(rounds: int, console: Console) -> None:
    """Print the table of all sizes; the goal is 2 s of CPU for the first one."""
    table = Table(
        "repositories", "active runs", "queued jobs", "pools", "first pass, CPU s", "later, CPU s", "requests",
        "not 304", "interval s", "requests an hour", "counted an hour", "CPU",
        title=f"one pass, goal {GOAL_CPU_SEC:.0f} s of CPU",
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="gpu-ci bench ") as name:
        for size in SIZES:
            table.add_row(*measured(size, 5 * rounds, Path(name)))  # every fifth pass reads more lists
    console.print(table)
