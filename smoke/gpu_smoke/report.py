"""What people read: a plain table for a terminal or a log, and the short message for a termination log."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import TextIO

from .checks import Check
from .faults import one_line

# Kubernetes keeps 4096 bytes of a termination message (kubernetes.io, "Determine the Reason for Pod Failure").
MESSAGE_BYTES = 4000


def say(text: str) -> None:
    """Tell a person."""
    put(sys.stderr, text.rstrip("\n") + "\n")


def put(stream: TextIO, text: str) -> None:
    """Write, and outlive a reader that has gone: the verdict is the exit code."""
    try:
        stream.write(text)
        stream.flush()
    except OSError:  # what is left in the buffer must go somewhere, or Python leaves with 120
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def table(device: str, checks: Sequence[Check], summary: str) -> str:
    """Every check in a line, the hints of those that failed, and the summary last, where the eye lands."""
    header = ("CHECK", "DEVICE", "STATUS", "FOUND")
    rows = [(c.id, _device(device, c), c.status, one_line(c.message)) for c in checks]
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(3)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]])
        for row in (header, *rows)
    ]
    return "\n".join([*lines, *_hints(checks), f"gpu-smoke: {one_line(summary)}"])


def message(summary: str, wrong: Sequence[Check]) -> str:
    """At most 4000 bytes, the sentence first; a pass is that one line."""
    lines = [one_line(summary)]
    lines += [f"hint: {one_line(wrong[0].hint)}"] if wrong else []
    lines += [f"{check.id}: {one_line(check.message)}" for check in wrong]
    return cut("\n".join(lines) + "\n", MESSAGE_BYTES)


def cut(text: str, limit: int) -> str:
    """The longest beginning that fits, without half a character at its end."""
    return text.encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")


def _hints(checks: Iterable[Check]) -> list[str]:
    return list(dict.fromkeys(f"  hint: {check.hint}" for check in checks if check.hint))


def _device(device: str, check: Check) -> str:
    if device == "cpu":
        return "cpu"
    return "-" if check.gpu is None else f"GPU {check.gpu}"
