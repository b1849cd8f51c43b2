"""How rules read inputs, which a preview may not know yet and which may have any form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pulumi_sandbox.providers.resource import DEFAULTS
from pulumi_sandbox.providers.values import UNKNOWN


def is_known(value: Any) -> bool:
    """Whether there is a value, and it is known."""
    return value is not None and value is not UNKNOWN


def table(value: Any) -> dict[str, Any]:
    """A map without the bridge's own notes; of anything else, an empty one."""
    return {key: inner for key, inner in value.items() if key != DEFAULTS} if isinstance(value, dict) else {}


def rows(value: Any) -> list[Any]:
    """A list; of anything else, an empty one."""
    return list(value) if isinstance(value, list | tuple) else []


def text_of(inputs: Mapping[str, Any], name: str) -> str:
    """An input that is a known text, or nothing."""
    value = inputs.get(name)
    return value if isinstance(value, str) else ""
