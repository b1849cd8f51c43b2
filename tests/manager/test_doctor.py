"""`gpu-ci doctor manager.json`: a manager for which everything is ready, and each missing prerequisite."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from gpu_ci.cli import google_api
from gpu_ci.cli.commands import gpu_ci
from gpu_ci.gcp import manager_permissions
from gpu_common import google_permissions
from gpu_manager import doctor
from gpu_manager.github.adapter import GithubAdapter

from tests.gpu_ci.cli.doctor.google_apis import Google
from tests.manager.github.fake_github import APP, INSTALLATION, KEY, ORG, URL, FakeGithub
from tests.manager.suppliers.ec2.test_pool import EC2_POOL
from tests.manager.test_config import POOL

ACCOUNT = "l4@acme-ci.iam.gserviceaccount.com"
TEMPLATE = "https://www.googleapis.com/compute/v1/projects/acme-ci/regions/us-central1/instanceTemplates/l4-1"
CONFIG: dict[str, Any] = {
    "name": "staging",
    "github": {"owner": ORG, "appId": APP, "installationId": INSTALLATION, "apiUrl": URL},
    "pools": [{**POOL, "project": "acme-ci", "template": TEMPLATE, "runnerGroup": "gpu"}],
}
STEPS = [
    "app key", "runner groups", "queue", "templates", "permissions", "service accounts",
]  # fmt: skip
GRANTED = google_permissions.of_calls(manager_permissions.MACHINES)


@dataclass
class Cloud(Google):
    """The Google APIs of the checklist, with one template and its service account."""

    permissions: set[str] = field(default_factory=lambda: set(GRANTED))
    template: bool = True
    may_act_as: bool = True

    def routes(self, service: str) -> list[tuple[str, str, Any]]:
        if service == "iam":
            path = rf"/v1/projects/-/serviceAccounts/{ACCOUNT}:testIamPermissions"
            return [(path, "TestIamPermissionsResponse", self._of_account)]
        return super().routes(service)

    def _compute(self) -> list[tuple[str, str, Any]]:
        path = r"/compute/v1/projects/acme-ci/regions/us-central1/instanceTemplates/l4-1"
        return [(path, "InstanceTemplate", self._template)]

    def _template(self, *_: Any) -> Any:
        return {"name": "l4-1", "properties": {"serviceAccounts": [{"email": ACCOUNT}]}} if self.template else None

    def _of_account(self, _: Any, __: Any, body: Any) -> Any:
        return {"permissions": body["permissions"]} if self.may_act_as else {}


@dataclass
class World:
    """GitHub and Google of one manager."""

    github: FakeGithub
    cloud: Cloud


Doctor = Callable[[], dict[str, tuple[str, str]]]


@pytest.fixture
def world() -> World:
    return World(FakeGithub(), Cloud())


@pytest.fixture
def diagnose(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Doctor:
    def connected(url: str, app: Any, owner: str, groups: set[str], *, public: bool) -> GithubAdapter:
        clocks, transport = world.github.clock.clocks(), world.github.transport()
        return GithubAdapter(url, app, owner, groups, public=public, clocks=clocks, transport=transport)

    monkeypatch.setattr(google_api, "connect", lambda: google_api.calls_over(world.cloud))
    monkeypatch.setattr(doctor, "GithubAdapter", connected)
    monkeypatch.delenv("GITHUB_API_URL", raising=False)
    (tmp_path / "manager.json").write_text(json.dumps(CONFIG))
    (tmp_path / "key.pem").write_bytes(KEY)

    def call() -> dict[str, tuple[str, str]]:
        words = [str(tmp_path / "manager.json"), "--app-key", str(tmp_path / "key.pem")]
        answer = CliRunner().invoke(gpu_ci, ["doctor", *words, "--json"])
        steps = json.loads(answer.stdout)["steps"]
        found = {step["name"].removeprefix("manager/"): (step["status"], step["got"]) for step in steps}
        assert answer.exit_code == int(any(status == "fail" for status, _ in found.values()))
        return found

    return call


def others_pass(found: dict[str, tuple[str, str]], *names: str) -> bool:
    return all(status == "pass" for name, (status, _) in found.items() if name not in names)


def test_every_step_passes_where_all_is_ready(world: World, diagnose: Doctor) -> None:
    found = diagnose()
    assert {name: status for name, (status, _) in found.items()} == dict.fromkeys(STEPS, "pass")
    assert found["runner groups"][1] == "gpu: 1 repositories"


def test_nothing_is_changed(world: World, diagnose: Doctor) -> None:
    diagnose()
    posts = [asked for asked in world.github.asked if not asked.startswith("GET ")]
    assert set(posts) == {f"POST /app/installations/{INSTALLATION}/access_tokens"}
    assert [
        each for each in world.cloud.asked if "testIamPermissions" not in each and not each.startswith("GET ")
    ] == []


def test_a_file_without_a_key_is_named(world: World, diagnose: Doctor, tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text("no key")
    found = diagnose()
    assert found["app key"][0] == "unknown"
    assert "key.pem: does not contain an unencrypted RSA private key" in found["app key"][1]


def test_the_template_of_a_rung_is_checked_too(world: World, diagnose: Doctor, tmp_path: Path) -> None:
    [pool] = CONFIG["pools"]
    far = TEMPLATE.replace("us-central1", "us-east1")
    rung = {**pool["rungs"][0], "zone": "us-east1-b", "template": far}
    config = {**CONFIG, "pools": [{**pool, "rungs": [*pool["rungs"], rung]}]}
    (tmp_path / "manager.json").write_text(json.dumps(config))
    found = diagnose()
    assert found["templates"][0] == "unknown"
    assert "regions/us-east1/instanceTemplates/l4-1" in found["templates"][1]


def test_each_permission_that_is_missing_is_named(world: World, diagnose: Doctor) -> None:
    world.cloud.permissions.remove("compute.instances.delete")
    found = diagnose()
    assert found["permissions"] == ("fail", "missing: compute.instances.delete on acme-ci")
    assert others_pass(found, "permissions")


def test_pools_of_another_supplier_need_nothing_of_google(world: World, diagnose: Doctor, tmp_path: Path) -> None:
    config = {**CONFIG, "pools": [{**EC2_POOL, "runnerGroup": "gpu"}]}
    (tmp_path / "manager.json").write_text(json.dumps(config))
    found = diagnose()
    assert {name: status for name, (status, _) in found.items()} == dict.fromkeys(STEPS, "pass")
    assert found["templates"] == found["permissions"] == ("pass", "no pool is on Compute Engine")
    assert world.cloud.asked == []
