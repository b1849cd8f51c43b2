"""Checks of the GPUs before and after a job, with a stub of nvidia-smi in its own process, and a fake kernel log."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from gpu_agent.clock import Clock
from gpu_agent.machine import gpu_health, system
from gpu_agent.machine.gpu_health import FATAL_XIDS, Gpus, problem_after_job
from gpu_agent.machine.system import System, User
from gpu_smoke.data.health import XIDS

ONE = "GPU-11111111-aaaa"
TWO = "GPU-22222222-bbbb"
FIT = Gpus({ONE: 3}, {ONE: 0})
NOBODY = User("nobody", 65534, 65534, Path("/nonexistent"))


class Machine(System):
    """A machine with an nvidia-smi that prints two files, and with a kernel log."""

    def __init__(self, folder: Path) -> None:
        super().__init__(run_folder=folder)
        self.folder = folder
        self.log: list[str] = []
        self.gpus(f"{ONE}, 3, 0")
        self.processes("")

    def gpus(self, text: str) -> None:
        (self.folder / "gpus").write_text(text + "\n")

    def processes(self, text: str) -> None:
        (self.folder / "processes").write_text(text)

    def script(self, text: str) -> None:
        path = self.folder / "nvidia-smi"
        # The kernel accepts no interpreter whose path contains a space.
        path.with_suffix(".py").write_text(f"import sys\n{text}")
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$0.py" "$@"\n')
        path.chmod(0o755)

    def kernel_log(self) -> list[str]:
        return self.log


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setitem(system.ENVIRONMENT, "PATH", f"{tmp_path}:{os.environ['PATH']}")
    made = Machine(tmp_path)
    made.script(
        f"if sys.argv[1:] == ['-pm', '1']: sys.exit(open({str(tmp_path)!r} + '/persistent', 'w').close())\n"
        "assert sys.argv[2:] == ['--format=csv,noheader,nounits'], sys.argv\n"
        "name = {'--query-gpu=uuid,memory.used,ecc.errors.uncorrected.volatile.total': 'gpus',\n"
        "        '--query-compute-apps=pid,process_name': 'processes'}[sys.argv[1]]\n"
        f"sys.stdout.write(open({str(tmp_path)!r} + '/' + name).read())\n"
    )
    return made


def gpu_problem(machine: Machine, expected: Gpus) -> str:
    """Return the text of the problem, or ""."""
    problem = gpu_health.gpu_problem(machine, expected)
    return problem.text if problem else ""


def test_an_unchanged_gpu_is_usable(machine: Machine) -> None:
    assert gpu_problem(machine, FIT) == ""


@pytest.mark.parametrize(
    ("gpus", "words"),
    [
        (f"{ONE}, 67, 0", ""),
        (f"{ONE}, 68, 0", f"{ONE} has 68 MiB in use, 3 when it was checked"),
        (f"{ONE}, 3, 1", f"{ONE} has 1 uncorrected ECC errors, 0 when it was checked"),
        (f"{ONE}, [N/A], [N/A]", ""),
        (f"{ONE}, 3, [Not Supported]", ""),
        (
            f"{ONE}, [GPU requires reset], 0",
            f"{ONE}: nvidia-smi reports its memory as '[GPU requires reset]'",
        ),
        (f"{ONE}, 3, [Unknown Error]", f"{ONE}: nvidia-smi reports its ECC errors as '[Unknown Error]'"),
        (f"{TWO}, 3, 0", f"expected 1 GPUs, got 1; gone: {ONE}"),
        (f"{ONE}, 3, 0\n{TWO}, 3, 0", "expected 1 GPUs, got 2; gone: none"),
        ("", "nvidia-smi lists no GPU"),
        ("No devices were found", "nvidia-smi says: No devices were found"),
    ],
)
def test_each_difference_is_reported(machine: Machine, gpus: str, words: str) -> None:
    machine.gpus(gpus)
    assert gpu_problem(machine, FIT) == words


def test_errors_from_before_the_check_do_not_count(machine: Machine) -> None:
    machine.gpus(f"{ONE}, 3, 2")
    assert gpu_problem(machine, Gpus({ONE: 3}, {ONE: 2})) == ""


def test_a_process_on_the_gpu_is_named(machine: Machine) -> None:
    machine.processes("4242, /usr/bin/python3\n")
    assert gpu_problem(machine, FIT) == "processes are still on the GPU: 4242, /usr/bin/python3"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "NVRM: Xid (PCI:0000:00:04): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
            "the kernel's log has Xid 79 of PCI:0000:00:04: docs.nvidia.com/deploy/xid-errors",
        ),
        ("NVRM: Xid (PCI:0000:00:04): 13, pid=4242, name=python3, Graphics SM Warp Exception", ""),
        ("NVRM: Xid (PCI:0000:00:04): 31, pid=4242, name=python3, MMU Fault", ""),
        # A job may choose the name of its process, and the kernel logs that name. Only a line of the driver itself
        # counts.
        ("a.out[7]: segfault at 0 NVRM: Xid (PCI:0000:00:04): 79, ip 0", ""),
    ],
)
def test_fatal_errors_in_the_kernels_log_are_reported(machine: Machine, line: str, words: str) -> None:
    machine.log = ["usb 1-1: new device", line]
    assert gpu_problem(machine, FIT) == words


def test_the_fatal_xids_are_those_that_gpu_smoke_answers_with_an_action() -> None:
    assert {code for code, xid in XIDS.items() if xid.action} == FATAL_XIDS


def test_a_machine_without_nvidia_smi_has_no_usable_gpu(machine: Machine) -> None:
    (machine.folder / "nvidia-smi").unlink()
    assert gpu_problem(machine, FIT) == "nvidia-smi failed (127): nvidia-smi: No such file or directory"


class Ticking(Clock):
    """A clock that advances only during a sleep. Each second something may happen."""

    def __init__(self, machine: Machine, happens: dict[int, str]) -> None:
        self.seconds, self.machine, self.happens = 0.0, machine, happens

    def now(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        if int(self.seconds) in self.happens:
            self.machine.gpus(self.happens[int(self.seconds)])


class Alone(Machine):
    """A system that finds no process of the user."""

    def kill_all_of(self, user: User, clock: Clock, deadline: float) -> bool:
        return True


def test_the_memory_of_a_job_may_be_freed_for_half_a_minute(machine: Machine) -> None:
    machine.__class__ = Alone
    machine.gpus(f"{ONE}, 70000, 0")
    clock = Ticking(machine, {3: f"{ONE}, 3, 0"})
    assert problem_after_job(machine, FIT, NOBODY, clock) is None
    assert clock.seconds == 3


def test_memory_that_stays_in_use_after_the_job_is_reported(machine: Machine) -> None:
    machine.__class__ = Alone
    machine.gpus(f"{ONE}, 70000, 0")
    clock = Ticking(machine, {})
    problem = problem_after_job(machine, FIT, NOBODY, clock)
    assert problem is not None
    assert problem.end == ("gpu-unhealthy", f"{ONE} has 70000 MiB in use, 3 when it was checked")
    assert clock.seconds == 30


LOST = "NVRM: Xid (PCI:0000:00:04): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


@pytest.mark.parametrize(
    ("gpus", "log", "fault", "after_sec"),
    [
        # nvidia-smi shows only a consequence of the fault in the kernel's log.
        ("No devices were found", [LOST], "Xid 79", 0),
        (f"{ONE}, 3, 1", [], "uncorrected ECC errors", 0),
        # A busy machine may be slow once.
        ("No devices were found", [], "nvidia-smi fails", 30),
        (f"{TWO}, 3, 0", [], "other GPUs", 30),
    ],
)
def test_a_fault_of_a_gpu_is_named_and_a_certain_one_at_once(
    machine: Machine, gpus: str, log: list[str], fault: str, after_sec: int
) -> None:
    machine.__class__ = Alone
    machine.gpus(gpus)
    machine.log = log
    clock = Ticking(machine, {})
    problem = problem_after_job(machine, FIT, NOBODY, clock)
    assert problem is not None
    reason, detail = problem.end
    assert (reason, detail.partition(": ")[0], clock.seconds) == ("gpu-fault", fault, after_sec)


def test_a_process_that_does_not_end_is_no_fault_unless_the_kernel_names_one(machine: Machine) -> None:
    """A process may wait for a GPU that hangs, and for any other device."""
    machine.kill_all_of = lambda *_: False  # type: ignore[method-assign]
    machine.commands_of = lambda _: [["train"]]  # type: ignore[method-assign]
    clock = Ticking(machine, {})
    found = []
    for machine.log in ([], [LOST]):
        problem = problem_after_job(machine, FIT, NOBODY, clock)
        assert problem is not None
        found.append(problem.fault)
    assert found == ["", "Xid 79"]
