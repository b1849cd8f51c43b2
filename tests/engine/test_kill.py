"""Tests that the next `up` succeeds after a killed provider or CLI.

`make test-slow` kills at one moment each; `make test-kill` (KILL_POINTS=20) at twenty.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import BroughtUp
from tests.sandbox_runner import AS_FOR_USERS, SandboxRunner, read_until

pytestmark = pytest.mark.engine

POINTS = int(os.environ.get("KILL_POINTS", "0"))
WHO = {
    "provider": re.compile(r"pulumi_sandbox\.providers gcp"),
    "cli": re.compile(r"(^|/)pulumi up\b"),
}


def kill_during_up(sandbox: SandboxRunner, who: re.Pattern[str], after_sec: float) -> bool:
    """Start an `up`, and kill the first matching process after some seconds. Return False if the `up` ended before."""
    up = sandbox.start("up", "--stack", "staging", "--yes", "--skip-preview", **AS_FOR_USERS)
    until = time.monotonic() + after_sec
    while time.monotonic() < until and up.poll() is None:
        time.sleep(0.02)
    found = False
    while not found and up.poll() is None:  # a provider may not have been started yet
        found = kill(sandbox, who)
    up.communicate(timeout=120)
    return found


def kill(sandbox: SandboxRunner, who: re.Pattern[str]) -> bool:
    """Kill every matching process with SIGKILL. Return False if there is no such process."""
    victims = [pid for pid, command in sandbox.processes().items() if who.search(command)]
    for pid in victims:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return bool(victims)


def half_made(sandbox: SandboxRunner) -> list[dict[str, Any]]:
    """Return the resources of the emulated clouds that the state of the stack does not have."""
    known = {(resource["type"], resource.get("id")) for resource in sandbox.state("staging")}
    return [row for row in sandbox.world() if (row["type"], row["id"]) not in known]


def up_after_advice(sandbox: SandboxRunner) -> None:
    """Check that the next `up` succeeds after only those steps that Pulumi's errors name."""
    up = sandbox.start("up", "--stack", "staging", "--yes", "--skip-preview", **AS_FOR_USERS)
    output, _ = up.communicate(timeout=240)
    # A lock stops the command before it tells of anything else.
    excused = "pulumi cancel" in output
    if excused:
        sandbox.run("cancel", "--stack", "staging", "--yes")
    for row in half_made(sandbox):
        excused |= blocks_the_update(row["id"], output)
        sandbox.run("world", "remove", f"{row['type']}/{row['id']}")
    if up.returncode:
        assert excused, f"the next up failed and nothing says what to do:\n{output}"
        sandbox.run("up", "--stack", "staging", "--yes", "--skip-preview")


def blocks_the_update(identity: str, output: str) -> bool:
    """Return True if an error names the half-created resource.

    An account that exists already causes such an error. A template does not, because the next template gets another
    name.
    """
    name = identity.rpartition("/")[2].partition("@")[0]
    return any("error:" in line.lower() and name in line for line in output.splitlines())


def knows_exactly_its_own(sandbox: SandboxRunner) -> None:
    world = sorted((row["type"], row["id"]) for row in sandbox.world())
    state = sorted(
        (resource["type"], resource["id"])
        for resource in sandbox.state("staging")
        if resource["custom"] and resource["type"].startswith("gcp:")
    )
    assert world == state
    assert len(world) >= 4


def ends_green_and_leaves_nothing(sandbox: SandboxRunner) -> None:
    up_after_advice(sandbox)
    knows_exactly_its_own(sandbox)
    assert sandbox.gone() == {}, "processes outlived the run"


@pytest.mark.parametrize(
    ("who", "line"),
    [("provider", "l4-template creat"), ("provider", "starting a check machine"), ("cli", "starting a check machine")],
)
@pytest.mark.slow
def test_the_next_up_ends_green_after_a_kill(sandbox: SandboxRunner, who: str, line: str) -> None:
    up = sandbox.start("up", "--stack", "staging", "--yes", "--skip-preview", **AS_FOR_USERS)
    read_until(up, line)
    assert kill(sandbox, WHO[who])
    up.communicate(timeout=120)
    ends_green_and_leaves_nothing(sandbox)


@pytest.mark.skipif(not POINTS, reason="a quarter of an hour: make test-kill")
@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("point", range(1, POINTS + 1))
def test_the_next_up_ends_green_after_a_kill_at_any_moment(
    sandbox: SandboxRunner, proven_once: BroughtUp, who: str, point: int
) -> None:
    after_sec = proven_once.up_sec * point / (POINTS + 1)
    while not kill_during_up(sandbox, WHO[who], after_sec):
        sandbox.run("destroy", "--stack", "staging", "--yes")
        after_sec *= 0.8
    ends_green_and_leaves_nothing(sandbox)


@pytest.mark.slow
def test_the_next_up_deletes_a_check_machine_that_a_killed_provider_left(sandbox: SandboxRunner) -> None:
    up = sandbox.start("up", "--stack", "staging", "--yes", "--skip-preview", **AS_FOR_USERS)
    read_until(up, "starting a check machine")
    while not (left := [row for row in sandbox.world() if row["origin"] == "api"]):
        assert up.poll() is None
    assert kill(sandbox, re.compile(""))  # all of them at once, as when the power fails
    up.communicate(timeout=120)
    assert [row["id"] for row in sandbox.world() if row["origin"] == "api"] == [row["id"] for row in left]

    sandbox.run("cancel", "--stack", "staging", "--yes")
    after = sandbox.run("up", "--stack", "staging", "--yes", "--skip-preview")
    for row in left:
        zone = row["id"].split("/")[3]
        assert after.has(f"deleting {row['name']}, left in {zone} by an earlier check")
    knows_exactly_its_own(sandbox)


@pytest.mark.slow
def test_a_crash_leaves_a_template_that_stops_no_later_up(sandbox: SandboxRunner) -> None:
    # All other resources are created first. Otherwise, the killed provider could leave them half-created too.
    sandbox.run("world", "break", "refuse", "--on", "*RegionInstanceTemplate")
    sandbox.run("up", "--stack", "staging", "--yes", "--skip-preview", ok=False)
    sandbox.run("world", "break", "crash", "--on", "*RegionInstanceTemplate")
    sandbox.run("up", "--stack", "staging", "--yes", "--skip-preview", ok=False)
    [row] = half_made(sandbox)
    assert row["type"] == "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate"
    sandbox.run("up", "--stack", "staging", "--yes", "--skip-preview")
    assert half_made(sandbox) == [row]
    sandbox.run("world", "remove", row["id"])
    knows_exactly_its_own(sandbox)


@pytest.mark.slow
def test_ctrl_c_leaves_no_process_and_no_lock(sandbox: SandboxRunner) -> None:
    sandbox.run("world", "break", "slow", "--seconds", "60", "--on", "*RegionInstanceTemplate")
    up = sandbox.start("up", "--stack", "staging", "--yes", "--skip-preview", **AS_FOR_USERS)
    before = read_until(up, "slow (a planted fault)")
    os.killpg(up.pid, signal.SIGINT)
    after, _ = up.communicate(timeout=60)
    assert up.returncode == 1, before + after
    assert "received; cancelling" in after
    assert "received; terminating" not in after
    assert "cancelled while it waited" in after
    assert sandbox.gone() == {}
    assert [path for path in Path(sandbox.folder).rglob("locks/**/*.json") if path.is_file()] == []
    assert sandbox.json("world", "faults", "--json") == []


@pytest.mark.slow
@pytest.mark.parametrize("after_sec", [0, 0.3, 1, 2][: max(1, POINTS)])
def test_ctrl_c_inside_a_gate_deletes_its_machine_and_says_so(sandbox: SandboxRunner, after_sec: float) -> None:
    up = sandbox.start("up", "--stack", "staging", "--yes", "--skip-preview", **AS_FOR_USERS)
    before = read_until(up, "starting a check machine")
    time.sleep(after_sec)
    os.killpg(up.pid, signal.SIGINT)
    after, _ = up.communicate(timeout=60)
    output = before + after
    assert up.returncode != 0
    assert "the smoke check was cancelled" in output, output
    assert "Traceback" not in output
    assert "EOF" not in output
    assert sandbox.gone() == {}
    assert [row for row in sandbox.world() if row["origin"] == "api"] == [], "the check machine stayed behind"
    assert [path for path in sandbox.folder.rglob("locks/**/*.json") if path.is_file()] == []
    sandbox.run("up", "--stack", "staging", "--yes", "--skip-preview")
    knows_exactly_its_own(sandbox)
