"""GitHub Actions in a world of its own, asked by function calls."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from pulumi_sandbox.providers.github import types
from pulumi_sandbox.providers.github.app_api import GithubAppApi
from pulumi_sandbox.providers.github.organizations import Organizations
from pulumi_sandbox.providers.machines.local_services import Call
from pulumi_sandbox.providers.rsa_key import SETTING
from pulumi_sandbox.world.store import Record, World

APP, INSTALLATION = "17", "18"
MANAGER = {"organization_self_hosted_runners": "write", "actions": "write"}
KERNELS = "/repos/acme/kernels"
RUNNERS = "/orgs/acme/actions/runners"
STARTED = 1_800_000_000.0


class Reply(NamedTuple):
    status: int
    body: Any
    headers: Mapping[str, str]

    @property
    def message(self) -> str:
        return str(self.body["message"])


@cache
def key() -> rsa.RSAPrivateKey:
    """One for all tests: making one takes long."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def encoded(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def jwt(unix: float) -> str:
    claims = {"iss": APP, "iat": int(unix) - 60, "exp": int(unix) + 540}
    text = ".".join(encoded(json.dumps(one).encode()) for one in ({"alg": "RS256", "typ": "JWT"}, claims))
    return f"{text}.{encoded(key().sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


@dataclass
class Hub:
    """GitHub with one App, in the organization `acme`. `unix` is its clock."""

    world: World
    permissions: Mapping[str, str] = field(default_factory=lambda: MANAGER)
    unix: float = STARTED
    token: str = ""

    def __post_init__(self) -> None:
        plain = (serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())
        self.world.set_setting(f"{SETTING}-{APP}", key().private_bytes(serialization.Encoding.PEM, *plain).decode())
        self.api = GithubAppApi(
            self.world,
            ("acme/*", f"apps/{APP}/installations/{INSTALLATION}"),
            Organizations(apps={APP: self.permissions}),
            lambda: self.unix,
        )
        self.token = self.new_token()

    def new_token(self, **body: Any) -> str:
        reply = self.ask("POST", f"/app/installations/{INSTALLATION}/access_tokens", body, token=jwt(self.unix))
        assert reply.status == 201, reply
        return str(reply.body["token"])

    def ask(
        self, method: str, target: str, body: Any = None, *, token: str = "", headers: Mapping[str, str] | None = None
    ) -> Reply:
        url = urlsplit(target)
        authorization = f"Bearer {token or self.token}"
        given = {"user-agent": "tests", **(headers or {})}
        answer = self.api.answer(Call(method, url.path, parse_qs(url.query), authorization, body, given))
        return Reply(answer.status, json.loads(answer.body) if answer.body else None, answer.headers)

    def get(self, target: str, **options: Any) -> Any:
        reply = self.ask("GET", target, **options)
        assert reply.status == 200, reply
        return reply.body

    def queue(
        self,
        *names: str,
        labels: tuple[str, ...] = ("gpu",),
        repository: str = "kernels",
        group: str = "",
        **options: Any,
    ) -> Any:
        """A run with these jobs: the run, and the ids of its jobs."""
        home = self.api.repositories.get(f"acme/{repository}")
        assert home is not None
        steps = [{"name": "Run true", "run": "true"}]
        jobs = [{"name": name, "labels": labels, "steps": steps, "group": group} for name in names or ("test",)]
        run, made = self.api.actions.queue(home, jobs, **options)
        return run["id"], [one["id"] for one in made]

    def job(self, number: int) -> Any:
        row = self.api.actions.job(number)
        assert row is not None
        jobs = self.get(f"{KERNELS}/actions/runs/{row['runId']}/jobs?filter=all&per_page=100")["jobs"]
        return next(one for one in jobs if one["id"] == number)

    def run(self, number: int) -> Any:
        return self.get(f"{KERNELS}/actions/runs/{number}")

    def group(
        self, number: int, *repositories: str, public: bool = False, visibility: str = "selected", workflow: str = ""
    ) -> None:
        """A runner group that a stack made."""
        found = [self.api.repositories.get(f"acme/{name}") for name in repositories]
        outputs = {
            "name": f"group-{number}",
            "visibility": visibility,
            "allowsPublicRepositories": public,
            "restrictedToWorkflows": bool(workflow),
            "selectedWorkflows": [workflow],
            "selectedRepositoryIds": [float(one.id) for one in found if one],
            "runnersUrl": f"https://api.github.com/orgs/acme/actions/runner-groups/{number}/runners",
        }
        self.world.insert(Record(types.RUNNER_GROUP, str(number), f"group-{number}", "", {}, outputs))

    def runner(self, name: str = "vm-1", *, labels: tuple[str, ...] = ("gpu",), group: int = 1) -> Machine:
        body = {"name": name, "runner_group_id": group, "labels": list(labels)}
        reply = self.ask("POST", f"{RUNNERS}/generate-jitconfig", body)
        assert reply.status == 201, reply
        files = json.loads(base64.b64decode(reply.body["encoded_jit_config"]))
        read = {name: json.loads(base64.b64decode(text)) for name, text in files.items()}
        return Machine(self, reply.body["runner"]["id"], read)


@dataclass
class Machine:
    """A runner of the sandbox, as it asks for its job."""

    hub: Hub
    id: int
    files: dict[str, Any]

    def ask(self, method: str, path: str, body: Any = None) -> Reply:
        return self.hub.ask(method, f"/_runner/{path}", body, token=self.files[".credentials"]["token"])

    def connect(self) -> Machine:
        assert self.ask("POST", "session") == (200, {"runner_id": self.id}, self.ask("POST", "session").headers)
        return self

    def take(self) -> int:
        """Return the id of the runner's job, or 0 without a job."""
        reply = self.ask("GET", "job")
        return int(reply.body["job_id"]) if reply.status == 200 else 0

    def end(self, job: int, conclusion: str = "success", log: str = "") -> Reply:
        steps = [{"name": "Run true", "conclusion": conclusion, "number": 1}]
        return self.ask("POST", f"job/{job}", {"conclusion": conclusion, "steps": steps, "log": log})

    @property
    def shown(self) -> Any:
        return next(one for one in self.hub.get(RUNNERS)["runners"] if one["id"] == self.id)

    @property
    def state(self) -> tuple[str, bool]:
        return self.shown["status"], self.shown["busy"]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "world.db")
    yield made
    made.close()


@pytest.fixture
def hub(world: World) -> Hub:
    return Hub(world)
