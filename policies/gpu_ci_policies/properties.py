"""Reads properties that may be unknown. In a preview, outputs of resources that do not exist yet are unknown."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeGuard


class Unknown:
    """A value that is unknown before the update. It is neither true, false, empty nor missing."""

    def __repr__(self) -> str:
        return "(unknown)"

    def __bool__(self) -> bool:
        raise TypeError("an unknown value is neither true nor false; check `is UNKNOWN` first")


UNKNOWN: Final = Unknown()


def at(value: object, *path: str) -> Any:
    """Return the value at a path: None if it is missing, UNKNOWN if it or a parent is unknown."""
    for key in path:
        if value is UNKNOWN:
            return UNKNOWN
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def entries(value: object, *path: str) -> list[Any]:
    """Return the known entries of the list at a path. An object counts as a list of one, an unknown as empty."""
    found = at(value, *path)
    if isinstance(found, Mapping):
        return [found]
    return [entry for entry in found if entry is not UNKNOWN] if is_list(found) else []


def mapping(value: object) -> Mapping[str, Any]:
    """Return the value if it is an object, else an empty object."""
    return value if isinstance(value, Mapping) else {}


def is_list(value: object) -> TypeGuard[Sequence[Any]]:
    """Return True if the value is a list, not text."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def boolean(value: object) -> bool | None:
    """Return a boolean, which some providers write as text; None if it is missing, unknown or of another type."""
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(value.lower()) if isinstance(value, str) else None


def number(value: object) -> float | None:
    """Return a number, which some providers write as text; None if it is missing, unknown or of another type."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None


def document(value: object) -> Any:
    """Return the value of a property that is JSON or JSON text; None if the text is not JSON."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return None


def texts(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield every text in a value, with its path in the engine's format, such as `metadata.startup-script`."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield from texts(entry, f"{path}.{key}" if path else str(key))
    elif is_list(value):
        for index, entry in enumerate(value):
            yield from texts(entry, f"{path}[{index}]")
