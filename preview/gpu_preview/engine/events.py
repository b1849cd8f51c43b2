"""Reads the stack's outputs from the engine's event log (`--event-log`), because the digest lacks them.

Each line is one event (sdk/go/common/apitype/events.go of pulumi/pulumi v3.259.0). Secrets are masked in it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from .. import json_text
from ..diff import differences
from ..diff.values import UNKNOWN, opened
from ..model import PropertyChange
from .states import STACK

# Our limit. A parsed line can take twenty times its length in memory.
LONGEST_LINE_BYTES = 16 * 1024**2


class Outputs(NamedTuple):
    """The outputs of the stack in base and head, in the form of the digest."""

    before: Mapping[str, Any]
    after: Mapping[str, Any]

    def differing(self, *, makes_something: bool) -> tuple[PropertyChange, ...]:
        """Those that differ.

        What the base has no value of, and nobody can know before an update, is a difference only where a resource is
        made that it can be of. Else it is what the sandbox never tells of a resource that stays.
        """
        found = differences.between(self.before, self.after)
        return tuple(each for each in found if makes_something or each.kind != "add" or each.after != UNKNOWN)


def outputs(log: Path) -> Outputs:
    """The outputs of the stack; none where the log has none.

    The stack has two such events: one as it is registered, with the outputs it had, and the one that counts at the end.
    """
    last = Outputs({}, {})
    for _, event in of_kinds(log, ("resOutputsEvent",), STACK):
        metadata = event.get("metadata")
        if isinstance(metadata, Mapping) and metadata.get("type") == STACK:
            last = Outputs(_outputs(metadata.get("old")), _outputs(metadata.get("new")))
    return last


def of_kinds(
    log: Path, kinds: Collection[str], text: str = "", most_mib: float = math.inf
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The events of these kinds whose line has this text, each with its kind, in their order.

    The log is large, and most of it is never parsed. A line that is no event is passed over, such as one that was cut
    off as the engine was ended, or that is longer than any event. OSError where there is no log; TooMuchError where
    these lines together are more than `most_mib`, for whoever keeps what they say.
    """
    wanted, either = text.encode(), [kind.encode() for kind in kinds]
    left = most_mib * 1024**2
    with log.open("rb") as file:
        for line in _lines(file):
            if wanted in line and any(kind in line for kind in either):
                left -= len(line)
                if left < 0:
                    raise json_text.TooMuchError(f"it tells more than {most_mib:g} MiB")
                try:
                    event = json_text.read(line.decode(errors="replace"))
                except ValueError:
                    continue
                if isinstance(event, Mapping):
                    yield from ((kind, event[kind]) for kind in kinds if isinstance(event.get(kind), Mapping))


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines that can be events. Of a longer line, at most this length is in memory at a time."""
    while line := file.readline(LONGEST_LINE_BYTES):
        if len(line) < LONGEST_LINE_BYTES or line.endswith(b"\n"):
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = file.readline(LONGEST_LINE_BYTES)


def _outputs(state: Any) -> Mapping[str, Any]:
    return json_text.as_map(opened(json_text.as_map(json_text.as_map(state).get("outputs"))))
