"""A fake GitHub server for one measurement, in a separate process, with the sandbox's answers and with ETags.

    python -m bench.github_server 50 250 1000 20

The arguments are the numbers of repositories, active runs, queued jobs and pools. The first line of the output is the
port. `POST /changed?jobs=N` changes N jobs.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pulumi_sandbox.providers.github.actions import documents
from pulumi_sandbox.providers.github.repositories import Repository

ORG, GROUP = "acme", 2
_BASE = "https://api.github.com"
_LIMIT = 1_000_000


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


def answers(repositories: int, runs: int, jobs: int, pools: int) -> Answers:
    """Return the lists that the sweep reads. Jobs are spread evenly over the runs, and runs over the repositories."""
    result, now = Answers(), time.time() - 600
    repositories_of_org = [Repository(1000 + number, ORG, f"repository-{number:03}") for number in range(repositories)]
    group = {
        "id": GROUP,
        "name": "gpu",
        "visibility": "selected",
        "default": False,
        "allows_public_repositories": False,
    }
    result.put(f"/orgs/{ORG}/actions/runner-groups", {"total_count": 1, "runner_groups": [group]})
    result.put(f"/orgs/{ORG}/actions/runner-groups/{GROUP}/runners", {"total_count": 0, "runners": []})
    documents_of_repositories = [documents.repository(_BASE, home) for home in repositories_of_org]
    for first in range(0, repositories, 100):
        page = {"total_count": repositories, "repositories": documents_of_repositories[first : first + 100]}
        result.put(f"/orgs/{ORG}/actions/runner-groups/{GROUP}/repositories?{first // 100 + 1}", page)
    of_home: dict[int, list[dict[str, Any]]] = {number: [] for number in range(repositories)}
    for number in range(runs):
        at, run_id = number % repositories, 5_000_000 + number
        list_path = f"/repos/{repositories_of_org[at].full_name}/actions/runs?queued"
        jobs_path = f"/repos/{repositories_of_org[at].full_name}/actions/runs/{run_id}/jobs"
        run = {
            "id": run_id, "workflow": "CI", "branch": "main", "sha": f"{number:040x}", "number": number, "attempt": 1,
            "status": "queued", "conclusion": None, "createdAt": now, "updatedAt": now, "startedAt": now,
        }  # fmt: skip
        of_home[at].append(documents.run(_BASE, run, repositories_of_org[at]))
        own = range(number * jobs // runs, (number + 1) * jobs // runs)
        found = [documents.job(_BASE, _job(each, repositories_of_org[at], run, pools), run) for each in own]
        result.put(jobs_path, {"total_count": len(found), "jobs": found})
        result.jobs += [(jobs_path, list_path)] * len(found)
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


def main() -> None:
    _Handler.answers = answers(*(int(each) for each in sys.argv[1:5]))
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
