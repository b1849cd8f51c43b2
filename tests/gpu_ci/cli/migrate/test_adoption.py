"""The import of a drafted stack with the real engine: nothing that was imported is replaced."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT
from tests.gpu_ci.cli.migrate.test_migrate import GROUPS, IMAGE, NAMES, STATES
from tests.sandbox_runner import SandboxRunner

pytestmark = [pytest.mark.slow, pytest.mark.engine]

GROUP = "github:index/actionsRunnerGroup:ActionsRunnerGroup"
APP = {"id": 1, "installationId": 11, "privateKey": "projects/acme-ci/secrets/github-admin-app-key"}
# What a pod can have on g6.xlarge.
SMALL = {"cpus": 3, "memoryGib": 13}
SUBNETS = {"us-east-1a": "subnet-0a1b2c3d4e5f60001"}


def old_stack(group: dict[str, Any]) -> dict[str, Any]:
    """A stack with the runner group, as Terraform would have created it, and one pool because a stack needs one."""
    return {
        "gcp:project": "acme-ci",
        "gpu-ci:site": {"github": {"owner": "acme", "plan": "enterprise", "app": APP}},
        "gpu-ci:github": {"runnerGroup": group},
        "gpu-ci:pools": {"builds": {"kind": "cloud-build", "region": "us-central1"}},
    }


def written_by_the_user(name: str, config: dict[str, Any]) -> None:
    """Add what the draft's comments ask for."""
    if name == "instance-groups":
        config["gpu-ci:pools"]["a100-big"]["max"] = 1
    if name == "google-gke":
        config["gpu-ci:pools"]["arc-runners"]["runner"]["image"] = IMAGE
    if name == "aws-module":
        config["gpu-ci:clusters"] = {"ci": {"region": "us-east-1", "subnets": SUBNETS}}
        for pool in config["gpu-ci:pools"].values():
            pool |= {"clusterName": "ci", "runner": {"image": IMAGE, **SMALL}, "max": pool.get("max", 2)}
    if "selectedWorkflows" in GROUPS[name]:
        config["gpu-ci:site"]["github"]["plan"] = "enterprise"


@pytest.mark.parametrize("name", NAMES)
def test_the_imported_group_is_unchanged_and_everything_else_is_new(tmp_path: Path, name: str) -> None:
    project = tmp_path / "pools"
    runner = SandboxRunner(project, tmp_path / "sandbox")
    engine = {"PULUMI_SANDBOX_ENGINE_DIR": str(ROOT / ".engine")}
    start = runner.start
    runner.start = lambda *args, **more: start(*args, **engine, **more)  # type: ignore[method-assign]
    state = tmp_path / "state.json"
    state.write_text((STATES / f"{name}.json").read_text())

    def migrate() -> None:
        command = [
            Path(sys.executable).with_name("gpu-ci"),
            "migrate",
            state,
            "--project",
            "acme-ci",
            "--write",
            project,
        ]
        subprocess.run(command, check=True, capture_output=True)

    # The program first, because the number of the group is known only after the group exists.
    migrate()
    (project / ".venv").symlink_to(sys.prefix)
    sandbox = yaml.safe_load((project / "sandbox.yaml").read_text())
    sandbox["github"]["plans"] = {"acme": "enterprise"}
    (project / "sandbox.yaml").write_text(yaml.safe_dump(sandbox))
    (project / "Pulumi.old.yaml").write_text(yaml.safe_dump({"config": old_stack(GROUPS[name])}))
    try:
        runner.run("up", "--stack", "old", "--yes", "--skip-preview")
        runner.run("stack", "rm", "--stack", "old", "--force", "--yes")
        [group] = [each for each in runner.world() if each["type"] == GROUP]
        state.write_text(state.read_text().replace("GROUP_ID", group["id"]))
        for file in ("Pulumi.dev.yaml", "import.json"):
            (project / file).unlink()
        migrate()
        change(project / "Pulumi.dev.yaml", lambda config: written_by_the_user(name, config))

        runner.run(
            "import", "--file", "import.json", "--stack", "dev", "--yes", "--generate-code=false", "--protect=false"
        )
        _, steps = runner.steps("preview", "--stack", "dev")
        assert "runners-group" not in [resource for _, resource in steps]
        assert {operation for operation, _ in steps} == {"create"}
        [imported] = [each for each in runner.state("dev") if each["type"] == GROUP]
        assert imported["id"] == group["id"]
    finally:
        runner.close()


def change(path: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    document = yaml.safe_load(path.read_text())
    edit(document["config"])
    path.write_text(yaml.safe_dump(document, sort_keys=False))
