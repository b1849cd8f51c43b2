"""Checks with nvidia-smi and the kernel log that the GPUs are usable for a job.

All GPUs of the smoke check must still exist, have no new errors, and run no process. This is a short check before and
after a job; the smoke check itself runs once for each boot (check.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from ..clock import Clock
from ..outcomes import AgentExit
from .system import System, User

TIMEOUT_SEC = 10
"""nvidia-smi answers within a second. A longer time is a sign of a stuck driver."""
# Our own limit for memory in use that no listed process owns. A CUDA context uses more, and the memory of an idle
# driver varies by less. No document gives either value.
_UNOWNED_MIB = 64
# The time for the driver to free the memory of processes that have ended.
_SETTLE_SEC = 30
_PERSISTENCE_SEC = 60

# Xids after which a GPU must not be used: those whose immediate action is a reset, a restart or a repair in
# docs.nvidia.com/deploy/xid-errors (analyzing-xid-catalog.html). Xids caused by an application (13, 31, 43, 45) are not
# included. The list is gpu-smoke's (smoke/gpu_smoke/data/health.py), which the agent cannot import; a test compares
# both.
FATAL_XIDS = frozenset(
    (46, 48, 54, 62, 64, 74, 79, 94, 95, 109, 110, 119, 120, 136, 140, 143, *range(144, 152), 155, 156, 158)
)
_XID = re.compile(r"NVRM: Xid \(([^)]+)\): (\d+)")
_ABSENT = ("[N/A]", "N/A", "[Not Supported]")
_FIELDS = "uuid,memory.used,ecc.errors.uncorrected.volatile.total"


class Gpus(NamedTuple):
    """The state of the GPUs after the check: memory in use (MiB) and uncorrected ECC errors, by UUID."""

    memory_mib: Mapping[str, int]
    errors: Mapping[str, int]


class Problem(NamedTuple):
    """Why no job may run on the GPUs."""

    text: str
    fault: str = ""
    """The fault of the GPU in a few words, such as `Xid 79`; empty if processes cause the problem."""
    is_final: bool = False
    """True if the problem cannot end by itself."""

    @property
    def end(self) -> tuple[str, str]:
        """The reason and the detail of the machine's end. The detail of a fault begins with its few words."""
        return ("gpu-fault", f"{self.fault}: {self.text}") if self.fault else ("gpu-unhealthy", self.text)


class _UnhealthyError(Exception):
    """nvidia-smi did not answer, or its answer cannot be read."""


def at_boot(system: System) -> Gpus:
    """Return the state after the smoke check, with which later states are compared.

    Raises AgentExit("gpu-unhealthy") if it cannot be read.
    """
    # Without persistence the driver initializes each GPU for every nvidia-smi, which takes seconds for each GPU
    # (docs.nvidia.com/deploy/driver-persistence). If persistence cannot be switched on, commands are only slower.
    system.run(["nvidia-smi", "-pm", "1"], timeout_sec=_PERSISTENCE_SEC)
    try:
        return _read_gpus(system)
    except _UnhealthyError as error:
        raise AgentExit("gpu-unhealthy", str(error)) from None


def gpu_problem(system: System, expected: Gpus) -> Problem | None:
    """Return why no job may run, or None if the GPUs are usable. It takes a second, and at worst two time-outs."""
    # The kernel's log comes first. It names the fault, and nvidia-smi may only show that a GPU is gone.
    if problem := kernel_problem(system):
        return problem
    try:
        now = _read_gpus(system)
        running = _query(system, ["--query-compute-apps=pid,process_name"])
    except _UnhealthyError as error:
        return Problem(str(error), "nvidia-smi fails")
    if set(now.memory_mib) != set(expected.memory_mib):
        gone = sorted(set(expected.memory_mib) - set(now.memory_mib))
        text = f"expected {len(expected.memory_mib)} GPUs, got {len(now.memory_mib)}; gone: {', '.join(gone) or 'none'}"
        return Problem(text, "other GPUs")
    for uuid, errors in now.errors.items():
        if errors > expected.errors.get(uuid, 0):
            text = f"{uuid} has {errors} uncorrected ECC errors, {expected.errors.get(uuid, 0)} when it was checked"
            return Problem(text, "uncorrected ECC errors", is_final=True)
    if running:
        return Problem(f"processes are still on the GPU: {'; '.join(running)[:200]}")
    for uuid, used in now.memory_mib.items():
        if used > expected.memory_mib[uuid] + _UNOWNED_MIB:
            return Problem(f"{uuid} has {used} MiB in use, {expected.memory_mib[uuid]} when it was checked")
    return None


def kernel_problem(system: System) -> Problem | None:
    """Return the first fatal Xid in the kernel's log. It takes milliseconds, also if a GPU hangs."""
    fatal = {int(found[2]): found[1] for found in map(_XID.match, system.kernel_log()) if found}
    for code in sorted(FATAL_XIDS & fatal.keys()):
        text = f"the kernel's log has Xid {code} of {fatal[code]}: docs.nvidia.com/deploy/xid-errors"
        return Problem(text, f"Xid {code}", is_final=True)
    return None


def problem_after_job(system: System, expected: Gpus, user: User, clock: Clock) -> Problem | None:
    """Return the problem after the job's processes have ended. The driver gets half a minute to free their memory."""
    deadline = clock.now() + _SETTLE_SEC
    if not system.kill_all_of(user, clock, deadline):
        left = f"processes of {user.name} do not end: {system.commands_of(user)}"[:300]
        return kernel_problem(system) or Problem(left)
    while (problem := gpu_problem(system, expected)) and not problem.is_final and clock.now() < deadline:
        clock.sleep(1)
    return problem


def _read_gpus(system: System) -> Gpus:
    memory: dict[str, int] = {}
    errors: dict[str, int] = {}
    for line in _query(system, [f"--query-gpu={_FIELDS}"]):
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != 3 or not fields[0].startswith("GPU-"):
            raise _UnhealthyError(f"nvidia-smi says: {line[:200]}")
        memory[fields[0]] = _number(fields[0], "memory", fields[1])
        errors[fields[0]] = _number(fields[0], "ECC errors", fields[2])
    if not memory:
        raise _UnhealthyError("nvidia-smi lists no GPU")
    return Gpus(memory, errors)


def _number(uuid: str, what: str, text: str) -> int:
    """Return a number. An unsupported counter is 0; any other text, such as [GPU requires reset], is an error."""
    if text in _ABSENT:
        return 0
    if not (text.isascii() and text.isdecimal()):
        raise _UnhealthyError(f"{uuid}: nvidia-smi reports its {what} as {text[:100]!r}")
    return int(text)


def _query(system: System, query: list[str]) -> list[str]:
    output = system.run(["nvidia-smi", *query, "--format=csv,noheader,nounits"], timeout_sec=TIMEOUT_SEC)
    if output.code:
        raise _UnhealthyError(f"nvidia-smi failed ({output.code}): {output.line}")
    return [line.strip() for line in output.text.splitlines() if line.strip()]
