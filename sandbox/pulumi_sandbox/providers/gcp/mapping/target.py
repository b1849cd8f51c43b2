"""Where a resource type lives in Google's API, as the tables of this folder and types.py write it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Target:
    """Where a resource type lives in Google's API."""

    document: str
    schema: str
    collection: str
    """The resource in the document that has the methods, dotted for nested ones."""
    base: tuple[str, ...] = ()
    fields: dict[str, str] = field(default_factory=dict)


OURS = {"deletionPolicy": ""}
IN_PROJECT = OURS | {"project": "@project"}
REGIONAL = IN_PROJECT | {"region": "@region"}
MEMBER = {"member": "members"}
