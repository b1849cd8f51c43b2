"""Reads JSON that anybody may have written: what comes out can be walked, compared, shown and written again."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

# Twice as deep as the deepest schema of a custom resource; code that goes through a value may call itself as often.
DEEPEST = 128
# Each part of a value follows one of these signs, and takes up to 120 bytes in memory however short its text is
# (measured: CPython 3.11, `{"a":1},`). A digest of 100 pools has 240,000 of them.
MAX_VALUES = 1_000_000
_BEFORE_VALUES = ("{", "[", ",")
# Of a whole file as Python holds its text, which is one, two or four bytes for each sign, by the widest of all. It is
# held once more in the values. A digest of 100 pools is 103 MiB, all of it ASCII.
MOST_MIB = 256.0
_FOUR_BYTES = re.compile(rb"[\xf0-\xf4]")
_HALF_A_PAIR = re.compile(r"\\u[dD][89a-fA-F]")


class TooMuchError(ValueError):
    """It may be JSON, and is more than anybody's; the text says by what."""


def read(text: str) -> Any:
    """What the text says.

    ValueError for what is no JSON, nests deeper than any value does, or has a number that is none (NaN); TooMuchError
    for what would take much memory, before any of it is taken.
    """
    if sum(map(text.count, _BEFORE_VALUES)) > MAX_VALUES:
        raise TooMuchError(f"it has more than {MAX_VALUES:,} parts")
    try:
        value = json.loads(text, parse_constant=_refused, parse_float=_finite)
    except RecursionError:
        raise ValueError("nests too deep") from None
    if _nests_too_deep(value):
        raise ValueError("nests too deep")
    if not _HALF_A_PAIR.search(text):
        return value
    del text  # as large as the values
    return _of_whole_signs(value)


def read_file(path: Path) -> Any:
    """What a file says, as `read`; its text is not kept. OSError where it cannot be read."""
    return read(_text(path))


def _text(path: Path) -> str:
    most = int(MOST_MIB * 1024**2)
    with path.open("rb") as file:
        content = file.read(most + 1)
    # What is no UTF-8 becomes a sign of two bytes.
    width = 1 if content.isascii() else 4 if _FOUR_BYTES.search(content) else 2
    if len(content) * width > most:
        raise TooMuchError(f"its text takes more than {MOST_MIB:g} MiB of memory")
    return content.decode(errors="replace")


def _of_whole_signs(value: Any) -> Any:
    """Half of a sign, which a JSON text can name, is no Unicode, and no file takes it: `?` stands for it."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode(errors="replace").decode()
    if isinstance(value, list):
        return [_of_whole_signs(one) for one in value]
    if isinstance(value, dict):
        return {_of_whole_signs(key): _of_whole_signs(one) for key, one in value.items()}
    return value


def _refused(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):  # `1e999`, which is written again as a word that is no JSON
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
    """The value where it is a text, and none otherwise."""
    return value if isinstance(value, str) else ""


def as_map(value: Any) -> Mapping[str, Any]:
    """The value where it is an object, and an empty one otherwise."""
    return value if isinstance(value, Mapping) else {}


def as_list(value: Any) -> list[Any]:
    """The value where it is a list, and an empty one otherwise."""
    return value if isinstance(value, list) else []
