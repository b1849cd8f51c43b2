"""`gpu-ci doctor` against the APIs that the sandbox serves: all is ready, and what sandbox.yaml breaks."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from pulumi_sandbox.cli.serve import serving
from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world.store import Record, World

from tests.bootstrap.stacks import WIDE
from tests.gpu_ci.cli.conftest import Answer, Ask

pytestmark = pytest.mark.slow

ACCOUNT = "deployer@acme-ci.iam.gserviceaccount.com"
BUCKET = "acme-ci-pulumi-state"
Change = tuple[str, str]


@pytest.fixture
def folder(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new repository whose Apps have numbers, with a state bucket and a key for secrets."""
    chosen = ["--project", "acme-ci", "--pool", "l4=g2-standard-8", "--organization", "acme", "--repository", "kernels"]
    assert ask("init", "pools", *chosen, "--write").code == 0
    made = tmp_path / "pools"
    stack, settings = (made / name for name in ("Pulumi.dev.yaml", "sandbox.yaml"))
    for old, new in ((1, 101), (3, 103)):
        stack.write_text(stack.read_text().replace(f"{{id: {old}, installationId: 1{old},",
                                                   f"{{id: {new}, installationId: 101{old},"))  # fmt: skip
        text = settings.read_text().replace(f"apps/{old}/installations/1{old}", f"apps/{new}/installations/101{old}")
        settings.write_text(text.replace(f"    {old}: {{", f"    {new}: {{").replace(f"Keys.{old}}}", f"Keys.{new}}}"))
    edit(settings, ("secrets/*", f"secrets/*\n    - buckets/{BUCKET}"))
    key = "gcpkms://projects/acme-ci/locations/us-central1/keyRings/pulumi/cryptoKeys/pulumi-secrets"
    stack.write_text(f"{stack.read_text()}secretsprovider: {key}\n")
    monkeypatch.chdir(made)
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"gs://{BUCKET}")
    return made


ON_GKE = ["--gke-cluster", "gpu", "--location", "us-central1", "--runner-image", f"ghcr.io/acme/r@sha256:{'1' * 64}"]


def test_the_steps_about_a_gke_cluster_ask_the_sandbox(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = ["--project", "acme-ci", "--pool", "l4=g2-standard-8", "--organization", "acme", "--repository", "kernels"]
    assert ask("init", "pools", *chosen, *ON_GKE, "--write").code == 0
    monkeypatch.chdir(tmp_path / "pools")
    answer = doctor()
    found = {step["name"]: step["status"] for step in answer.json["steps"] if step["name"].startswith("gke/")}
    asked = ("gke/cluster", "gke/network policies", "gke/machines", "gke/quotas", "gke/networks", "gke/node pools")
    assert {name: found[name] for name in asked} == dict.fromkeys(asked, "pass")
    (tmp_path / "pools/sandbox.yaml").write_text(
        (tmp_path / "pools/sandbox.yaml").read_text().replace("  gcp:\n", "  gcp:\n    - projects/*/clusters/other\n")
    )
    [step] = [step for step in doctor().json["steps"] if step["name"] == "gke/cluster"]
    assert (step["status"], step["got"]) == ("fail", "gpu does not exist in us-central1 of acme-ci")


def edit(file: Path, *changes: Change) -> None:
    text = file.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)


def doctor(times: int = 1) -> Answer:
    """Run the command against a new server. Every further answer is equal, and no record of the world changes.

    Each run is a process, because google.auth reads the address of the metadata server when it is imported.
    """
    workspace = Workspace.find()
    workspace.prepare()
    command = [sys.executable, "-m", "gpu_ci.cli", "doctor", "Pulumi.dev.yaml", "--json"]
    answers, worlds = [], []
    with serving(workspace, None) as environment:
        for _ in range(times):
            done = subprocess.run(
                command, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=120
            )
            answers.append(Answer(done.returncode, done.stdout, done.stderr))
            worlds.append(dump(workspace.world))
    assert answers == answers[:1] * times
    assert worlds == worlds[:1] * times
    return answers[0]


def dump(file: Path) -> list[str]:
    with sqlite3.connect(file) as world:
        return list(world.iterdump())


def failed(answer: Answer) -> dict[str, str]:
    return {step["name"]: step["got"] for step in answer.json["steps"] if step["status"] != "pass"}


def test_every_step_passes_and_a_second_run_answers_the_same(folder: Path) -> None:
    answer = doctor(times=2)
    assert (failed(answer), answer.code, len(answer.json["steps"])) == ({}, 0, 17)


@pytest.mark.parametrize(
    ("change", "step", "got"),
    [
        (("apps/103/installations/1013", "apps/103/installations/1019"), "github/managerApp",
         "the App has no installation 1013"),
        (("Keys.103}", "Keys.101}"), "github/managerApp",
         "GitHub answered 401: there is no App 103 with the key in projects/acme-ci/secrets/github-manager-app-key"),
        ((f"\n    - buckets/{BUCKET}", ""), "state/backend", f"gs://{BUCKET} does not exist"),
    ],
)  # fmt: skip
def test_what_sandbox_yaml_breaks_fails_its_own_step(folder: Path, change: Change, step: str, got: str) -> None:
    edit(folder / "sandbox.yaml", change)
    answer = doctor()
    assert (failed(answer), answer.code) == ({step: got}, 1)


def test_a_disabled_secret_manager_fails_the_step_of_the_apis_and_no_secret_is_called_usable(folder: Path) -> None:
    settings = folder / "sandbox.yaml"
    disabled = "restrictions: {gcp: {disabledServices: [secretmanager.googleapis.com]}}\n"
    settings.write_text(settings.read_text() + disabled)
    answer = doctor()
    found = {step["name"]: step["status"] for step in answer.json["steps"] if step["status"] != "pass"}
    assert found == {
        "google/apis": "fail",
        "google/secrets": "unknown",
        "github/app": "unknown",
        "github/managerApp": "unknown",
    }
    assert failed(answer)["google/apis"] == "not enabled: secretmanager.googleapis.com"
    assert answer.err == "".join(f"{step['name']} ...\n" for step in answer.json["steps"])


def test_a_deployer_that_lacks_one_permission_fails_that_step_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = ["resourcemanager.projects.get", "resourcemanager.projects.getIamPolicy", "serviceusage.services.get",
             "orgpolicy.policy.get", "storage.buckets.get"]  # fmt: skip
    permissions = sorted({*WIDE, *reads} - {"compute.networks.create"})
    workspace = Workspace.find()
    workspace.prepare()
    world = World(workspace.world)
    role = "projects/acme-ci/roles/gpu_ci_deploy"
    world.insert(Record(types.CUSTOM_ROLE, role, "deploy", "", {"permissions": permissions}, {}))
    grant = {"project": "acme-ci", "role": role, "member": f"serviceAccount:{ACCOUNT}"}
    world.insert(Record(types.PROJECT_MEMBER, "member", "member", "", grant, grant))
    world.close()
    monkeypatch.setenv("PULUMI_SANDBOX_GOOGLE_ACCOUNT", ACCOUNT)
    assert failed(doctor()) == {"google/permissions": "missing: compute.networks.create"}
