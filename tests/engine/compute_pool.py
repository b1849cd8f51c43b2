"""Helpers for staging with one pool on Compute Engine, and for its runner manager in the sandbox."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml
from pulumi_sandbox.providers.rsa_key import private_key
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world.store import World

from tests.conftest import ROOT, project_of, sandbox_settings
from tests.sandbox_runner import SandboxRunner

UP = ("up", "--stack", "staging", "--yes", "--skip-preview")
GPU_CI = str(Path(sys.executable).parent / "gpu-ci")


def config_with_l4(**changes: Any) -> dict[str, Any]:
    """Return the config of staging with only its L4 pool and its runner group. `changes` are fields of the pool."""
    config: dict[str, Any] = yaml.safe_load((ROOT / "Pulumi.staging.yaml").read_text())["config"]
    config["gpu-ci:pools"] = {"l4": {**config["gpu-ci:pools"]["l4"], **changes}}
    config["gpu-ci:github"] = {"runnerGroup": config["gpu-ci:github"]["runnerGroup"]}
    del config["gpu-ci:clusters"]
    return config


def staging_with_l4(folder: Path, **changes: Any) -> SandboxRunner:
    """Return staging with that config, not deployed."""
    project = project_of(folder, "the project", config_with_l4(**changes), sandbox_settings())
    return SandboxRunner(project, folder / "a sandbox")


def environment(runner: SandboxRunner) -> dict[str, str]:
    """Return the environment variables of a program that runs next to the sandbox."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PULUMI_")}
    return kept | {"PULUMI_SANDBOX_DIR": str(runner.folder), "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}


def served(runner: SandboxRunner, server: subprocess.Popen[str]) -> dict[str, str]:
    """Wait for `pulumi-sandbox serve`, and return the environment variables with which programs find its APIs."""
    file = runner.folder / "serve.env"
    while not file.exists():
        assert server.poll() is None
        time.sleep(0.1)
    return dict(line.removeprefix("export ").split("=", 1) for line in file.read_text().splitlines())


def manager_files(runner: SandboxRunner, folder: Path) -> tuple[dict[str, Any], list[str]]:
    """Return the stack's output `manager`, and the options for its file and for the App's key."""
    config: dict[str, Any] = runner.json("stack", "output", "manager", "--json", "--stack", "staging")
    world = World(Workspace(runner.folder).world)
    (folder / "key.pem").write_text(private_key(world, str(config["github"]["appId"])))
    world.close()
    (folder / "manager.json").write_text(json.dumps(config))
    return config, ["--config", str(folder / "manager.json"), "--app-key", str(folder / "key.pem")]


def run_manager(options: list[str], folder: Path) -> list[str]:
    """Return the command that runs the manager until it is idle."""
    state = str(folder / "state.sqlite")
    return [GPU_CI, "manager", "run", "--until-idle", "--interval-sec", "0.5", "--state", state, *options]
