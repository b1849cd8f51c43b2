"""Reads JSON that anybody may have written: what comes out can be walked, compared, shown and written again."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn

# Twice as deep as the deepest schema of a custom resource; code that goes through a value may call itself as often.
DEEPEST = 128
_HALF_A_PAIR = re.compile(r"\\u[dD][89a-fA-F]")


def read(text: str) -> Any:
    """What the text says.

    ValueError for what is no JSON, nests deeper than any value does, or has a number that is none (NaN).
    """
    try:
        value = json.loads(text, parse_constant=_refused)
    except RecursionError:
        raise ValueError("nests too deep") from None
    if _nests_too_deep(value):
        raise ValueError("nests too deep")
    if _HALF_A_PAIR.search(text):
        # Half of a character is no Unicode, and no file takes it.
        value = json.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"))
    return value


def _refused(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _nests_too_deep(value: Any) -> bool:
    layer, depth = [value] if isinstance(value, dict | list) else [], 0
    while layer and depth < DEEPEST:
        inner = [part for each in layer for part in (each.values() if isinstance(each, dict) else each)]
        layer = [part for part in inner if isinstance(part, dict | list)]
        depth += 1
    return bool(layer)


def as_text(value: Any) -> str:
    """The value where it is a text, and none otherwise."""
    return value if isinstance(value, str) else ""


def as_map(value: Any) -> Mapping[str, Any]:
    """The value where it is an object, and an empty one otherwise."""
    return value if isinstance(value, Mapping) else {}


def as_list(value: Any) -> list[Any]:
    """The value where it is a list, and an empty one otherwise."""
    return value if isinstance(value, list) else []
