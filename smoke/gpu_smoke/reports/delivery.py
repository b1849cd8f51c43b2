"""Write the reports of a record to their targets, and report those that cannot be written."""

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
    """Return the content of each file while a run has not ended: option, path and text."""
    for name, path in targets.paths():
        # Keep the metrics of the last run until there are new ones: an unfinished run is no failure.
        if name == "--prometheus" and Path(path).is_file() and os.access(path, os.W_OK):
            continue
        yield name, path, FORMS[name](record)


def files(record: Record, targets: Targets) -> list[str]:
    """Write every requested file. Returns the errors of those that could not be written."""
    errors = []
    for name, path in targets.paths():
        try:
            write(path, FORMS[name](record))
        except Exception as error:  # an error of this program in one format must not affect the others or the verdict
            errors.append(f"{name} {path}: {reason(error)}")
    return errors


def attribute(record: Record, targets: Targets) -> list[str]:
    """Write the guest attribute if it was requested. Returns its error."""
    try:
        if targets.guest_attribute:
            guest_attribute.put(targets.guest_attribute, guest_attribute.guest_attribute(record))
    except Exception as error:
        return [f"{option('guest_attribute')} {targets.guest_attribute}: {reason(error)}"]
    return []


def github(record: Record, targets: Targets) -> None:
    """Write to GitHub Actions if its variables are set. No option requested this, so an error changes no verdict."""
    steps: tuple[Callable[[], object], ...] = (
        lambda: append(targets.output, f"verdict={record['verdict']}\n"),
        lambda: append(targets.step_summary, step_summary.step_summary(record, size(targets.step_summary))),
        lambda: output.put(sys.stderr, workflow_commands(record) if targets.annotations else ""),
    )
    for step in steps:
        try:
            step()
        except Exception as error:
            output.say(f"gpu-smoke: GitHub Actions did not get the report: {reason(error)}")
