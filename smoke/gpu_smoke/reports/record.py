"""Access to a receipt's record for all report formats: safe texts, ordered checks, finite numbers.

A record may come from another version or from an untrusted machine. Unknown fields are ignored, and no text of it is
trusted.
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
SEVERITIES = ("hang", "gpu", "env", "perf")  # the worst first; the first one decides the exit code
# The limits of a value, and the sign with which they are shown.
BOUNDS = {"fail_below": ">=", "warn_below": ">=", "fail_above": "<=", "warn_above": "<="}


def safe_line(value: Any, limit: int = 1000) -> str:
    """Return a text as one line without control characters, escape sequences or changes of direction."""
    text = " ".join(printable(str(value)[: 4 * limit]).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def cut(text: str, limit: int) -> str:
    """Return the longest prefix of at most that many bytes, without half a character at its end."""
    return text.encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")


def number(value: Any) -> float | None:
    """Return the value as a finite number; None if it is not one."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # a whole number beyond the range of float
        return None


def bad(record: Record) -> list[Record]:
    """Return the failed checks, the worst first and otherwise in the order found."""
    wrong = [check for check in record["checks"] if check["status"] in BAD]
    return sorted(wrong, key=lambda check: _rank(check.get("severity")))


def _rank(severity: Any) -> int:
    return SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES)


def worst_first(checks: Iterable[Record]) -> list[Record]:
    """Return the checks, the worst status first and otherwise in the order found."""
    return sorted(checks, key=lambda check: STATUSES.index(check["status"]))


def silent(record: Record) -> bool:
    """Return True if the run did not pass, but no check failed: the run was killed before its verdict."""
    return record["verdict"] != PASS and not bad(record)


def device(record: Record, check: Record) -> str:
    """Return the device that a check is about."""
    if record.get("device") == "cpu":
        return "cpu"
    return "-" if check.get("gpu") is None else f"GPU {safe_line(check['gpu'], 20)}"


def limits(check: Record) -> str:
    """Return the limit of the value, such as `>= 18 TFLOPS`: the one that fails, else the one that warns."""
    unit = safe_line(check.get("unit", ""), 20)
    bounds = ((sign, number(check.get(name))) for name, sign in BOUNDS.items())
    return next((f"{sign} {bound:g} {unit}".rstrip() for sign, bound in bounds if bound is not None), "")


def title(record: Record, check: Record) -> str:
    """Return a name for the check that differs from others of the same id."""
    on = device(record, check)
    parts = (
        safe_line(check["id"], 100),
        f"[{on}]" if on.startswith("GPU") else "",
        safe_line(check.get("dtype", ""), 20),
    )
    return " ".join(filter(None, parts))


def advice(check: Record, limit: int = 1000) -> str:
    """Return the message of a check with its hint."""
    hint = safe_line(check.get("hint", ""), limit)
    return safe_line(check["message"], limit) + (f"; hint: {hint}" if hint else "")
