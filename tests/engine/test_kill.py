"""A killed provider or a killed CLI costs nothing: the next `up` ends green, and whatever was half made is named.

`make test` kills at a few moments; `make test-kill` (KILL_POINTS=20) at twenty of each.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import time
from pathlib import Path

import pytest

from tests.conftest import Proven
from tests.sandbox_runner import SandboxRunner

pytestmark = pytest.mark.engine

POINTS = int(os.environ.get("KILL_POINTS", "1"))
WHO = {
    "provider": re.compile(r"pulumi_sandbox\.providers gcp"),
    "cli": re.compile(r"(^|/)pulumi up\b"),
}


def kill_during_up(sandbox: SandboxRunner, who: re.Pattern[str], after_sec: float) -> bool:
    """Start an `up` and kill, after some seconds, the first that fits; False when the `up` was over before."""
    up = sandbox.start("up", "--stack", "staging", "--yes", "--skip-preview")
    until = time.monotonic() + after_sec
    while time.monotonic() < until and up.poll() is None:
        time.sleep(0.02)
    victims: list[int] = []
    while not victims and up.poll() is None:  # a provider may not have been started yet
        victims = [pid for pid, command in sandbox.processes().items() if who.search(command)]
    for pid in victims:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    up.communicate(timeout=120)
    return bool(victims)


def up_after_advice(sandbox: SandboxRunner) -> None:
    """The next `up` ends green, after what pulumi and the sandbox themselves ask for and nothing else."""
    up = sandbox.start("up", "--stack", "staging", "--yes", "--skip-preview")
    output, _ = up.communicate(timeout=240)
    asked = "pulumi cancel" in output
    if asked:
        sandbox.run("cancel", "--stack", "staging", "--yes")
    for orphan in sandbox.json("world", "orphans", "--json"):
        asked = True
        _, *command = shlex.split(orphan["remove"])
        sandbox.run(*command)
    if up.returncode:
        assert asked, f"the next up failed and nothing says what to do:\n{output}"
        sandbox.run("up", "--stack", "staging", "--yes", "--skip-preview")


def knows_exactly_its_own(sandbox: SandboxRunner) -> None:
    world = sorted((row["type"], row["id"]) for row in sandbox.world())
    state = sorted(
        (resource["type"], resource["id"])
        for resource in sandbox.state("staging")
        if resource["custom"] and resource["type"].startswith("gcp:")
    )
    assert world == state
    assert len(world) >= 4


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("point", range(1, POINTS + 1))
def test_the_next_up_ends_green_after_a_kill(sandbox: SandboxRunner, proven_once: Proven, who: str, point: int) -> None:
    after_sec = proven_once.up_sec * point / (POINTS + 1)
    while not kill_during_up(sandbox, WHO[who], after_sec):
        sandbox.run("destroy", "--stack", "staging", "--yes")
        after_sec *= 0.8
    up_after_advice(sandbox)
    knows_exactly_its_own(sandbox)
    assert sandbox.json("world", "orphans", "--json") == []
    assert sandbox.gone() == {}, "processes outlived the run"


def test_a_half_made_template_is_named_with_the_command_that_removes_it(sandbox: SandboxRunner) -> None:
    sandbox.run("world", "break", "crash", "--on", "*RegionInstanceTemplate")
    killed = sandbox.run("up", "--stack", "staging", "--yes", "--skip-preview", ok=False)
    [orphan] = sandbox.json("world", "orphans", "--json")
    assert orphan["type"] == "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate"
    assert orphan["remove"] in killed.output
    assert orphan["adopt"] in killed.output

    sandbox.run("up", "--stack", "staging", "--yes", "--skip-preview")
    assert [row["id"] for row in sandbox.json("world", "orphans", "--json")] == [orphan["id"]]
    _, *command = shlex.split(orphan["remove"])
    sandbox.run(*command)
    knows_exactly_its_own(sandbox)


def test_ctrl_c_leaves_no_process_and_no_lock(sandbox: SandboxRunner) -> None:
    sandbox.run("world", "break", "slow", "--seconds", "60", "--on", "*RegionInstanceTemplate")
    up = sandbox.start("up", "--stack", "staging", "--yes", "--skip-preview")
    until = time.monotonic() + 60
    while not any("providers gcp" in command for command in sandbox.processes().values()):
        assert time.monotonic() < until
        time.sleep(0.1)
    time.sleep(2)
    os.killpg(up.pid, signal.SIGINT)
    up.communicate(timeout=60)
    assert sandbox.gone() == {}
    assert [path for path in Path(sandbox.folder).rglob("locks/**/*.json") if path.is_file()] == []
    sandbox.run("world", "mend", "--all")
    up_after_advice(sandbox)
    knows_exactly_its_own(sandbox)


@pytest.mark.parametrize("after_sec", [0, 0.3, 1, 2][: max(1, POINTS)])
def test_ctrl_c_inside_a_gate_deletes_its_machine_and_says_so(sandbox: SandboxRunner, after_sec: float) -> None:
    up = sandbox.start("up", "--stack", "staging", "--yes", "--skip-preview")
    assert up.stdout is not None
    before = []
    for line in up.stdout:
        before.append(line)
        if "starting a check machine" in line:
            break
    time.sleep(after_sec)
    os.killpg(up.pid, signal.SIGINT)
    after, _ = up.communicate(timeout=60)
    output = "".join(before) + after
    assert up.returncode != 0
    assert "the smoke check was cancelled" in output, output
    assert "Traceback" not in output
    assert "EOF" not in output
    assert sandbox.gone() == {}
    assert [row for row in sandbox.world() if row["origin"] == "api"] == [], "the check machine stayed behind"
    assert sandbox.json("world", "orphans", "--json") == []
    assert [path for path in sandbox.folder.rglob("locks/**/*.json") if path.is_file()] == []
    sandbox.run("up", "--stack", "staging", "--yes", "--skip-preview")
    knows_exactly_its_own(sandbox)
