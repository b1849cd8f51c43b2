"""What the clouds call boot disks and network interfaces, and what is wrong with a name none of them has."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from . import data_files
from .errors import closest
from .finding import Finding, changes, cited
from .setup import Setup

PARTS = {"boot_disk": "boot disk", "nic": "network interface"}
"""Choices of a setup that are such names, in words."""


def spelled(part: str, name: str) -> str:
    """The name in its cloud's spelling: gvnic is GVNIC. One that no cloud has stays as it is."""
    return {known.lower(): known for _, known in _names(part)}.get(name.lower(), name)


def is_of(part: str, name: str, cloud: str) -> bool:
    """Whether a cloud has such a part."""
    return (cloud, name) in _names(part)


def findings(setup: Setup) -> Iterator[Finding]:
    """Parts of another cloud, and of none."""
    machine = setup.machine
    for part, word in PARTS.items():
        chosen = getattr(setup, part)
        if not chosen or is_of(part, chosen, machine.cloud):
            continue
        own = [name for cloud, name in _names(part) if cloud == machine.cloud]
        taken = getattr(machine, f"{part}s") or own
        rule = part.replace("_", "-")
        if others := [cloud for cloud, name in _names(part) if name == chosen]:
            text = f"{chosen} is a {word} of {others[0]}, and {machine.key} is not"
            yield Finding(f"{rule}.cloud", part, text, _cited(part, others[0]), changes(part, taken))
            continue
        near = spelled(part, closest(chosen, [name.lower() for name in own]))
        text = f"{machine.cloud} has no {word} {chosen}" + (f"; did you mean {near}?" if near else "")
        first = [near] if near in taken else []
        yield Finding(f"{rule}.unknown", part, text, _cited(part, machine.cloud), changes(part, [*first, *taken]))


@cache
def _names(part: str) -> tuple[tuple[str, str], ...]:
    """Cloud and name of every part of that sort."""
    return tuple(
        (row["cloud"], name) for row in data_files.rows("parts") if row["part"] == part for name in row["names"]
    )


def _cited(part: str, cloud: str) -> str:
    row = next(row for row in data_files.rows("parts") if (row["part"], row["cloud"]) == (part, cloud))
    return cited(row["sources"]["names"])
