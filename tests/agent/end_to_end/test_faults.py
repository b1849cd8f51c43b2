"""Each fault of the machine itself, its GPU or its job, and how the machine ends after it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.agent.fakes import events
from tests.agent.fakes.boot import says
from tests.agent.fakes.jobs import WAITS_FOR_GO, job
from tests.agent.fakes.whole_machine import AT_WORK, TEMPORARY, Plan, RunningMachine
from tests.agent.test_boot import INSTALLER

# These tests run whole machines on the clock of this computer: `make test-boots`.
pytestmark = pytest.mark.many_boots

RunMachine = Callable[..., dict[str, Any]]
CASES = {
    "a check that fails": (Plan(smoke=says("GPU 0: wrong numbers", 1)), "check-failed"),
    "a check that hangs": (Plan(smoke="import time; time.sleep(60)", check_sec=2), "check-hung"),
    "a driver that is slow": (Plan(prepare=events.no_gpu, at=[(1.5, events.gpu)]), "job-done"),
    "a driver that does not come": (Plan(prepare=events.no_gpu), "no-driver"),
    "no room for the runner": (Plan(small={"/var/lib": "400k"}), "disk-full"),
    "no room for the check": (Plan(small={TEMPORARY: "150k"}, smoke=f"#{'x' * 9}\n" * 40_000), "disk-full"),
    "a runner that ends without a job": (Plan(does="end(1)"), "runner-failed"),
    "a runner that fails and fails": (Plan(does="end(2)"), "runner-failed"),
    "a runner that GitHub takes no longer": (Plan(does="end(7)"), "runner-deprecated"),
    "a runner that is killed": (Plan(does="os.kill(os.getpid(), 9)"), "runner-failed"),
    "a runner that ends in its job": (Plan(does=job("end(2)")), "runner-failed"),
}


@pytest.mark.parametrize(("plan", "reason"), CASES.values(), ids=CASES.keys())
def test_a_fault_of_the_machine(run_machine: RunMachine, plan: Plan, reason: str) -> None:
    found = run_machine(plan)
    assert found["reason"] == reason, found["serial"]
    assert "Running job" in found["serial"] or found["runners"] == 0, "a runner is left at GitHub that nobody starts"


def test_a_gpu_that_is_gone_before_the_job_fails_the_job_early(run_machine: RunMachine) -> None:
    found = run_machine(Plan(does=job(before=WAITS_FOR_GO), at=[("waiting", events.no_gpu), ("waiting", events.go)]))
    assert (found["reason"], found["end"]["step"]) == ("gpu-unhealthy", "after-job"), found["serial"]
    assert "::error::gpu-ci: nvidia-smi lists no GPU" in found["serial"]
    assert "job: Connection" not in found["serial"]


def test_a_process_that_a_job_leaves_on_the_gpu_is_reported(run_machine: RunMachine) -> None:
    found = run_machine(Plan(does=job(WAITS_FOR_GO), at=[(AT_WORK, events.leave_process), (AT_WORK, events.go)]))
    assert found["reason"] == "gpu-unhealthy", found["serial"]
    assert found["detail"] == "processes are still on the GPU: 4242, python3"


def installs(running: RunningMachine) -> None:
    """The machine has no driver. Google's installer installs it, and restarts the machine."""
    events.no_gpu(running)
    running.state.mkdir()
    text = INSTALLER.replace('(folder / "driver").touch()', "open('/run/test/gpu', 'w').write('GPU-1a2b3c4d, 3, 0')")
    (running.state / "cuda_installer.pyz").write_text(text)


def installs_since_long(running: RunningMachine) -> None:
    """The machine is the same, and its first boot was two minutes ago."""
    installs(running)
    (running.state / "began").write_text(f"{time.time() - 120:.0f}\n")


BY_INSTALLER = {"driver": {"source": "installer", "branch": "lts", "installer": "https://releases.example/"}}


def test_a_restart_by_the_installer_is_no_end(run_machine: RunMachine) -> None:
    found = run_machine(Plan(config=BY_INSTALLER, prepare=installs, boots=2))
    assert found["reason"] == "job-done", found["serial"]
    assert found["serial"].count('GPU-AGENT-STEP {"step": "config"') == 2


def test_the_checks_deadline_counts_from_the_first_boot(run_machine: RunMachine) -> None:
    found = run_machine(Plan(config=BY_INSTALLER, prepare=installs_since_long, check_sec=60))
    # The time is over at the start. Either the driver's step or the supervisor reports it first.
    assert found["reason"] in ("no-driver", "timed-out"), found["serial"]
    assert found["sec"] < 10
