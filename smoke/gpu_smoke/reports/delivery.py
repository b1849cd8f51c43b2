"""Brings the forms of a record to where they were asked for; what cannot be written is said, and costs no verdict."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from .. import output
from . import guest_attribute, step_summary
from .files import append, reason, size, write
from .junit import junit
from .message import message
from .prometheus import prometheus
from .record import Record
from .targets import Targets, option
from .workflow_commands import workflow_commands

FORMS: dict[str, Callable[[Record], str]] = {
    "--termination-log": message,
    "--junit": junit,
    "--prometheus": prometheus,
}


def first(record: Record, targets: Targets) -> Iterator[tuple[str, str, str]]:
    """What each file holds while a run has not ended: its option, its path and the text."""
    for name, path in targets.paths():
        # Metrics of the last run stay until there are new ones: a run that goes on is no failure.
        if name == "--prometheus" and Path(path).is_file() and os.access(path, os.W_OK):
            continue
        yield name, path, FORMS[name](record)


def files(record: Record, targets: Targets) -> list[str]:
    """Write every file that was asked for; returns what was lost, and why."""
    lost = []
    for name, path in targets.paths():
        try:
            write(path, FORMS[name](record))
        except Exception as error:  # an error of ours in one form must not cost the others, nor the verdict
            lost.append(f"{name} {path}: {reason(error)}")
    return lost


def attribute(record: Record, targets: Targets) -> list[str]:
    """Write the guest attribute, where one was asked for; returns what was lost, and why."""
    try:
        if targets.guest_attribute:
            guest_attribute.put(targets.guest_attribute, guest_attribute.guest_attribute(record))
    except Exception as error:
        return [f"{option('guest_attribute')} {targets.guest_attribute}: {reason(error)}"]
    return []


def github(record: Record, targets: Targets) -> None:
    """Tell GitHub Actions, where it listens; nobody asked for this, so what it does not take changes no verdict."""
    steps: tuple[Callable[[], object], ...] = (
        lambda: append(targets.output, f"verdict={record['verdict']}\n"),
        lambda: append(targets.step_summary, step_summary.step_summary(record, size(targets.step_summary))),
        lambda: output.put(sys.stderr, workflow_commands(record) if targets.annotations else ""),
    )
    for step in steps:
        try:
            step()
        except Exception as error:
            output.say(f"gpu-smoke: GitHub Actions was not told: {reason(error)}")
