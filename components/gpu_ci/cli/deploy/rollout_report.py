"""Reports a rollout: as JSON, as text, and as a table with bars in the summary of a GitHub step."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpu_ci.cli.output import note
from gpu_ci.delivery.rollout.decide import End
from gpu_ci.delivery.rollout.loop import Event
from gpu_ci.delivery.rollout.state import DEPLOY, BadJournalError, State
from gpu_ci.delivery.targets.vertex import usd_per_hour

CODES = {"done": 0, "none": 0, "rolled-back": 2, "paused": 3, "open": 3, "error": 1}
_BAR_CELLS = 20


def document(state: State | None, end: End) -> dict[str, Any]:
    """Return the end, the journal and the deployed models as JSON. `state` is None if it cannot be read."""
    try:
        journal = state.journal() if state else None
    except BadJournalError:  # the text of the end says which label is wrong
        journal = None
    found: dict[str, Any] = {"status": end.status, "reason": end.reason, "text": end.text}
    if state is None:
        return found
    found |= {"endpoint": state.name}
    if journal:
        step = "deploy" if journal.step == DEPLOY else journal.step
        found["rollout"] = {
            "id": journal.rollout,
            "model": f"{journal.model}@{journal.version}",
            "stable": journal.stable or None,
            "step": step,
            "since": _time(journal.since),
            "status": journal.status,
            "reason": journal.reason,
        }
    found["deployedModels"] = [
        {
            "id": each.id,
            "model": f"{each.model}@{each.version}",
            "displayName": each.name,
            "percent": state.split.get(each.id, 0),
            "replicas": each.replicas,
            "usdPerHour": usd_per_hour(each, state.name),
            "created": _time(each.created),
        }
        for each in sorted(state.deployed.values(), key=lambda each: (each.created, each.id))
    ]
    return found


def show(event: Event) -> None:
    """Print an event to stderr."""
    note(f"{_time(event.time)} {event.text}")


def write_summary(endpoint: str, events: Sequence[Event], found: Mapping[str, Any]) -> None:
    """Append the traffic split over time to the summary of a GitHub step, if the command runs in one."""
    append_to_summary(summary_of(endpoint, events, found))


def append_to_summary(text: str) -> None:
    """Append text to the summary of a GitHub step, if the command runs in one and the file can be written."""
    if file := os.environ.get("GITHUB_STEP_SUMMARY"):
        try:
            with Path(file).open("a", encoding="utf-8") as summary:
                summary.write(text)
        except OSError as error:
            note(f"GITHUB_STEP_SUMMARY: {file} cannot be written: {error.strerror}")


def summary_of(endpoint: str, events: Sequence[Event], found: Mapping[str, Any]) -> str:
    """Return the summary as Markdown."""
    lines = [f"### Rollout on `{endpoint}`: {found['status']}", "", f"{cell(found['text'])}", ""]
    rows = [each for each in events if each.split]
    if rows:
        lines += ["| time | new model | split | what happened |", "|---|---:|---|---|"]
        for each in rows:
            percent = each.split.get(each.rollout, 0)
            lines.append(f"| {_time(each.time)} | {percent} % | `{_bar(percent)}` | {cell(each.text)} |")
        lines += ["", "█ new model, ░ other models", ""]
    models = found.get("deployedModels", [])
    if models:
        lines += ["| deployed model | model | traffic | replicas | USD/h |", "|---|---|---:|---:|---:|"]
        for each in models:
            price = "unknown" if each["usdPerHour"] is None else f"{each['usdPerHour']:,.2f}"
            lines.append(f"| {each['id']} | {each['model']} | {each['percent']} % | {each['replicas']} | {price} |")
        lines += ["", "The price is that of Compute Engine. Vertex AI adds a fee.", ""]
    return "\n".join(lines) + "\n"


def _bar(percent: int) -> str:
    filled = min(_BAR_CELLS, -(-percent * _BAR_CELLS // 100))
    return "█" * filled + "░" * (_BAR_CELLS - filled)


def cell(text: str) -> str:
    """Return text for a cell of a table. A message of Google may have any character."""
    escaped = text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
    return " ".join(escaped.split())


def _time(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
