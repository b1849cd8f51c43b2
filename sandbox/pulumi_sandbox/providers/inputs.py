"""Functions that read inputs for rules. A preview may not know an input, and an input may have any type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def without_bridge_keys(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object without the keys of the bridge, which begin with two underscores (`__defaults`)."""
    return {name: value for name, value in inputs.items() if not name.startswith("__")}


def table(value: Any) -> dict[str, Any]:
    """Return a map without the keys of the bridge, or an empty map for any other value."""
    return without_bridge_keys(value) if isinstance(value, dict) else {}


def rows(value: Any) -> list[Any]:
    """Return a list, or an empty list for any other value."""
    return list(value) if isinstance(value, list | tuple) else []


def text_of(inputs: Mapping[str, Any], name: str) -> str:
    """Return an input that is a known string, or an empty string."""
    value = inputs.get(name)
    return value if isinstance(value, str) else ""
