"""The agent's unit and Google's unit on the fake systemd."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from tests.agent.fakes import events, whole_machine
from tests.agent.fakes.jobs import WAITS, WAITS_FOR_GO, job
from tests.agent.fakes.whole_machine import AT_WORK, Plan

RunMachine = Callable[..., dict[str, Any]]


def test_a_stop_of_the_machine_reaches_the_job_and_github_before_the_network_is_down(run_machine: RunMachine) -> None:
    found = run_machine(Plan(does=job(WAITS), at=[(AT_WORK, events.terminate)]))
    assert found["reason"] == "stopped", found["serial"]
    assert (found["end"]["step"], found["end"]["job"]["run_id"]) == ("job", "77")
    assert found["published"] == ["stopped"]


@pytest.mark.slow
def test_systemd_switches_a_machine_off_whose_boot_script_is_killed(
    tmp_path: Path, app_key: bytes, public_key: RSAPublicKey
) -> None:
    """The script is the main process of the agent's unit, so the agent ends with it and cannot report why."""
    plan = Plan(does=job(WAITS), at=[(AT_WORK, events.kill_boot_script)])
    found = whole_machine.run_machine(tmp_path, app_key, public_key, plan)
    assert (found["alive"], found["off by systemd"], found["end"]) == (False, True, None), found["serial"]


@pytest.mark.slow
def test_a_second_start_of_the_script_leaves_the_agent_and_its_job_alone(run_machine: RunMachine) -> None:
    found = run_machine(Plan(does=job(WAITS_FOR_GO), at=[(AT_WORK, events.start_again), (AT_WORK, events.go)]))
    assert (found["reason"], found["published"]) == ("job-done", ["job-done"]), found["serial"]
    assert "gpu-ci: the boot agent already runs on this machine" in found["serial"]
