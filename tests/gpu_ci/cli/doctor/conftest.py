"""An environment in which everything that `gpu-ci doctor` asks for is ready, until a test changes it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from gpu_ci.aws.limits import eks_api
from gpu_ci.cli import google_api, programs
from gpu_ci.cli.doctor import eks, google
from gpu_ci.cli.programs import NotAskedError, Output
from gpu_ci.github_trust import TEMPLATE_CLAIMS

from tests.gpu_ci.cli.conftest import Answer, Ask
from tests.gpu_ci.cli.doctor.google_apis import SECRETS, Google
from tests.gpu_ci.cli.doctor.programs import Account, connect
from tests.gpu_ci.cli.json_server import json_server

STACK = """\
config:
  gcp:project: acme-ci
  gpu-ci:site:
    subnetworks: {us-central1: projects/acme-ci/regions/us-central1/subnetworks/ci}
    github:
      owner: acme
      app: {id: 101, installationId: 1011, privateKey: projects/acme-ci/secrets/key}
      managerApp: {id: 103, installationId: 1013, privateKey: projects/acme-ci/secrets/manager-key}
  gpu-ci:github: {runnerGroup: {repositories: [kernels]}}
  gpu-ci:pools:
    l4: {kind: gce-runners, machineType: g2-standard-8, zones: [us-central1-a, us-central1-b], market: spot, max: 4}
secretsprovider: gcpkms://projects/acme-ci/locations/us-central1/keyRings/pulumi/cryptoKeys/pulumi-secrets
"""
KMS = "gcpkms://projects/acme-ci/locations/us-central1/keyRings/pulumi/cryptoKeys/pulumi-secrets"
BUCKET = "gs://acme-ci-pulumi-state"
PLANTED = "hush-hush-planted-value"


def new_key() -> tuple[bytes, Any]:
    key = rsa.generate_private_key(65537, 2048)
    form = serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()), key.public_key()


KEYS = {"key": new_key(), "manager-key": new_key()}


@dataclass
class Github:
    """A GitHub with both Apps installed, until a test changes it."""

    url: str = ""
    apps: dict[int, dict[str, Any]] = field(
        default_factory=lambda: {
            101: {"id": 101, "slug": "ci-admin", "owner": {"login": "acme"}, "note": PLANTED,
                  "permissions": {"metadata": "read", "organization_self_hosted_runners": "write"}},
            103: {"id": 103, "slug": "ci-manager", "owner": {"login": "Acme"},
                  "permissions": {"organization_self_hosted_runners": "write", "actions": "write"}},
        }
    )  # fmt: skip
    installations: dict[int, dict[str, Any]] = field(
        default_factory=lambda: {
            1011: {"app_id": 101, "account": {"login": "acme"}, "suspended_at": None,
                   "permissions": {"organization_self_hosted_runners": "write"}},
            1013: {"app_id": 103, "account": {"login": "acme"}, "suspended_at": None,
                   "permissions": {"organization_self_hosted_runners": "write", "actions": "write"}},
        }
    )  # fmt: skip
    release: dict[str, Any] = field(
        default_factory=lambda: {"tag_name": "v2.338.0", "published_at": "2026-11-18T10:00:00Z"}
    )
    status: int = 0
    """The status of every answer, if it is not 0."""
    text: str = ""
    """The text of every answer, if it is not empty."""
    asked: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)

    def answer(self, path: str, _: bytes, authorization: str) -> tuple[int, Any]:
        self.asked.append(path)
        if self.status or self.text:
            return self.status or 200, self.text or {"message": f"denied {authorization} {PLANTED}"}
        if path == "/repos/actions/runner/releases/latest":
            return 200, self.release
        token = authorization.removeprefix("Bearer ")
        self.tokens.append(token)
        claimed = int(jwt.decode(token, options={"verify_signature": False})["iss"])
        if claimed not in self.apps:
            return 404, {"message": f"Integration not found {PLANTED}"}
        try:
            jwt.decode(token, KEYS["key" if claimed == 101 else "manager-key"][1], algorithms=["RS256"])
        except jwt.InvalidSignatureError:
            return 401, {"message": f"A JSON web token could not be decoded {token}"}
        if path == "/app":
            return 200, self.apps[claimed]
        found = self.installations.get(int(path.removeprefix("/app/installations/")))
        return (200, found) if found and found["app_id"] == claimed else (404, {"message": "Not Found"})


@pytest.fixture
def github() -> Iterator[Github]:
    fake = Github()
    with json_server(fake.answer) as fake.url:
        yield fake


@dataclass
class Environment:
    """Everything that doctor asks, in order until a test changes it."""

    ask: Ask
    folder: Path
    github: Github
    cloud: Google = field(
        default_factory=lambda: Google(
            secrets={**SECRETS}, keys={name: pem for name, (pem, _) in KEYS.items()}
        )
    )  # fmt: skip
    account: Account = field(default_factory=Account)
    text: str = STACK
    project: str = "name: pools\nruntime: python\n"
    login: str = BUCKET
    """The backend that `pulumi whoami` names; without one, nobody is logged in."""
    has_credentials: bool = True
    quota_project: str | None = "acme-ci"
    subject: dict[str, Any] = field(
        default_factory=lambda: {"use_default": False, "include_claim_keys": list(TEMPLATE_CLAIMS)}
    )
    """GitHub's answer about the subject of the repository's tokens."""
    ran: list[str] = field(default_factory=list)

    def connect(self) -> google_api.Call:
        if not self.has_credentials:
            raise NotAskedError("Your default credentials were not found", google_api._LOGIN)
        return google_api.calls_over(self.cloud)

    def run(self, command: Sequence[str], *words: Any, **options: Any) -> Output:
        self.ran.append(" ".join(command))
        if command[0] == "gh":
            return Output(0, json.dumps(self.subject), "")
        if command[0] != "pulumi":
            return self.account.run(command, *words, **options)
        if not self.login:
            return Output(
                255, "", "error: PULUMI_ACCESS_TOKEN must be set for login during non-interactive CLI sessions"
            )
        return Output(0, json.dumps({"user": "ada", "url": self.login}), "")

    def replace(self, old: str, new: str) -> None:
        assert old in self.text
        self.text = self.text.replace(old, new)

    def doctor(self, *words: str) -> Answer:
        (self.folder / "Pulumi.dev.yaml").write_text(self.text)
        (self.folder / "Pulumi.yaml").write_text(self.project)
        return self.ask("doctor", "Pulumi.dev.yaml", "--github-url", self.github.url, *words)


@pytest.fixture
def environment(ask: Ask, tmp_path: Path, github: Github, monkeypatch: pytest.MonkeyPatch) -> Environment:
    found = Environment(ask, tmp_path, github)
    monkeypatch.delenv("PULUMI_BACKEND_URL", raising=False)
    monkeypatch.delenv("GOOGLE_IMPERSONATE_SERVICE_ACCOUNT", raising=False)
    monkeypatch.setattr(google_api, "connect", found.connect)
    monkeypatch.setattr(google, "quota_project", lambda: found.connect() and found.quota_project)
    monkeypatch.setattr(programs, "run", found.run)
    monkeypatch.setattr(eks, "connect", connect(lambda: found.account))
    monkeypatch.setattr(eks_api, "AwsClient", connect(lambda: found.account))
    return found


def statuses(answer: Answer) -> dict[str, str]:
    return {step["name"]: step["status"] for step in answer.json["steps"]}


def fixes(answer: Answer, name: str) -> list[str]:
    [found] = [step["fix"] for step in answer.json["steps"] if step["name"] == name]
    return list(found)
