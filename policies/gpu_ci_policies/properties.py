"""Reading properties of which some are not known yet: in a preview, whatever comes from a resource that is not made."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeGuard


class Unknown:
    """Stands for a value that nobody knows before the update. It is neither true, false, empty nor missing."""

    def __repr__(self) -> str:
        return "(unknown)"

    def __bool__(self) -> bool:
        raise TypeError("an unknown value is neither true nor false; ask `is UNKNOWN` first")


UNKNOWN: Final = Unknown()


def at(value: object, *path: str) -> Any:
    """What stands at the path: None where nothing does, UNKNOWN where something on the way is unknown."""
    for key in path:
        if value is UNKNOWN:
            return UNKNOWN
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def entries(value: object, *path: str) -> list[Any]:
    """The known entries of the list at the path; an object is a list of one, and nothing or an unknown an empty one."""
    found = at(value, *path)
    if isinstance(found, Mapping):
        return [found]
    return [entry for entry in found if entry is not UNKNOWN] if is_list(found) else []


def mapping(value: object) -> Mapping[str, Any]:
    """An object; an empty one for whatever is none."""
    return value if isinstance(value, Mapping) else {}


def is_list(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether it is a list, and not a text."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def boolean(value: object) -> bool | None:
    """A switch, which some providers write as a text; None where it is missing, unknown, or something else."""
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(value.lower()) if isinstance(value, str) else None


def number(value: object) -> float | None:
    """A number, which some providers write as a text; None where it is missing, unknown, or something else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None


def document(value: object) -> Any:
    """What a property holds that is JSON as a text, or that JSON itself; None where it is neither."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return None


def texts(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Every text below a value, with its path as the engine writes it, such as `metadata.startup-script`."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield from texts(entry, f"{path}.{key}" if path else str(key))
    elif is_list(value):
        for index, entry in enumerate(value):
            yield from texts(entry, f"{path}[{index}]")
