"""Define the entries of the tables in this folder and in types.py."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Target:
    """The place of a resource type in Google's API, and the renames of its properties."""

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
