"""Define the entries of the tables in this folder and in types.py."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Target:
    """The place of a resource type in Google's API, and the renames of its properties."""

    document: str
    """The discovery document, such as `compute.v1`."""
    schema: str
    """The schema of the request in the document."""
    collection: str
    """The resource in the document that has the methods, dotted for nested ones."""
    base: tuple[str, ...] = ()
    """The path in the schema of the object that has the properties."""
    fields: dict[str, str] = field(default_factory=dict)
    """The renames. types.py describes their form."""


# An input that the provider handles itself and never sends to Google.
PROVIDER_ONLY = {"deletionPolicy": ""}
IN_PROJECT = PROVIDER_ONLY | {"project": "@project"}
REGIONAL = IN_PROJECT | {"region": "@region"}
MEMBER = {"member": "members"}
