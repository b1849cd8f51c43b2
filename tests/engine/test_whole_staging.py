"""Tests all of staging with the real engine: every kind of pool, the GitHub resources, and no readable secret."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from gpu_common import pulumi_wire
from pulumi_sandbox.providers import rsa_key
from pulumi_sandbox.world.store import World

from tests.conftest import ROOT, lay_out
from tests.sandbox_runner import SandboxRunner

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

UP = ("up", "--stack", "staging", "--yes", "--skip-preview")
PLANTED = "planted-47"
FIRST, SECOND = f"{PLANTED}11-token", f"{PLANTED}12-token"
# The keys that the world makes for itself: machines rehearse with one of them, so it has to be a real one.
APPS = {"github-admin-app-key": "2345678", "github-app-key": "1234567"}


def keep(folder: Path, token: str) -> None:
    """Give two secrets in the emulated Secret Manager values that tests can search for."""
    settings = yaml.safe_load((ROOT / "sandbox.yaml").read_text())
    values = [("registry-token", token), *((name, f"${{made.rsaPrivateKeys.{app}}}") for name, app in APPS.items())]
    settings["lookups"] = {
        "gcp:secretmanager/getSecretVersionAccess:getSecretVersionAccess": [
            {"match": {"secret": f"*/{name}"}, "secrets": ["secretData"], "result": {"secretData": value}}
            for name, value in values
        ]
    }
    (folder / "sandbox.yaml").write_text(yaml.safe_dump(settings))


STEPS = {"kind": "steps", "steps": [{"kind": "docker", "image": "kernels"}]}
FILE = {"kind": "file", "filename": "cloudbuild.yaml"}
TRIGGERS = {
    "main": {"repository": "acme/kernels", "event": {"kind": "push", "branch": "^main$"}, "build": STEPS},
    "pull": {"repository": "acme/kernels", "event": {"kind": "pull-request", "branch": "^main$"}, "build": FILE},
    "release": {"repository": "acme/kernels", "event": {"kind": "tag", "tag": "^v"}, "build": FILE, "approval": True},
}


def with_triggers(folder: Path) -> None:
    """Write staging's stack file with a trigger of every kind on its pool of builds."""
    settings = yaml.safe_load((ROOT / "Pulumi.staging.yaml").read_text())
    settings["config"]["gpu-ci:pools"]["builds"]["triggers"] = TRIGGERS
    (folder / "Pulumi.staging.yaml").write_text(yaml.safe_dump(settings))


# The engine hands a provider its own configuration, the App's key here, without the mark.
CONFIGURING = {"CheckConfig", "Configure"}
SEALED = pulumi_wire.SECRET  # the engine's mark of a secret value


def watched(runner: SandboxRunner, *words: str, **environment: str) -> tuple[str, list[str]]:
    """Return the output of a command, and the command lines of all its processes."""
    seen: set[str] = set()
    process = runner.start(*words, **environment)
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.2):
            seen.update(runner.processes().values())

    watcher = threading.Thread(target=look)
    watcher.start()
    output, _ = process.communicate(timeout=240)
    ended.set()
    watcher.join()
    assert process.returncode == 0, output
    return output, sorted(seen)


def unsealed(message: Any, planted: str = PLANTED, sealed: bool = False) -> Iterator[str]:
    """Yield the texts with a planted value that are sent without the mark of a secret."""
    if isinstance(message, dict):
        sealed = sealed or SEALED in message.values()
        for value in message.values():
            yield from unsealed(value, planted, sealed)
    elif isinstance(message, list):
        for value in message:
            yield from unsealed(value, planted, sealed)
    elif isinstance(message, str) and planted in message and not sealed:
        yield message


@pytest.mark.slow
def test_everything_comes_up_proven_and_a_secret_is_nowhere_in_plain_text(tmp_path: Path) -> None:
    runner = SandboxRunner(project=tmp_path / "the project", folder=tmp_path / "a sandbox")
    runner.project.mkdir()
    lay_out(runner.project)
    with_triggers(runner.project)
    keep(runner.project, FIRST)
    traffic = tmp_path / "traffic.json"
    try:
        output, commands = watched(runner, *UP, "--diff", PULUMI_DEBUG_GRPC=str(traffic))
        made = Counter(row["type"].rpartition(":")[2] for row in runner.world())
        assert (made["RegionInstanceTemplate"], made["RegionInstanceGroupManager"]) == (3, 2)
        assert made["WorkerPool"] == made["ActionsRunnerGroup"] == made["RepositoryRuleset"] == 1
        triggers = {row["name"]: row["inputs"] for row in runner.world() if row["type"].endswith(":Trigger")}
        for role in ("reaper", "ended"):
            assert "pubsubConfig" in triggers.pop(f"gpu-tests-{role}-trigger")
        assert {name: sorted(given["github"]) for name, given in triggers.items()} == {
            "builds-trigger-main": ["name", "owner", "push"],
            "builds-trigger-pull": ["name", "owner", "pullRequest"],
            "builds-trigger-release": ["name", "owner", "push"],
        }
        assert (made["ActionsSecret"], made["ActionsVariable"]) == (1, 1)
        assert made["Instance"] == 0, "a check machine stayed behind"
        outputs = runner.json("stack", "output", "--stack", "staging", "--json")
        # Two Jobs run the checks of the nodes. The other is the schedule of the reaper.
        assert (made["NodeGroup"], made["NodePool"], made["Job"], made["Release"]) == (1, 1, 3, 5)
        assert {name: pool.get("verdict") for name, pool in outputs["pools"].items()} == {
            "a10g": "pass",
            "a10g-ec2": "pass",
            "builds": None,
            "gpu-tests": "pass",
            "l4": "pass",
            "l4-gke": "pass",
            "l4-rented": "unproven",
            "t4": "pass",
        }
        assert outputs["github"]["runnerGroup"] == "gpu-staging"

        keep(runner.project, SECOND)
        rotated = runner.run(*UP, "--diff")
        # The 151 of staging, three triggers, and the account that builds of pull requests run as, with its rights.
        assert rotated.has("~ 1 updated", "157 unchanged", "kernels-secret-REGISTRY_TOKEN")

        assert len(commands) > 4, "no process was seen at work"
        messages = [json.loads(line) for line in traffic.read_text().splitlines()]
        assert any(PLANTED in json.dumps(message) for message in messages), "nothing secret was on its way"
        open_ones = {message["method"] for message in messages if any(unsealed(message))}
        assert {method.rpartition("/")[2] for method in open_ones} <= CONFIGURING
        traffic.unlink()
        kept = [file for file in tmp_path.rglob("*") if file.is_file() and file.name != "sandbox.yaml"]
        assert len(kept) > 20, "there was nothing to search"
        assert [str(file) for file in kept if PLANTED.encode() in file.read_bytes()] == []
        said = [output, rotated.output, str(runner.state("staging")), *commands]
        assert [text for text in said if PLANTED in text] == []

        # The Apps' keys are in the world's file, and nowhere else.
        world = World(runner.folder / "world.db")
        lines = [rsa_key.private_key(world, app).splitlines()[7] for app in APPS.values()]
        world.close()
        kept = [file for file in kept if not file.name.startswith("world.db")]
        for line in lines:
            assert [str(file) for file in kept if line.encode() in file.read_bytes()] == []
            assert [text for text in said if line in text] == []
    finally:
        runner.close()
