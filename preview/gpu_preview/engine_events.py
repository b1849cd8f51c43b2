"""What the engine's log of events (`--event-log`) says beyond its digest: the outputs of the stack itself.

One event a line, as sdk/go/common/apitype/events.go of pulumi/pulumi v3.259.0 has them. Secrets are masked in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from . import differences
from .digest import STACK
from .report import PropertyChange


def outputs(log: Path) -> tuple[PropertyChange, ...]:
    """The outputs of the stack that differ; none where the log has none.

    The stack has two such events: one as it is registered, with the outputs it had, and the one that counts at the end.
    """
    last: tuple[Mapping[str, Any], Mapping[str, Any]] = ({}, {})
    for event in of_kind(log, "resOutputsEvent", STACK):
        metadata = event.get("metadata")
        if isinstance(metadata, Mapping) and metadata.get("type") == STACK:
            last = _outputs(metadata.get("old")), _outputs(metadata.get("new"))
    return tuple(differences.between(*last))


def of_kind(log: Path, kind: str, *texts: str) -> Iterator[Mapping[str, Any]]:
    """The events of a kind whose line has these texts; the log is large, and most of it is never parsed."""
    with log.open(errors="replace") as file:
        for line in file:
            if kind in line and all(text in line for text in texts):
                try:
                    event = json.loads(line)
                except (ValueError, RecursionError):
                    continue
                if isinstance(event, Mapping) and isinstance(event.get(kind), Mapping):
                    yield event[kind]


def _outputs(state: Any) -> Mapping[str, Any]:
    found = state.get("outputs") if isinstance(state, Mapping) else None
    return found if isinstance(found, Mapping) else {}
