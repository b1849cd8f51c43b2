"""Events that may hit a machine at any time, such as a preemption, and plans that keep it in a step until then."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from tests.agent.fakes.github import Fault as GithubFault
from tests.agent.fakes.google import Fault
from tests.agent.fakes.runner import STAGE, WAITS, WAITS_FOR_GO, job
from tests.agent.fakes.whole_machine import AT_WORK, Act, Plan, RunningMachine

LEFT = "4242, python3\n"
"""The line of nvidia-smi about a process that a job left on the GPU."""


def preempt(running: RunningMachine) -> None:
    """Google announces a preemption of the machine."""
    running.google.values["instance/preempted"] = "TRUE"


def maintain(running: RunningMachine) -> None:
    """Google announces a maintenance of the host, up to an hour ahead."""
    running.google.values["instance/maintenance-event"] = "TERMINATE_ON_HOST_MAINTENANCE"


def terminate(running: RunningMachine) -> None:
    """The machine is stopped: by a user, a deletion, or its group."""
    running.stop()


def shut_down(running: RunningMachine) -> None:
    """All processes of the boot script get a stop signal, as from systemd."""
    for pid in running.processes():
        _signal(pid, signal.SIGTERM)


def kill_agent(running: RunningMachine) -> None:
    """The agent is killed, as by the kernel when the memory is full."""
    with suppress(LookupError):
        _signal(running.agent, signal.SIGKILL)


def kill_supervisor(running: RunningMachine) -> None:
    """The supervisor is killed."""
    with suppress(LookupError):
        _signal(running.supervisor, signal.SIGKILL)


def kill_boot_script(running: RunningMachine) -> None:
    """The boot script is killed."""
    _signal(running.boot_script, signal.SIGKILL)


def no_gpu(running: RunningMachine) -> None:
    """The GPU disappears from the bus."""
    (STAGE / "gpu").write_text("")


def leave_process(running: RunningMachine) -> None:
    """A process stays on the GPU."""
    (STAGE / "apps").write_text(LEFT)


def go(running: RunningMachine) -> None:
    """A job or runner that waits for the file `go` continues."""
    (STAGE / "go").touch()


def hangs(_asked: int, archive: bytes) -> tuple[int, bytes, int]:
    """A server of releases that does not answer."""
    time.sleep(60)
    return 200, archive, len(archive)


EVENTS: Mapping[str, Act] = {
    each.__name__: each for each in (preempt, maintain, terminate, shut_down, kill_agent, kill_supervisor)
}
STEP_PLANS: Mapping[str, Callable[[], Plan]] = {
    "config": lambda: Plan(google=[Fault("gpu-ci-role", 99, hang=True)]),
    "driver": lambda: Plan(prepare=no_gpu),
    "check": lambda: Plan(smoke="import time; time.sleep(60)"),
    "key": lambda: Plan(google=[Fault(":access", 99, hang=True)]),
    "runner": lambda: Plan(release=hangs),
    "register": lambda: Plan(github={"token": [GithubFault("hang")] * 99}),
    "waiting": lambda: Plan(does=WAITS),
    "job": lambda: Plan(does=job(WAITS)),
    "after-job": lambda: Plan(does=job(WAITS_FOR_GO), at=[("job", leave_process), ("job", go)]),
}
"""Plans by step: each machine stays in the step for some seconds."""


def plan_at(step: str, event: Act) -> Plan:
    """Return a plan whose machine is in this step when the event happens."""
    plan = STEP_PLANS[step]()
    plan.at = [*plan.at, (AT_WORK if step == "job" else step, event)]
    return plan


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
