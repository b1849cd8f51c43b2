"""The result of one check, the order of severity, and the summary of a run.

A check is one question about the machine, such as `gemm.norm`: are the products correct? The functions of judge/ return
checks. plan.py says how to add a check.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from . import faults
from .faults import Meaning
from .options import Options

PASS, WARN, FAIL, SKIP, ERROR = "pass", "warn", "fail", "skip", "error"
BAD = (FAIL, ERROR)
# Severities, the worst first, with their exit codes. The worst failed check decides the exit code of a run.
EXIT_CODES = {faults.HANG: 4, faults.GPU: 1, faults.ENV: 2, faults.PERF: 3}


@dataclass(frozen=True)
class Check:
    """The result of one check.

    `severity`, `action` and `hint` explain a failure (faults.py). `value` is the measured number. The three limits say
    when the check warns or fails, and `reference` names their source. `seconds` is the duration of the measurement.
    """

    id: str
    status: str
    message: str
    gpu: int | None = None
    dtype: str = ""
    severity: str = ""
    action: str = ""
    hint: str = ""
    value: float | None = None
    unit: str = ""
    warn_below: float | None = None
    fail_below: float | None = None
    fail_above: float | None = None
    reference: str = ""
    seconds: float | None = None

    def record(self) -> dict[str, Any]:
        """Return the fields that have a value, as the receipt has them."""
        return {key: value for key, value in asdict(self).items() if value is not None and value != ""}


def failure(check_id: str, message: str, means: Meaning, *, status: str = FAIL, **where: Any) -> Check:
    """Return a failed check. `where` has further fields, such as the GPU."""
    return Check(check_id, status, message, severity=means.severity, action=means.action, hint=means.hint, **where)


def with_duration(check: Check, seconds: float) -> Check:
    """Return the check with its duration."""
    return replace(check, seconds=seconds)


def with_hint(check: Check, hint: str) -> Check:
    """Return the check with another hint."""
    return replace(check, hint=hint)


def strict(check: Check) -> Check:
    """Turn a warning into a failure, for --strict."""
    if check.status != WARN:
        return check
    hint = check.hint or "--strict turns this warning into a failure"
    return replace(check, status=FAIL, severity=faults.PERF, action=faults.NONE, hint=hint)


def place(device: str, index: int | None) -> str:
    """Return the name of the device in a sentence."""
    return "the CPU" if device == "cpu" else f"GPU {index}"


def bad(checks: Iterable[Check]) -> list[Check]:
    """Return the failures, the worst first and otherwise in the order found."""
    order = list(EXIT_CODES)
    return sorted((check for check in checks if check.status in BAD), key=lambda check: order.index(check.severity))


def summary(options: Options, gpus: Sequence[dict[str, Any]], checks: Sequence[Check]) -> str:
    """Return the result of the run in one sentence."""
    pool_and_node = " on ".join(filter(None, (options.pool, options.node)))
    pool = f"{pool_and_node}: " if pool_and_node else ""
    failed = bad(checks)
    if failed:
        return f"{pool}{failed[0].message}" + (f" (and {len(failed) - 1} more)" if len(failed) > 1 else "")
    right = ", ".join(dict.fromkeys(check.dtype for check in checks if check.id == "gemm.element"))
    note = f", one of {len(options.peers)} machines at once" if options.peers else ""
    if options.on_cpu:
        return f"{pool}{right} products are right on the CPU{note}: tests the check, not a GPU"
    names = " and ".join(dict.fromkeys(gpu["name"] for gpu in gpus))
    fast = "".join(_speed(checks, check_id) for check_id in ("gemm.speed", "mem.speed"))
    return f"{pool}{len(gpus)} x {names}: {right} products are right, and the same every time{fast}{note}"


def _speed(checks: Sequence[Check], check_id: str) -> str:
    """Return the slowest speed as text, with its share of the floor; empty if no speed was measured."""
    timed = [(check.value, check) for check in checks if check.id == check_id and check.value]
    if not timed:
        return ""
    value, slowest = min(timed, key=lambda each: each[0])
    least = "at least " if len(timed) > 1 else ""
    speed = " ".join(filter(None, (f"{value:.4g}", slowest.unit, slowest.dtype)))
    share = f" ({value / slowest.warn_below:.0%} of the floor)" if slowest.warn_below else ""
    return f"; {least}{speed}{share}"
