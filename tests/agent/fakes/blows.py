"""What may happen to a machine at any moment, and plans that hold it at each of its steps until then."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from tests.agent.fakes.boot import BASH, SCRIPT
from tests.agent.fakes.github import Fault as GithubFault
from tests.agent.fakes.google import Fault
from tests.agent.fakes.jobs import STAGE, WAITS, WAITS_FOR_GO, job
from tests.agent.fakes.live_machine import AT_WORK, GPU, Act, Life, Plan

LEFT = "4242, python3\n"
"""What nvidia-smi says of a process that a job left on the GPU."""


def preempt(life: Life) -> None:
    """Google announces that it takes the machine."""
    life.google.values["instance/preempted"] = "TRUE"


def maintain(life: Life) -> None:
    """Google announces that the host is to be maintained, up to an hour ahead."""
    life.google.values["instance/maintenance-event"] = "TERMINATE_ON_HOST_MAINTENANCE"


def terminate(life: Life) -> None:
    """The machine is to go off: somebody stops or deletes it, or its group takes it away."""
    life.stop()


def oom_kill(life: Life) -> None:
    """The job takes all the memory, and the kernel kills the runner's process that has most of it."""
    with suppress(LookupError):
        _signal(life.runner, signal.SIGKILL)
        life.oom_killed()


def shut_down(life: Life) -> None:
    """All that the boot script started is told to stop, as systemd does it."""
    for pid in life.processes():
        _signal(pid, signal.SIGTERM)


def kill_agent(life: Life) -> None:
    """The agent is killed, as for want of memory."""
    with suppress(LookupError):
        _signal(life.agent, signal.SIGKILL)


def kill_supervisor(life: Life) -> None:
    """The supervisor is killed."""
    with suppress(LookupError):
        _signal(life.supervisor, signal.SIGKILL)


def kill_boot_script(life: Life) -> None:
    """The boot script is killed."""
    _signal(life.boot_script, signal.SIGKILL)


def start_again(life: Life) -> None:
    """The startup script is run a second time, by hand or by an upgrade of Google's guest agent."""
    life.systemd.run_script([BASH, str(SCRIPT)]).wait(30)


def no_gpu(life: Life) -> None:
    """The GPU falls off the bus."""
    (STAGE / "gpu").write_text("")


def gpu(life: Life) -> None:
    """The GPU is there."""
    (STAGE / "gpu").write_text(GPU)


def leave_process(life: Life) -> None:
    """Something stays on the GPU."""
    (STAGE / "apps").write_text(LEFT)


def go(life: Life) -> None:
    """What waits goes on."""
    (STAGE / "go").touch()


def hangs(_asked: int, archive: bytes) -> tuple[int, bytes, int]:
    """A server of releases that says nothing."""
    time.sleep(60)
    return 200, archive, len(archive)


BLOWS: Mapping[str, Act] = {
    each.__name__: each for each in (preempt, maintain, terminate, shut_down, kill_agent, kill_supervisor)
}
HOLDS: Mapping[str, Callable[[], Plan]] = {
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
"""By step: a machine that stays in it for seconds at least."""


def held(step: str, blow: Act) -> Plan:
    """A machine that is at this step when the blow falls."""
    plan = HOLDS[step]()
    plan.at = [*plan.at, (AT_WORK if step == "job" else step, blow)]
    return plan


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
