"""What every form reads of a receipt's record: texts fit to be shown, checks in order, numbers that are some.

A record may come from another version, or from a machine that lies: unknown fields are passed over, and no text of it
is trusted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from ..printable import printable

Record = dict[str, Any]

PASS, WARN, FAIL, SKIP, ERROR = "pass", "warn", "fail", "skip", "error"
BAD = (FAIL, ERROR)
STATUSES = (ERROR, FAIL, WARN, SKIP, PASS)  # the worst first
SEVERITIES = ("hang", "gpu", "env", "perf")  # the worst first: the first one decides the exit code
# The bound that a value is held to, and how people write it.
BOUNDS = {"fail_below": ">=", "warn_below": ">=", "fail_above": "<=", "warn_above": "<="}


def shown(value: Any, limit: int = 1000) -> str:
    """A text in one line without control characters, escape sequences, half characters or a change of direction."""
    text = " ".join(printable(str(value)[: 4 * limit]).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def cut(text: str, limit: int) -> str:
    """The longest beginning of at most so many bytes, without half a character at its end."""
    return text.encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")


def number(value: Any) -> float | None:
    """The value as a finite number, where it is one."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # a whole number beyond every float
        return None


def bad(record: Record) -> list[Record]:
    """The checks that went wrong, the worst first and otherwise in the order found."""
    wrong = [check for check in record["checks"] if check["status"] in BAD]
    return sorted(wrong, key=lambda check: _rank(check.get("severity")))


def _rank(severity: Any) -> int:
    return SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES)


def worst_first(checks: Iterable[Record]) -> list[Record]:
    """The same checks; those of one status stay in the order found."""
    return sorted(checks, key=lambda check: STATUSES.index(check["status"]))


def silent(record: Record) -> bool:
    """Whether the run is no pass and no check says why: it was killed before it could."""
    return record["verdict"] != PASS and not bad(record)


def device(record: Record, check: Record) -> str:
    """What the check looked at."""
    if record.get("device") == "cpu":
        return "cpu"
    return "-" if check.get("gpu") is None else f"GPU {shown(check['gpu'], 20)}"


def limits(check: Record) -> str:
    """What the value is held to, such as `>= 18 TFLOPS`: the bound that fails, else the one that warns."""
    unit = shown(check.get("unit", ""), 20)
    bounds = ((sign, number(check.get(name))) for name, sign in BOUNDS.items())
    return next((f"{sign} {bound:g} {unit}".rstrip() for sign, bound in bounds if bound is not None), "")


def title(record: Record, check: Record) -> str:
    """The check by its name, with what tells it from others of the same id."""
    on = device(record, check)
    parts = (shown(check["id"], 100), f"[{on}]" if on.startswith("GPU") else "", shown(check.get("dtype", ""), 20))
    return " ".join(filter(None, parts))


def advice(check: Record, limit: int = 1000) -> str:
    """What was found, and what to do."""
    hint = shown(check.get("hint", ""), limit)
    return shown(check["message"], limit) + (f"; hint: {hint}" if hint else "")
