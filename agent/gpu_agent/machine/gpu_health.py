"""Whether the GPUs are still fit for a job: the same ones, empty, without errors; by nvidia-smi and the kernel log."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from ..clock import Clock
from ..outcomes import AgentExit
from .system import System, User

TIMEOUT_SEC = 10
"""nvidia-smi answers within a second; one that does not is itself the sign of a stuck driver."""
# A bound of our own, for memory that no listed process owns: below what one CUDA context takes, and above what an idle
# driver's own share moves, which was counted when the machine was fit. No document gives either.
_LEFT_MIB = 64
_SETTLE_SEC = 30
_PERSISTENCE_SEC = 60

# Xids after which a GPU is not to be used on: those whose immediate action is a reset, a restart or a repair in
# docs.nvidia.com/deploy/xid-errors (analyzing-xid-catalog.html). What an application causes (13, 31, 43, 45) is not.
# The list is gpu-smoke's (smoke/gpu_smoke/data/health.py), which the agent may not import; a test compares the two.
FATAL_XIDS = frozenset(
    (46, 48, 54, 62, 64, 74, 79, 94, 95, 109, 110, 119, 120, 136, 140, 143, *range(144, 152), 155, 156, 158)
)
_XID = re.compile(r"NVRM: Xid \(([^)]+)\): (\d+)")
_ABSENT = ("[N/A]", "N/A", "[Not Supported]")
_FIELDS = "uuid,memory.used,ecc.errors.uncorrected.volatile.total"


class Gpus(NamedTuple):
    """The GPUs as they were when the check had passed: by UUID, memory in use (MiB) and uncorrected ECC errors."""

    memory_mib: Mapping[str, int]
    errors: Mapping[str, int]


class _UnhealthyError(Exception):
    """nvidia-smi did not answer, or nothing that can be read."""


def at_boot(system: System) -> Gpus:
    """What every later look is compared with. AgentExit("gpu-unhealthy") where it cannot be read."""
    # Without persistence the driver starts each GPU anew for every nvidia-smi, seconds apiece on a machine of eight
    # (docs.nvidia.com/deploy/driver-persistence). Where it cannot be switched on, things are only slower.
    system.run(["nvidia-smi", "-pm", "1"], timeout_sec=_PERSISTENCE_SEC)
    try:
        return _look(system)
    except _UnhealthyError as error:
        raise AgentExit("gpu-unhealthy", str(error)) from None


def gpu_problem(system: System, expected: Gpus) -> str:
    """Why no job may run, or "" where the GPUs are fit. It takes a second, and two time-outs at worst."""
    try:
        now = _look(system)
        running = _ask(system, ["--query-compute-apps=pid,process_name"])
    except _UnhealthyError as error:
        return str(error)
    if set(now.memory_mib) != set(expected.memory_mib):
        gone = sorted(set(expected.memory_mib) - set(now.memory_mib))
        return f"expected {len(expected.memory_mib)} GPUs, got {len(now.memory_mib)}; gone: {', '.join(gone) or 'none'}"
    for uuid, errors in now.errors.items():
        if errors > expected.errors.get(uuid, 0):
            return f"{uuid} has {errors} uncorrected ECC errors, {expected.errors.get(uuid, 0)} when it was checked"
    fatal = {int(found[2]): found[1] for found in map(_XID.match, system.kernel_log()) if found}
    for code in sorted(FATAL_XIDS & fatal.keys()):
        return f"the kernel's log has Xid {code} of {fatal[code]}: docs.nvidia.com/deploy/xid-errors"
    if running:
        return f"processes are still on the GPU: {'; '.join(running)[:200]}"
    for uuid, used in now.memory_mib.items():
        if used > expected.memory_mib[uuid] + _LEFT_MIB:
            return f"{uuid} has {used} MiB in use, {expected.memory_mib[uuid]} when it was checked"
    return ""


def problem_after_job(system: System, expected: Gpus, user: User, clock: Clock) -> str:
    """The same once the job's processes are ended; the driver gets half a minute to give their memory back."""
    deadline = clock.now() + _SETTLE_SEC
    if not system.kill_all_of(user, clock, deadline):
        return f"processes of {user.name} do not end: {system.commands_of(user)}"[:300]
    while (problem := gpu_problem(system, expected)) and clock.now() < deadline:
        clock.sleep(1)
    return problem


def _look(system: System) -> Gpus:
    memory: dict[str, int] = {}
    errors: dict[str, int] = {}
    for line in _ask(system, [f"--query-gpu={_FIELDS}"]):
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != 3 or not fields[0].startswith("GPU-"):
            raise _UnhealthyError(f"nvidia-smi says: {line[:200]}")
        memory[fields[0]] = _number(fields[0], "memory", fields[1])
        errors[fields[0]] = _number(fields[0], "ECC errors", fields[2])
    if not memory:
        raise _UnhealthyError("nvidia-smi lists no GPU")
    return Gpus(memory, errors)


def _number(uuid: str, what: str, text: str) -> int:
    """What a GPU does not count is 0; anything else that is no number, [GPU requires reset] for one, is a fault."""
    if text in _ABSENT:
        return 0
    if not (text.isascii() and text.isdecimal()):
        raise _UnhealthyError(f"{uuid}: nvidia-smi gives its {what} as {text[:100]!r}")
    return int(text)


def _ask(system: System, query: list[str]) -> list[str]:
    output = system.run(["nvidia-smi", *query, "--format=csv,noheader,nounits"], timeout_sec=TIMEOUT_SEC)
    if output.code:
        raise _UnhealthyError(f"nvidia-smi failed ({output.code}): {output.line}")
    return [line.strip() for line in output.text.splitlines() if line.strip()]
