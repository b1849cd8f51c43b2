"""Read a receipt and validate it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import UsageError
from .record import BAD, PASS, STATUSES, Record, safe_line

SCHEMA = "smoke/1"
VERDICTS = (PASS, "fail", "incomplete")
MOST = 20  # the most problems that one error lists


class Problem(NamedTuple):
    """One problem of a receipt and its path."""

    path: str
    text: str
    got: Any
    expected: str


# The fields that reports require. All others may be missing, or differ in a later version.
_RECORD = {"schema": (SCHEMA,), "verdict": VERDICTS, "summary": str, "checks": list}
_CHECK = {"id": str, "status": STATUSES, "message": str}
_PARTS = {"pool": dict, "host": dict, "torch": dict, "gpus": list}
_NAMES: dict[type, str] = {str: "a text", list: "a list", dict: "an object"}


def read(name: str) -> Record:
    """Return the record from a file, or from standard input for `-`. Raises UsageError."""
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except (OSError, ValueError) as error:
        raise UsageError(f"gpu-smoke: {name}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    try:
        record = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"gpu-smoke: {name}: is not JSON ({safe_line(error, 100)})\n  hint: a receipt is what --json writes"
        ) from None
    if problems := list(_problems(record)):
        raise UsageError("\n".join(_lines(name, problems)))
    return dict(record)


def _problems(record: Any) -> Iterator[Problem]:
    if not isinstance(record, dict):
        yield Problem("", "is not a receipt", record, "an object")
        return
    yield from _wrong(record, _RECORD, "")
    yield from _wrong(record, {name: kind for name, kind in _PARTS.items() if name in record}, "")
    for part in ("gpus", "checks"):
        for at, item in enumerate(found if isinstance(found := record.get(part), list) else ()):
            if not isinstance(item, dict):
                yield Problem(f"{part}[{at}]", "has the wrong type", item, "an object")
            elif part == "checks":
                yield from _wrong(item, _CHECK, f"checks[{at}].")
                if record.get("verdict") == PASS and item.get("status") in BAD:
                    yield Problem(
                        f"checks[{at}].status",
                        "is a failure in a receipt with the verdict pass",
                        item["status"],
                        "no pass",
                    )
    if record.get("verdict") == PASS and record.get("checks") == []:
        yield Problem("checks", "are empty in a receipt with the verdict pass", [], "at least one")
    for name, agrees in (("ok", True), ("exit_code", 0)):
        if name in record and (record[name] == agrees) != (record.get("verdict") == PASS):
            yield Problem(
                name,
                f"contradicts the verdict {record.get('verdict')}",
                record[name],
                "a value that matches the verdict",
            )


def _wrong(found: Record, fields: dict[str, Any], at: str) -> Iterator[Problem]:
    for name, kind in fields.items():
        value = found.get(name)
        if isinstance(kind, tuple) and value not in kind:
            yield Problem(f"{at}{name}", "is missing" if name not in found else "is unknown", value, " or ".join(kind))
        elif isinstance(kind, type) and not isinstance(value, kind):
            yield Problem(
                f"{at}{name}", "is missing" if name not in found else "has the wrong type", value, _NAMES[kind]
            )


def _lines(name: str, problems: list[Problem]) -> Iterator[str]:
    for problem in problems[:MOST]:
        at = f"{problem.path}: " if problem.path else ""
        yield f"gpu-smoke: {name}: {at}{problem.text}"
        yield f"  got: {safe_line(repr(problem.got), 80)}"
        yield f"  expected: {problem.expected}"
    if len(problems) > MOST:
        yield f"gpu-smoke: {name}: and {len(problems) - MOST} more"
    yield f"  hint: a receipt is what gpu-smoke --json writes, of schema {SCHEMA}"
