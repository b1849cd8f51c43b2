"""Print values as Go does, for the API server's errors about types (pkg.go.dev/fmt)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

LIST, MAP = "[]interface {}", "map[string]interface {}"


def type_of(value: Any) -> str:
    """Return the type of a value as the verb `%T` prints it."""
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case int():
            return "int64"
        case float():
            return "float64"
        case list():
            return LIST
    return MAP


def text(value: Any) -> str:
    """Return a value as the verb `%v` prints it."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return str(value).lower()
        case list():
            return f"[{' '.join(map(text, value))}]"
        case Mapping():
            return f"map[{' '.join(f'{key}:{text(value[key])}' for key in sorted(value))}]"
    return str(value)


def source(value: Any) -> str:
    """Return a value as the verb `%#v` prints it."""
    match value:
        case None:
            return "interface {}(nil)"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case list():
            return f"{LIST}{{{', '.join(map(source, value))}}}"
        case Mapping():
            return f"{MAP}{{{', '.join(f'{source(key)}:{source(value[key])}' for key in sorted(value))}}}"
    return text(value)
