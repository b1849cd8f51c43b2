"""Reads untrusted JSON.

The values it returns are safe to walk, compare, print and serialize again.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

# Twice the depth of the deepest schema of a custom resource. Code that walks a value may recurse this often.
DEEPEST = 128
# The limit for the elements of a value. An element takes up to 120 bytes of memory, however short its text is
# (measured: CPython 3.11, `{"a":1},`). The digest of a stack with 100 pools has 240,000 elements.
MAX_VALUES = 1_000_000
# One of these characters precedes each element.
_BEFORE_VALUES = ("{", "[", ",")
# The memory that Python needs for the text of a file. Python uses one, two or four bytes for each character; the widest
# character decides. The values need about the same again. The digest of 100 pools is 103 MiB of ASCII.
MAX_MIB = 256.0
_FOUR_BYTES = re.compile(rb"[\xf0-\xf4]")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class TooMuchError(ValueError):
    """Raised for text that exceeds a limit on its size; the message names the limit."""


def read(text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: the text is not JSON, is nested too deeply, or contains NaN or an infinite number.
        TooMuchError: the value would need too much memory. The check runs before the text is parsed.
    """
    if sum(map(text.count, _BEFORE_VALUES)) > MAX_VALUES:
        raise TooMuchError(f"it has more than {MAX_VALUES:,} elements")
    try:
        value = json.loads(text, parse_constant=_refused, parse_float=_finite)
    except RecursionError:
        raise ValueError("nests too deep") from None
    if _nests_too_deep(value):
        raise ValueError("nests too deep")
    if not _SURROGATE.search(text):
        return value
    del text  # as large as the values
    return _without_surrogates(value)


def read_file(path: Path) -> Any:
    """Return the value of a JSON file, with the same limits as `read`. The text is not kept in memory.

    Raises:
        OSError: the file cannot be read.
    """
    return read(_text(path))


def _text(path: Path) -> str:
    most = int(MAX_MIB * 1024**2)
    with path.open("rb") as file:
        content = file.read(most + 1)
    # Bytes that are not UTF-8 become U+FFFD, which takes two bytes.
    width = 1 if content.isascii() else 4 if _FOUR_BYTES.search(content) else 2
    if len(content) * width > most:
        raise TooMuchError(f"its text takes more than {MAX_MIB:g} MiB of memory")
    return content.decode(errors="replace")


def _without_surrogates(value: Any) -> Any:
    """Return the value with `?` for each unpaired surrogate: JSON can express one, UTF-8 cannot."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode(errors="replace").decode()
    if isinstance(value, list):
        return [_without_surrogates(one) for one in value]
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(one) for key, one in value.items()}
    return value


def _refused(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a finite number")


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):  # `1e999`, which json.dumps writes as `Infinity`, which is not JSON
        _refused(digits)
    return value


def _nests_too_deep(value: Any) -> bool:
    layer, depth = [value] if isinstance(value, dict | list) else [], 0
    while layer and depth < DEEPEST:
        inner = [part for each in layer for part in (each.values() if isinstance(each, dict) else each)]
        layer = [part for part in inner if isinstance(part, dict | list)]
        depth += 1
    return bool(layer)


def as_text(value: Any) -> str:
    """Return the value if it is a string, else an empty string."""
    return value if isinstance(value, str) else ""


def as_map(value: Any) -> Mapping[str, Any]:
    """Return the value if it is a mapping, else an empty mapping."""
    return value if isinstance(value, Mapping) else {}


def as_list(value: Any) -> list[Any]:
    """Return the value if it is a list, else an empty list."""
    return value if isinstance(value, list) else []
