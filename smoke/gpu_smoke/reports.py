"""The reports of a run next to its receipt: the table for a terminal or a log, and the message for Kubernetes.

A report is a pure function from the receipt's record to a text. Texts in a record come from drivers and device names,
so none of them is trusted.
"""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path
from typing import Any, TextIO

from .checks import BAD, EXIT_CODES, PASS, SKIP, WARN
from .printable import printable

Record = dict[str, Any]

# The limits of a value, and the sign with which they are shown.
BOUNDS = {"fail_below": ">=", "warn_below": ">=", "fail_above": "<="}
# Kubernetes keeps 4096 bytes of a termination message (kubernetes.io, "Determine the Reason for Pod Failure").
MESSAGE_BYTES = 4000

_HEADER = ("CHECK", "DEVICE", "STATUS", "LIMIT", "FOUND")
_COLOURS = {PASS: "green", WARN: "yellow", SKIP: "dim", **dict.fromkeys(BAD, "bold red")}
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


def table(record: Record, stream: TextIO) -> str:
    """Return every check, the hints and last the summary. The table is drawn by rich if `stream` is a terminal."""
    hints = dict.fromkeys(f"  hint: {safe_line(check['hint'])}" for check in record["checks"] if check.get("hint"))
    below = "\n".join([*hints, f"gpu-smoke: {safe_line(record['summary'])}"])
    return f"{(_drawn(record, stream) if _is_terminal(stream) else '') or _plain(record)}\n{below}"


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


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # the stream is closed
        return False


def _rows(record: Record) -> list[tuple[str, ...]]:
    """Return the header and one row per check. The column of limits is omitted if no check has a limit."""
    rows = [
        (safe_line(c["id"], 100), _device(record, c), c["status"], limits(c), safe_line(c["message"], 300))
        for c in record["checks"]
    ]
    keep = [0, 1, 2, *([3] if any(row[3] for row in rows) else []), 4]
    return [tuple(row[column] for column in keep) for row in (_HEADER, *rows)]


def _device(record: Record, check: Record) -> str:
    if record["device"] == "cpu":
        return "cpu"
    return "-" if check.get("gpu") is None else f"GPU {check['gpu']}"


def _plain(record: Record) -> str:
    rows = _rows(record)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths)), row[-1]])  # noqa: B905 - FOUND has no width
        for row in rows
    )


def _drawn(record: Record, stream: TextIO) -> str:
    """Draw the table with rich, in colours if NO_COLOR and TERM allow it. It is empty if rich fails."""
    try:
        from rich import box, console, table, text

        drawn = table.Table(box=box.SIMPLE_HEAD, pad_edge=False)
        header, *rows = _rows(record)
        for name in header:
            drawn.add_column(name, overflow="fold", no_wrap=name in ("DEVICE", "STATUS"))
        for row in rows:  # as Text, so that brackets in a message are not markup
            drawn.add_row(*(text.Text(cell, style=_COLOURS[row[2]] if at == 2 else "") for at, cell in enumerate(row)))
        width = console.Console(file=stream).width
        canvas = console.Console(file=io.StringIO(), force_terminal=True, width=width, highlight=False)
        with canvas.capture() as capture:
            canvas.print(drawn)
        return capture.get().rstrip("\n")
    except Exception:  # rich is missing or broken: use the plain table
        return ""
