"""The command line `python3 gpu_agent.pyz`, which the boot script runs."""

from __future__ import annotations

import os
import runpy
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from . import agent, check, config, preempt, report
from .broker.registration import Broker
from .build.session import BuildSession
from .build.workspace import BuildRequest
from .channel import Channel, Ending
from .clock import Clock
from .github.registration import Github
from .google.compute_engine import GoogleHost, Metadata
from .host import Host
from .machine import cleaning, driver, processes
from .machine.commands import Machine
from .machine.system import RUNNER_USER, System
from .mailbox import document as mailbox
from .mailbox.host import IMDS, MailboxHost
from .outcomes import AgentExit
from .runner import hooks
from .runner.session import RunnerSetup
from .supervisor import PAUSE_SEC, Supervisor

USAGE = """usage: gpu_agent.pyz run

It runs one check and one job, then switches the machine off; only on a machine of a pool. GitHub's runner calls
`gpu_agent.pyz hook started|completed <socket>` before and after its job. A job's `gpu-ci-preempt` is
`gpu_agent.pyz preempt`.
"""
SYSTEM_VARIABLE = "GPU_AGENT_SYSTEM"
PRODUCT = Path("/sys/class/dmi/id/product_name")
"""The file with the product name of the machine."""
# The time limit for the sandbox's metadata server. It is on the same computer and starts before the machine.
_EMULATED_SEC = 10.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    if arguments[0] == "hook":
        return hooks.client(arguments[1:])
    if arguments[0] == "preempt":
        return preempt.main(arguments[1:])
    if arguments == ["run"]:
        return run()
    _write(USAGE)
    return 0 if arguments == ["--help"] else 2


def run() -> int:
    """Run the machine from its boot to its end.

    Returns 0 if everything was reported. The machine then ends, restarts, or stays on.
    """
    clock, environ = Clock(), os.environ
    state = environ.get("GPU_AGENT_STATE")
    try:
        # Neither a Compute Engine VM nor a machine with a boot document reads the variable of a sandbox.
        document = mailbox.document({} if _is_google() else environ)
    except (OSError, ValueError) as error:
        _write(f"gpu_agent.pyz run: {error}\n")
        return 2
    reason = None if document else _reason_against(clock, environ, state)
    if reason is not None:
        _write(f"gpu_agent.pyz run: this is not a Compute Engine VM{reason}, so nothing is changed\n")
        return 2
    prefix = tuple(environ.get("GPU_AGENT_PREFIX", "").split())
    work = Path(environ.get("GPU_AGENT_WORK") or tempfile.mkdtemp())
    is_emulated = not processes.BOOT_DOCUMENT.exists() and ("GCE_METADATA_HOST" in environ or document is not None)
    # The sandbox emulates users and mounts for its machines. A machine never reads the variable.
    try:
        system = _emulated_system(environ) if is_emulated and not _is_google() else None
    except OSError as error:
        _write(f"gpu_agent.pyz run: {SYSTEM_VARIABLE}: {error}\n")
        return 2
    cut_power = (lambda: None) if is_emulated else processes.cut_power
    host: Host = (
        MailboxHost(document, clock, cut_power, environ.get("GPU_AGENT_IMDS", IMDS) if is_emulated else IMDS)
        if document
        else GoogleHost(clock, environ, prefix, cut_power)
    )
    reporter = report.Reporter(host, clock, _write_whole, work, report.console(environ))
    machine = Machine(
        clock,
        reporter.say,
        work,
        Path(state or (system.state_folder if system else "/var/lib/gpu-ci")),
        # A fake metadata server means a sandbox, unless a state folder is also set. The tests of a Compute Engine VM
        # set both.
        is_google=not is_emulated or bool(state),
        prefix=prefix,
        is_emulated=system is not None,
    )
    used_system = system or System()
    runner_setup = RunnerSetup(host.blocked, used_system, clock, reporter.say)

    def build(
        request: BuildRequest, channel: Channel, mark: Callable[[], None], cause: Callable[[AgentExit], AgentExit]
    ) -> Ending:
        return BuildSession(request, host, used_system, clock, channel, mark, cause).run()

    deps = agent.Dependencies(
        host=host,
        clock=clock,
        machine=machine,
        get_driver=driver.get_driver,
        check=check.check,
        github=Github,
        broker=Broker,
        block_identity=runner_setup.block_identity,
        obtain=runner_setup.obtain,
        isolate=runner_setup.isolate,
        try_runner=runner_setup.try_runner,
        gpu_problem=runner_setup.gpu_problem,
        start=runner_setup.start,
        clean=lambda deadline: cleaning.clean(used_system, clock, deadline),
        leave=lambda: cleaning.leave(used_system),
        build=build,
    )

    def work_as_agent(channel: Channel) -> Ending:
        return agent.Agent(deps, channel).run()

    pause_sec = float(environ.get("GPU_AGENT_PAUSE_SEC", PAUSE_SEC))

    def clear() -> None:
        if machine.is_google:
            processes.end_all_of(RUNNER_USER)

    Supervisor(host, reporter, clock, pause_sec, clear=clear).run(work_as_agent, agent.CONFIG_SEC)
    return 0


def _emulated_system(environ: Mapping[str, str]) -> System | None:
    """Return the sandbox's emulation of root's tasks from the file in the environment variable, or None without it.

    The file has a class `EmulatedSystem`. It is only for computers outside Compute Engine, because it isolates no job.
    """
    file = environ.get(SYSTEM_VARIABLE)
    if not file:
        return None
    made: System = runpy.run_path(file)["EmulatedSystem"].of(environ)
    return made


def _reason_against(clock: Clock, environ: Mapping[str, str], state: str | None) -> str | None:
    """Return None if this computer is a machine, or else the end of the message that refuses the command.

    Any other computer must not be switched off. A Compute Engine VM is a machine. A computer with a fake metadata
    server is a machine too, if the server answers: the sandbox emulates machines this way.
    """
    if _is_google():
        return None
    server = environ.get("GCE_METADATA_HOST")
    if not server:
        return ""
    if state or Metadata(server, clock).has_value(f"instance/attributes/{config.KEY}", _EMULATED_SEC):
        return None
    return f", GCE_METADATA_HOST is {server}, and no metadata server there has {config.KEY}"


def _is_google() -> bool:
    """Return True on Compute Engine, detected as in google-auth-library-python
    (google/auth/compute_engine/_metadata.py).
    """
    try:
        return PRODUCT.read_text().strip().startswith("Google")
    except OSError:
        return False


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _write_whole(text: str) -> None:
    """Write the text without Python's buffer. The buffer has a lock, and the exit of a program may wait for it."""
    left = text.encode(errors="replace")
    while left:
        left = left[os.write(1, left) :]


if __name__ == "__main__":
    sys.exit(main())
