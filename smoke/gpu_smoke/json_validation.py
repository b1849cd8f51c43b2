"""Validation of JSON files: the subset of JSON Schema that this package needs, with every error reported."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .reports.record import safe_line

Schema = Mapping[str, Any]
_KINDS: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "null": (type(None),),
}


class Problem(NamedTuple):
    """One error in a file, in the form that every error of this project has."""

    subject: str
    problem: str
    got: str
    expected: str
    hint: str

    def __str__(self) -> str:
        details = f"  got: {self.got}\n  expected: {self.expected}\n  hint: {self.hint}"
        return f"{safe_line(self.subject)}: {self.problem}\n{details}"


def read(path: Path, schema: Schema, hint: str) -> tuple[Any, list[Problem]]:
    """Read a JSON file. Returns its value, or None with the errors."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse)
    except OSError as error:
        return None, [Problem(str(path), "cannot be read", str(error.strerror), "an existing file", hint)]
    except (ValueError, RecursionError) as error:
        return None, [Problem(str(path), "not JSON", repr(str(error)[:200]), "JSON in UTF-8", hint)]
    wrong = [Problem(f"{path}: {each.subject}", *each[1:4], hint) for each in problems(value, schema)]
    return (None, wrong) if wrong else (value, [])


def problems(value: Any, schema: Schema, path: str = "") -> Iterator[Problem]:
    """Return the errors of a value. The subject of an error is a path such as `gpus[0].name`."""
    kinds = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    if not any(_is(value, kind) for kind in kinds):
        yield _problem(path, "wrong type", value, " or ".join(kinds))
    elif "enum" in schema and value not in schema["enum"]:
        yield _problem(path, "unknown value", value, " or ".join(map(repr, schema["enum"])))
    elif "pattern" in schema and not re.search(schema["pattern"], value):
        yield _problem(path, "wrong format", value, schema["pattern"])
    elif "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
        yield _problem(path, "too small", value, f"more than {schema['exclusiveMinimum']}")
    elif isinstance(value, dict):
        yield from _members(value, schema, path)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from problems(each, schema["items"], f"{path}[{index}]")


def _members(value: dict[str, Any], schema: Schema, path: str) -> Iterator[Problem]:
    known = schema.get("properties", {})
    for key in schema.get("required", ()):
        if key not in value:
            yield Problem(_join(path, key), "missing", "nothing", "this field", "")
    for key, each in value.items():
        if key in known:
            yield from problems(each, known[key], _join(path, key))
        elif schema.get("additionalProperties") is False:
            yield _problem(_join(path, key), "unknown", each, ", ".join(known))


def _problem(path: str, problem: str, value: Any, expected: str) -> Problem:
    got = repr(value)
    return Problem(path or "the whole file", problem, got if len(got) <= 80 else got[:79] + "…", expected, "")


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _is(value: Any, kind: str) -> bool:
    return isinstance(value, _KINDS[kind]) and not isinstance(value, bool)


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not a JSON number")
