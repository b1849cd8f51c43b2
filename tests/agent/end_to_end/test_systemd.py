"""Compares the agent's unit and Google's unit on a real systemd and on the fake one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from tests.agent.fakes import events, real_systemd, whole_machine
from tests.agent.fakes.jobs import WAITS, WAITS_FOR_GO, job
from tests.agent.fakes.real_systemd import RealSystemd
from tests.agent.fakes.systemd import Systemd
from tests.agent.fakes.whole_machine import AT_WORK, Plan

RunMachine = Callable[..., dict[str, Any]]


@pytest.fixture(params=[Systemd, pytest.param(RealSystemd, marks=pytest.mark.slow)])
def systemd(request: pytest.FixtureRequest) -> type[Systemd]:
    if request.param is RealSystemd:
        real_systemd.needs()
    kind: type[Systemd] = request.param
    return kind


def test_a_stop_of_the_machine_reaches_the_job_and_github_before_the_network_is_down(
    run_machine: RunMachine, systemd: type[Systemd]
) -> None:
    found = run_machine(Plan(does=job(WAITS), systemd=systemd, at=[(AT_WORK, events.terminate)]))
    assert found["reason"] == "stopped", found["serial"]
    assert (found["end"]["step"], found["end"]["job"]["run_id"]) == ("job", "77")
    assert found["published"] == ["stopped"]
    if systemd is RealSystemd:
        assert "Stopped apt-daily.timer" in found["serial"]


@pytest.mark.slow
def test_systemd_switches_a_machine_off_whose_boot_script_is_killed(
    tmp_path: Path, app_key: bytes, public_key: RSAPublicKey, systemd: type[Systemd]
) -> None:
    """The script is the main process of the agent's unit, so the agent ends with it and cannot report why."""
    plan = Plan(does=job(WAITS), systemd=systemd, at=[(AT_WORK, events.kill_boot_script)])
    found = whole_machine.run_machine(tmp_path, app_key, public_key, plan)
    assert (found["alive"], found["off by systemd"], found["end"]) == (False, True, None), found["serial"]


@pytest.mark.slow
def test_a_second_start_of_the_script_leaves_the_agent_and_its_job_alone(run_machine: RunMachine) -> None:
    found = run_machine(Plan(does=job(WAITS_FOR_GO), at=[(AT_WORK, events.start_again), (AT_WORK, events.go)]))
    assert (found["reason"], found["published"]) == ("job-done", ["job-done"]), found["serial"]
    assert "gpu-ci: the boot agent already runs on this machine" in found["serial"]


@pytest.mark.slow
def test_an_image_without_systemd_run_has_the_agent_in_the_unit_of_startup_scripts(run_machine: RunMachine) -> None:
    found = run_machine(Plan(has_systemd_run=False))
    assert found["reason"] == "job-done", found["serial"]
    assert "gpu-ci: the agent starts in the unit of startup scripts: System has not been booted" in found["serial"]
