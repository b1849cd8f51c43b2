"""What an editor can know of a Cloud Build pool while its stack file is written."""

from __future__ import annotations

from typing import Any

from .places import MACHINE_TYPES, REGIONS


def add_places(schema: dict[str, Any]) -> None:
    """The machine types and regions there are, and the names triggers can have."""
    fields = schema["properties"]
    fields["machineType"]["enum"] = list(MACHINE_TYPES)
    fields["region"]["enum"] = list(REGIONS)
