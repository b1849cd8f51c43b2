"""The reports of a run next to its receipt: the table for a terminal or a log, and the message for Kubernetes.

A report is a pure function from the receipt's record to a text. Texts in a record come from drivers and device names,
so none of them is trusted.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

from .checks import BAD, EXIT_CODES
from .output import printable

Record = dict[str, Any]

# The limits of a value, and the sign with which they are shown.
BOUNDS = {"fail_below": ">=", "warn_below": ">=", "fail_above": "<="}
# Kubernetes keeps 4096 bytes of a termination message (kubernetes.io, "Determine the Reason for Pod Failure").
MESSAGE_BYTES = 4000

_HEADER = ("CHECK", "DEVICE", "STATUS", "LIMIT", "FOUND")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def safe_line(value: Any, limit: int = 1000) -> str:
    """Return a text as one line without control characters, escape sequences or changes of direction."""
    text = " ".join(printable(str(value)[: 4 * limit]).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def cut(text: str, limit: int) -> str:
    """Return the longest prefix of at most that many bytes, without half a character at its end."""
    return text.encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")


def message(record: Record) -> str:
    """Return the message for a termination log, which Pulumi and kubectl show: at most 4000 bytes.

    It has the summary, the hint of the worst failure, and the failures. A pass has only the summary.
    """
    wrong = [check for check in record["checks"] if check["status"] in BAD]
    wrong.sort(key=lambda check: [*EXIT_CODES].index(check["severity"]))  # the worst first
    lines = [safe_line(record["summary"])]
    lines += [f"hint: {safe_line(wrong[0]['hint'])}"] if wrong and wrong[0].get("hint") else []
    lines += [f"{safe_line(check['id'], 100)}: {safe_line(check['message'], 300)}" for check in wrong]
    return cut("\n".join(lines) + "\n", MESSAGE_BYTES)


def table(record: Record) -> str:
    """Return a table of every check, the hints and last the summary. A column without any limit is left out."""
    rows = [
        (safe_line(c["id"], 100), _device(record, c), c["status"], limits(c), safe_line(c["message"], 300))
        for c in record["checks"]
    ]
    keep = [0, 1, 2, *([3] if any(row[3] for row in rows) else [])]
    widths = {column: max(len(row[column]) for row in (_HEADER, *rows)) for column in keep}
    lines = ["  ".join([*(row[at].ljust(width) for at, width in widths.items()), row[-1]]) for row in (_HEADER, *rows)]
    hints = dict.fromkeys(f"  hint: {safe_line(check['hint'])}" for check in record["checks"] if check.get("hint"))
    return "\n".join([*lines, *hints, f"gpu-smoke: {safe_line(record['summary'])}"])


def limits(check: Record) -> str:
    """Return the limit of the value, such as `>= 18 TFLOPS`: the one that fails, else the one that warns."""
    unit = safe_line(check.get("unit", ""), 20)
    return next((f"{sign} {check[name]:g} {unit}".rstrip() for name, sign in BOUNDS.items() if name in check), "")


def write(name: str, text: str) -> None:
    """Write a whole file, or leave it as it was if the disk is full. A symbolic link is kept.

    The text goes to a temporary file in the same folder first. A file that cannot be replaced is overwritten.
    """
    path = Path(os.path.realpath(name))
    if Path(name).exists() and not path.is_file():
        Path(name).write_text(text, encoding="utf-8")  # a pipe or a device such as /dev/stderr
        return
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    except OSError as error:
        new.unlink(missing_ok=True)
        if error.errno in _FULL or not path.exists():
            raise
        path.write_text(text, encoding="utf-8")  # a file that is a mount of its own, such as /dev/termination-log


def reason(error: Exception) -> str:
    """Return a short reason why a file could not be written."""
    return getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"


def _device(record: Record, check: Record) -> str:
    if record["device"] == "cpu":
        return "cpu"
    return "-" if check.get("gpu") is None else f"GPU {check['gpu']}"
