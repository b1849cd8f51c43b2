"""The table for a terminal or a log: plain always, drawn by rich where that is installed and somebody looks."""

from __future__ import annotations

import io
from typing import TextIO

from .record import BAD, PASS, SKIP, WARN, Record, device, limits, shown

_HEADER = ("CHECK", "DEVICE", "STATUS", "LIMIT", "FOUND")
_COLOURS = {PASS: "green", WARN: "yellow", SKIP: "dim", **dict.fromkeys(BAD, "bold red")}


def table(record: Record, stream: TextIO) -> str:
    """Every check, the hints, and the summary last, where the eye lands; drawn where `stream` is a terminal."""
    below = "\n".join([*_hints(record), f"gpu-smoke: {shown(record['summary'])}"])
    return f"{(_drawn(record, stream) if _is_terminal(stream) else '') or _plain(record)}\n{below}"


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # it is closed
        return False


def _rows(record: Record) -> list[tuple[str, ...]]:
    """The header and a row a check; the column of limits is there where one has a limit."""
    rows = [
        (shown(c["id"], 100), device(record, c), c["status"], limits(c), shown(c["message"], 300))
        for c in record["checks"]
    ]
    keep = [0, 1, 2, *([3] if any(row[3] for row in rows) else []), 4]
    return [tuple(row[column] for column in keep) for row in (_HEADER, *rows)]


def _plain(record: Record) -> str:
    rows = _rows(record)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths)), row[-1]])  # noqa: B905 - FOUND has no width
        for row in rows
    )


def _drawn(record: Record, stream: TextIO) -> str:
    """The table by rich, in colours where NO_COLOR and TERM allow them; empty where it cannot be had."""
    try:
        from rich import box, console, table, text

        drawn = table.Table(box=box.SIMPLE_HEAD, pad_edge=False)
        header, *rows = _rows(record)
        for name in header:
            drawn.add_column(name, overflow="fold", no_wrap=name in ("DEVICE", "STATUS"))
        for row in rows:  # as Text, so that brackets in a message are no markup
            drawn.add_row(*(text.Text(cell, style=_COLOURS[row[2]] if at == 2 else "") for at, cell in enumerate(row)))
        width = console.Console(file=stream).width
        canvas = console.Console(file=io.StringIO(), force_terminal=True, width=width, highlight=False)
        with canvas.capture() as capture:
            canvas.print(drawn)
        return capture.get().rstrip("\n")
    except Exception:  # no rich, or one that is broken here: the plain table says the same
        return ""


def _hints(record: Record) -> list[str]:
    return list(dict.fromkeys(f"  hint: {shown(check['hint'])}" for check in record["checks"] if check.get("hint")))
