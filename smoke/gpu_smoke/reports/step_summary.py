"""The summary of a GitHub Actions step: Markdown in which no text of the receipt is markup."""

from __future__ import annotations

import re
from collections.abc import Iterable

from .record import Record, device, limits, safe_line, worst_first

# GitHub drops a file above 1 MiB instead of cutting it (actions/runner: src/Runner.Common/Constants.cs,
# UnsupportedSummarySize).
SUMMARY_BYTES = 1024 * 1024
_MARKUP = re.compile(r"[!-+.:-@\[-`{-~-]")  # all ASCII punctuation except , and /
_HEADER = ("check", "device", "status", "limit", "found")


def step_summary(record: Record, written: int = 0) -> str:
    """Return verdict, summary, hints and a table of checks, the worst first, limited to the room in the file."""
    head = [f"### gpu-smoke: {literal(record['verdict'])}", "", literal(record["summary"]), ""]
    hints = dict.fromkeys(literal(check["hint"]) for check in worst_first(record["checks"]) if check.get("hint"))
    head += [f"- {hint}" for hint in list(hints)[:10]]
    head += [""] if hints else []
    head += [_row(_HEADER), _row(["---"] * len(_HEADER))]
    bytes_left = SUMMARY_BYTES - written - _size(head) - 200  # 200 bytes for the line about the rest
    rows: list[str] = []
    for check in worst_first(record["checks"]):
        row = _row(map(literal, _cells(record, check)))
        bytes_left -= _size([row])
        if bytes_left < 0:
            break
        rows.append(row)
    omitted = len(record["checks"]) - len(rows)
    rest = ["", f"{omitted} more checks do not fit here."] if omitted else []
    text = "\n".join([*head, *rows, *rest]) + "\n\n"
    return text if written + len(text.encode()) <= SUMMARY_BYTES else ""


def literal(value: object, limit: int = 300) -> str:
    """Escape a text so that Markdown and HTML show it literally. An entity is never structure (CommonMark, 2.5)."""
    return _MARKUP.sub(lambda found: f"&#{ord(found[0])};", safe_line(value, limit))


def _cells(record: Record, check: Record) -> tuple[str, ...]:
    name = f"{safe_line(check['id'], 100)} {safe_line(check.get('dtype', ''), 20)}"
    return name, device(record, check), check["status"], limits(check), safe_line(check["message"], 300)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _size(lines: list[str]) -> int:
    return sum(len(line.encode()) + 1 for line in lines)
