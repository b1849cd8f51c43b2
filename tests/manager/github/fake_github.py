"""A fake GitHub in this process, behind httpx2's MockTransport: tokens, lists with pages, ETags, budget and limits."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path
from typing import Any
from zlib import crc32

import httpx2
import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from gpu_manager.github.adapter import GithubAdapter
from gpu_manager.github.app_token import App
from gpu_manager.github.rest_client import Clocks

URL = "https://github.example/api/v3"
ORG = "example-org"
APP, INSTALLATION = 3456789, 9876543
Payload = dict[str, Any]
# docs.github.com/en/rest/actions/workflow-runs: "up to 1,000 results" with the parameter status.
MOST_FILTERED = 1000


def new_key() -> tuple[bytes, rsa.RSAPublicKey]:
    key = rsa.generate_private_key(65537, 2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    return pem, key.public_key()


KEY, PUBLIC_KEY = new_key()


def run(number: int, status: str, **more: Any) -> Payload:
    """Return a workflow run with the relevant fields of GitHub's description and some others."""
    return {
        "id": number,
        "name": "CI",
        "node_id": f"WFR_{number}",
        "head_sha": "009b8a3a9ccbb128af87f9b1c0f4c62e8a304f6d",
        "run_number": 7,
        "event": "push",
        "path": ".github/workflows/ci.yml",
        "head_branch": "main",
        "referenced_workflows": [],
        "status": status,
        "conclusion": None,
        "run_attempt": 1,
        "created_at": "2026-11-24T10:00:00Z",
        **more,
    }


def job(number: int, run_id: int, status: str, *labels: str, **more: Any) -> Payload:
    return {
        "id": number,
        "run_id": run_id,
        "run_attempt": 1,
        "node_id": f"CR_{number}",
        "head_sha": "009b8a3a9ccbb128af87f9b1c0f4c62e8a304f6d",
        "html_url": f"https://github.example/example-org/kernels/actions/runs/{run_id}/job/{number}",
        "status": status,
        "conclusion": None,
        "created_at": "2026-11-24T10:00:05Z",
        "started_at": "2026-11-24T10:00:05Z",
        "completed_at": None,
        "name": "gpu tests",
        "steps": [],
        "labels": list(labels or ("self-hosted", "GPU")),
        "runner_id": None,
        "runner_name": None,
        "runner_group_id": None,
        "runner_group_name": None,
        "workflow_name": "CI",
        **more,
    }


def runner(number: int, name: str, *, online: bool = True, busy: bool = False) -> Payload:
    labels = [{"id": 1, "name": "gpu", "type": "custom"}]
    status = "online" if online else "offline"
    return {"id": number, "name": name, "os": "linux", "status": status, "busy": busy, "labels": labels}


def group(number: int, name: str, visibility: str = "selected", **more: Any) -> Payload:
    return {
        "id": number,
        "name": name,
        "visibility": visibility,
        "default": False,
        "inherited": False,
        "allows_public_repositories": False,
        "restricted_to_workflows": False,
        "selected_workflows": [],
        **more,
    }


def repository(name: str, *, private: bool = True, **more: Any) -> Payload:
    return {"id": crc32(name.encode()), "name": name, "full_name": f"{ORG}/{name}", "private": private, **more}


@dataclass
class FakeClocks:
    unix_now: float = 1_795_600_000.0
    monotonic_now: float = 5_000.0
    skew_sec: float = 0.0
    """Seconds by which the manager's clock is ahead of GitHub's."""

    def pass_time(self, seconds: float) -> None:
        self.unix_now += seconds
        self.monotonic_now += seconds

    def clocks(self) -> Clocks:
        return Clocks(lambda: self.unix_now + self.skew_sec, lambda: self.monotonic_now)


@dataclass
class FakeGithub:
    """A server with lists by their path below `/repos/…` or `/orgs/…`. `asked` keeps every request."""

    clock: FakeClocks = field(default_factory=FakeClocks)
    groups: list[Payload] = field(default_factory=lambda: [group(2, "gpu")])
    group_repositories: dict[int, list[Payload]] = field(default_factory=lambda: {2: [repository("kernels")]})
    installation_repositories: list[Payload] = field(default_factory=list)
    runners: dict[int, list[Payload]] = field(default_factory=dict)
    runs: dict[str, list[Payload]] = field(default_factory=dict)
    """Runs by the name of the repository."""
    listed_runs: dict[tuple[str, str], list[Payload]] = field(default_factory=dict)
    """The runs that a list contains instead of `runs`, by repository and status."""
    jobs: dict[int, list[Payload]] = field(default_factory=dict)
    """Jobs by run."""
    pulls: list[Payload] = field(default_factory=list)
    comments: dict[int, list[Payload]] = field(default_factory=dict)
    """Comments by the number of their pull request."""
    rights: dict[str, Payload] = field(default_factory=dict)
    """The answer about the permission of each login in every repository."""
    public_key: rsa.RSAPublicKey = field(default_factory=lambda: PUBLIC_KEY)
    limit: int = 5000
    used: int = 0
    tokens: list[str] = field(default_factory=list)
    permissions: list[Payload] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)
    """Requests with the header If-None-Match."""
    faults: dict[str, Callable[[httpx2.Request], httpx2.Response | None]] = field(default_factory=dict)
    """Answers that replace the usual ones, by a part of method and URL."""
    same_etags: bool = False
    """True if all addresses have one ETag, as for equal contents."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def reset_unix(self) -> int:
        return int(self.clock.unix_now) + 1800

    def transport(self) -> httpx2.MockTransport:
        return httpx2.MockTransport(self.handle)

    def handle(self, request: httpx2.Request) -> httpx2.Response:
        what = f"{request.method} {request.url.raw_path.decode().removeprefix('/api/v3')}"
        with self._lock:
            self.asked.append(what)
            if request.headers.get("if-none-match"):
                self.conditions.append(what)
        for part, fault in self.faults.items():
            if part in what and (answer := fault(request)) is not None:
                return self._dated(answer)
        with self._lock:
            return self._dated(self._answer(request, what))

    def _dated(self, answer: httpx2.Response) -> httpx2.Response:
        answer.headers.setdefault("date", formatdate(self.clock.unix_now, usegmt=True))
        return answer

    def _answer(self, request: httpx2.Request, what: str) -> httpx2.Response:
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        path = request.url.path.removeprefix("/api/v3")
        if path == f"/app/installations/{INSTALLATION}/access_tokens":
            return self._new_token(request, bearer)
        if not self.tokens or bearer != self.tokens[-1]:
            return httpx2.Response(401, json={"message": "Bad credentials"})
        value = self._object(request, path)
        if value is None:
            return httpx2.Response(404, json={"message": "Not Found"})
        content = json.dumps(value[0]).encode()
        seen = b"" if self.same_etags else content
        etag = f'W/"{hashlib.sha256(bearer.encode() + seen).hexdigest()}"'
        if request.headers.get("if-none-match") == etag:
            return httpx2.Response(304, headers={"etag": etag, **self._budget()})
        self.used += 1
        link = {"link": '<https://github.example/?page=2>; rel="next"'} if value[1] else {}
        return httpx2.Response(200, content=content, headers={"etag": etag, **self._budget(), **link})

    def _budget(self) -> dict[str, str]:
        return {
            "x-ratelimit-limit": str(self.limit),
            "x-ratelimit-remaining": str(max(self.limit - self.used, 0)),
            "x-ratelimit-reset": str(self.reset_unix),
            "x-ratelimit-resource": "core",
            "cache-control": "private, max-age=60, s-maxage=60",
        }

    def _new_token(self, request: httpx2.Request, bearer: str) -> httpx2.Response:
        """Check an App's token as GitHub does: signature, issuer, and its times by GitHub's clock."""
        try:
            claims = jwt.decode(
                bearer,
                self.public_key,
                algorithms=["RS256"],
                issuer=str(APP),
                options={"verify_exp": False, "verify_iat": False},
            )
        except jwt.PyJWTError:
            return httpx2.Response(401, json={"message": "A JSON web token could not be decoded"})
        now = self.clock.unix_now
        if not claims["iat"] <= now < claims["exp"] <= now + 600:
            return httpx2.Response(401, json={"message": "'Expiration time' claim ('exp') is too far in the future"})
        self.permissions.append(json.loads(request.content))
        self.tokens.append(f"ghs_planted{len(self.tokens)}SECRET")
        return httpx2.Response(201, json={"token": self.tokens[-1], "expires_at": "2026-11-24T11:00:00Z"})

    def _object(self, request: httpx2.Request, path: str) -> tuple[Any, bool] | None:
        """Return the JSON at a path, and True if another page follows."""
        org = f"/orgs/{ORG}/actions/runner-groups"
        parts = path.strip("/").split("/")
        if path == org:
            return self._page(request, "runner_groups", self.groups)
        if path == "/installation/repositories":
            return self._page(request, "repositories", self.installation_repositories)
        if path.startswith(org) and parts[-1] == "repositories":
            return self._page(request, "repositories", self.group_repositories.get(int(parts[-2]), []))
        if path.startswith(org) and parts[-1] == "runners":
            return self._page(request, "runners", self.runners.get(int(parts[-2]), []))
        if parts[0] == "repos" and parts[3:] == ["actions", "runs"]:
            status = request.url.params["status"]
            latest = request.url.params.get("created", "<=9").removeprefix("<=")
            runs = sorted(self.runs.get(parts[2], []), key=lambda each: each["created_at"], reverse=True)
            found = [each for each in runs if each["status"] == status and each["created_at"] <= latest]
            return self._page(request, "workflow_runs", self.listed_runs.get((parts[2], status), found), MOST_FILTERED)
        if parts[0] == "repos" and parts[3:5] == ["actions", "runs"] and len(parts) == 6:
            return next(((each, False) for each in self.runs.get(parts[2], []) if str(each["id"]) == parts[5]), None)
        if parts[0] == "repos" and parts[3:] == ["pulls"]:
            given = request.url.params
            heads = {
                each["number"]: (each["head"]["repo"]["owner"]["login"], each["head"]["ref"]) for each in self.pulls
            }
            found = [each for each in self.pulls if ":".join(heads[each["number"]]) == given["head"]]
            return [each for each in found if each["state"] == given["state"]], False
        if parts[0] == "repos" and parts[3] == "issues" and parts[-1] == "comments":
            listed = self._page(request, "comments", self.comments.get(int(parts[4]), []))
            return listed[0]["comments"], listed[1]
        if parts[0] == "repos" and parts[3] == "collaborators" and parts[-1] == "permission":
            return (self.rights[parts[4]], False) if parts[4] in self.rights else None
        if parts[0] == "repos" and parts[-1] == "jobs" and request.url.params.get("filter") in ("latest", "all"):
            return self._page(request, "jobs", self.jobs.get(int(parts[5]), []))
        return None

    @staticmethod
    def _page(request: httpx2.Request, key: str, elements: list[Payload], most: int | None = None) -> tuple[Any, bool]:
        size, page = int(request.url.params.get("per_page", 30)), int(request.url.params.get("page", 1))
        listed = elements[:most]
        shown = listed[(page - 1) * size : page * size]
        return {"total_count": len(elements), key: shown}, page * size < len(listed)


def adapter(github: FakeGithub, folder: Path, **options: Any) -> GithubAdapter:
    key_file = folder / "app.pem"
    if not key_file.exists():
        key_file.write_bytes(KEY)
    app = App(APP, INSTALLATION, key_file)
    return GithubAdapter(
        URL,
        app,
        ORG,
        options.pop("groups", ["gpu"]),
        clocks=github.clock.clocks(),
        transport=github.transport(),
        **options,
    )
