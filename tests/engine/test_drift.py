"""Tests that `gpu-ci drift --sandbox` finds changes of the emulated cloud that Pulumi did not make."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox_runner import SandboxRunner

pytestmark = pytest.mark.engine


def drift(runner: SandboxRunner) -> tuple[int, dict[str, Any]]:
    """Return the exit code, and the stack's part of the report."""
    finished = subprocess.run(
        [str(Path(sys.executable).parent / "gpu-ci"), "drift", "--sandbox", "--stack", "staging", "--json"],
        cwd=runner.project,
        env={**os.environ, "PULUMI_SANDBOX_DIR": str(runner.folder)},
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    [stack] = json.loads(finished.stdout)["stacks"]
    return finished.returncode, stack


@pytest.mark.slow
def test_changed_and_deleted_resources_are_found_and_nothing_is_changed(proven: SandboxRunner) -> None:
    assert drift(proven)[0] == 0

    proven.run("world", "edit", "l4-account", "displayName=mine")
    before = proven.state("staging")
    code, stack = drift(proven)
    [changed] = [one for one in stack["resources"] if one["operation"] != "same"]
    assert (code, changed["name"], changed["operation"]) == (2, "l4-account", "update")
    assert [(one["path"], one["before"], one["after"]) for one in changed["properties"]] == [
        ("displayName", '"machines of the GPU runner pool l4"', '"mine"')
    ]

    proven.run("world", "remove", "l4-log-writer")
    code, stack = drift(proven)
    found = {one["name"]: one["operation"] for one in stack["resources"] if one["operation"] != "same"}
    assert (code, found) == (3, {"l4-account": "update", "l4-log-writer": "delete"})
    told = {name: count for name, count in stack["counts"].items() if count and name != "same"}
    assert told == {"update": 1, "delete": 1}
    assert proven.state("staging") == before
