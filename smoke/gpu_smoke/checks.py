"""What a finding is, which of them is the worst, and the whole run in one sentence; judge/ makes them.

Where a new check goes: plan.py.
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
# The worst first: a hang or a broken GPU stays one even where the environment is wrong too.
EXIT_CODES = {faults.HANG: 4, faults.GPU: 1, faults.ENV: 2, faults.PERF: 3}


@dataclass(frozen=True)
class Check:
    """One thing looked at: what came out, and for a failure whose fault it is and what to do."""

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
        """For the receipt: without what it does not have."""
        return {key: value for key, value in asdict(self).items() if value is not None and value != ""}


def failure(what: str, message: str, means: Meaning, *, status: str = FAIL, **where: Any) -> Check:
    """A failed check, with its meaning."""
    return Check(what, status, message, severity=means.severity, action=means.action, hint=means.hint, **where)


def took(check: Check, seconds: float) -> Check:
    """With how long it took."""
    return replace(check, seconds=seconds)


def hinted(check: Check, hint: str) -> Check:
    """With another hint."""
    return replace(check, hint=hint)


def strict(check: Check) -> Check:
    """A warning as a failure, for who wants none."""
    if check.status != WARN:
        return check
    hint = check.hint or "a warning, which --strict makes a failure"
    return replace(check, status=FAIL, severity=faults.PERF, action=faults.NONE, hint=hint)


def place(device: str, index: int | None) -> str:
    """The device as a sentence names it."""
    return "the CPU" if device == "cpu" else f"GPU {index}"


def bad(checks: Iterable[Check]) -> list[Check]:
    """What went wrong, the worst first and otherwise in the order found."""
    order = list(EXIT_CODES)
    return sorted((check for check in checks if check.status in BAD), key=lambda check: order.index(check.severity))


def summary(options: Options, found: Sequence[dict[str, Any]], checks: Sequence[Check]) -> str:
    """The whole run in one sentence."""
    whose = " on ".join(filter(None, (options.pool, options.node)))
    pool = f"{whose}: " if whose else ""
    wrong = bad(checks)
    if wrong:
        return f"{pool}{wrong[0].message}" + (f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else "")
    right = ", ".join(dict.fromkeys(check.dtype for check in checks if check.id == "gemm.element"))
    note = f", one of {len(options.peers)} machines at once" if options.peers else ""
    if options.on_cpu:
        return f"{pool}{right} products are right on the CPU{note}: proves the check, not a GPU"
    names = " and ".join(dict.fromkeys(gpu["name"] for gpu in found))
    fast = "".join(_speed(checks, what) for what in ("gemm.speed", "mem.speed"))
    return f"{pool}{len(found)} x {names}: {right} products are right, and the same every time{fast}{note}"


def _speed(checks: Sequence[Check], what: str) -> str:
    """How fast the slowest was, and its share of the speed below which it warns; nothing where none was timed."""
    timed = [(check.value, check) for check in checks if check.id == what and check.value]
    if not timed:
        return ""
    value, slowest = min(timed, key=lambda each: each[0])
    least = "at least " if len(timed) > 1 else ""
    speed = " ".join(filter(None, (f"{value:.4g}", slowest.unit, slowest.dtype)))
    share = f" ({value / slowest.warn_below:.0%} of the floor)" if slowest.warn_below else ""
    return f"; {least}{speed}{share}"
