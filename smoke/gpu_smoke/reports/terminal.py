"""The table for a terminal or a log. It is plain text, or drawn by rich on a terminal if rich is installed."""

from __future__ import annotations

import io
from typing import TextIO

from .record import BAD, PASS, SKIP, WARN, Record, device, limits, safe_line

_HEADER = ("CHECK", "DEVICE", "STATUS", "LIMIT", "FOUND")
_COLOURS = {PASS: "green", WARN: "yellow", SKIP: "dim", **dict.fromkeys(BAD, "bold red")}


def table(record: Record, stream: TextIO) -> str:
    """Return every check, the hints and last the summary. The table is drawn by rich if `stream` is a terminal."""
    below = "\n".join([*_hints(record), f"gpu-smoke: {safe_line(record['summary'])}"])
    return f"{(_drawn(record, stream) if _is_terminal(stream) else '') or _plain(record)}\n{below}"


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # the stream is closed
        return False


def _rows(record: Record) -> list[tuple[str, ...]]:
    """Return the header and one row per check. The column of limits is omitted if no check has a limit."""
    rows = [
        (safe_line(c["id"], 100), device(record, c), c["status"], limits(c), safe_line(c["message"], 300))
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


def _hints(record: Record) -> list[str]:
    return list(dict.fromkeys(f"  hint: {safe_line(check['hint'])}" for check in record["checks"] if check.get("hint")))
