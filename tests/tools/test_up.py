"""Tests of the output of `make up`, on a terminal and without one."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tools.up import Rows

# Prints as much as an engine, and writes one event where it is asked for them.
SANDBOX = """#!/bin/sh
seq -f 'engine line %.0f' 100
echo "$*"
while [ $# -gt 0 ]; do [ "$1" = --event-log ] && cp EVENTS "$2"; shift; done
exit CODE
"""


def step(kind: str, name: str, operation: str = "create") -> dict[str, Any]:
    return {kind: {"metadata": {"op": operation, "urn": f"urn:pulumi:dev::ci::gpu-ci:gcp:RunnerPool$x:y:Z::{name}"}}}


def test_each_pool_has_a_row_with_what_is_done_and_what_happens() -> None:
    rows = Rows(["l4", "l4-big"])
    for event in (
        step("resourcePreEvent", "l4-account"),
        step("resOutputsEvent", "l4-account"),
        step("resourcePreEvent", "l4-gate"),
        step("resOutputsEvent", "l4-big", "same"),
        step("resOpFailedEvent", "ci-stack", "update"),
    ):
        rows.add(event)
    assert str(rows.text()).splitlines() == [
        "l4      1 created; now: create l4-gate",
        "l4-big  1 unchanged",
        "others  1 failed",
    ]
    assert str(rows.text(ended=True)).splitlines()[0] == "l4      1 created"


def test_a_warning_is_kept_once_and_without_its_colors() -> None:
    rows = Rows([])
    for severity in ("warning", "warning", "info"):
        rows.add({"diagnosticEvent": {"severity": severity, "message": "<{%fg 3%}>old price<{%reset%}>\n"}})
    assert list(rows.warnings) == ["old price"]


@pytest.fixture
def fake(tmp_path: Path) -> Path:
    """Return a checkout whose sandbox is a script."""
    (tmp_path / "tools").mkdir()
    for name in ("up.py", "install.py"):
        (tmp_path / "tools" / name).write_text((ROOT / "tools" / name).read_text())
    (tmp_path / "Pulumi.dev.yaml").write_text("config: {'gpu-ci:pools': {l4: {}}}\n")
    (tmp_path / "events").write_text(json.dumps(step("resOutputsEvent", "l4-group")) + "\n")
    return tmp_path


def up(folder: Path, *arguments: str, code: int = 0, terminal: bool = True) -> str:
    program = folder / ".venv" / "bin" / "pulumi-sandbox"
    program.parent.mkdir(parents=True)
    program.write_text(SANDBOX.replace("CODE", str(code)).replace("EVENTS", str(folder / "events")))
    program.chmod(0o755)
    command = [sys.executable, "-m", "tools.up", "dev", *arguments]
    called = ["script", "-qec", shlex.join(command), "/dev/null"] if terminal else command
    ran = subprocess.run(called, cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode == code, ran.stderr
    return ran.stdout


def test_on_a_terminal_the_engines_output_is_in_a_log_that_the_last_line_names(fake: Path) -> None:
    shown = up(fake)
    assert "l4      1 created" in shown
    assert "engine line" not in shown
    assert "the engine's own output: .sandbox/up-dev.log" in shown
    assert len((fake / ".sandbox" / "up-dev.log").read_text().splitlines()) == 101


def test_after_a_failure_the_engines_whole_output_is_shown(fake: Path) -> None:
    assert up(fake, code=3).count("engine line") == 100


@pytest.mark.parametrize(("arguments", "terminal"), [((), False), (("-v",), True), (("-v", "--diff"), True)])
def test_without_a_terminal_or_with_arguments_the_engines_output_is_shown_as_it_comes(
    fake: Path, arguments: tuple[str, ...], terminal: bool
) -> None:
    shown = up(fake, *arguments, terminal=terminal)
    assert shown.count("engine line") == 100
    assert "--event-log" not in shown
    assert shown.splitlines()[-1].endswith(" --diff" if "--diff" in arguments else "--suppress-progress")
