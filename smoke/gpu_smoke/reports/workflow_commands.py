"""Annotations of GitHub Actions as workflow commands. output.py escapes such commands in other lines."""

from __future__ import annotations

from .record import WARN, Record, advice, bad, safe_line, silent, title

PER_KIND = 10  # GitHub shows this many per step (actions/toolkit: docs/problem-matchers.md)


def workflow_commands(record: Record) -> str:
    """Return a line for each failure and warning. If there are too many, the last line has the number of the rest."""
    errors = [(title(record, check), advice(check)) for check in bad(record)]
    if silent(record):
        errors = [(safe_line(record["verdict"], 40), safe_line(record["summary"]))]
    warnings = [(title(record, check), advice(check)) for check in record["checks"] if check["status"] == WARN]
    return "".join(f"{line}\n" for line in [*_lines("error", errors), *_lines("warning", warnings)])


def _lines(kind: str, found: list[tuple[str, str]]) -> list[str]:
    if len(found) > PER_KIND:
        more = len(found) - PER_KIND + 1
        found = [*found[: PER_KIND - 1], (f"{more} more", f"{more} more of this kind are in the log")]
    return [f"::{kind} title={_property(f'gpu-smoke {name}')}::{_data(text)}" for name, text in found]


def _data(text: str) -> str:
    return text.replace("%", "%25")  # safe_line() has removed line ends; they would be %0D and %0A


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
