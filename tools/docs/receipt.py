"""Writes the page docs/reference/gpu-smoke-receipt.md: every field of a receipt, from its published schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "gpu-smoke-receipt.schema.json"
TYPES = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false", "null": "null"}


def page() -> Iterator[str]:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    yield "# The receipt of gpu-smoke: fields"
    yield ""
    yield f"Generated from [{SCHEMA.name}](../{SCHEMA.name}) (JSON Schema 2020-12) by `make docs`."
    yield "The tests validate every receipt against the schema. How to get a receipt: [gpu-smoke](gpu-smoke.md)."
    yield ""
    yield schema["description"]
    yield ""
    yield "| field | type | required | what it is |"
    yield "|---|---|---|---|"
    yield from rows(schema, schema["$defs"])
    yield ""


def rows(owner: dict[str, Any], defs: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield a row for each field. The fields of an object, or of a list of objects, follow it."""
    for name, field in owner["properties"].items():
        always = "yes" if name in owner.get("required", ()) else ""
        yield f"| `{prefix}{name}` | {type_of(field, defs)} | {always} | {field['description']} |"
        inner, at = (field["items"], f"{prefix}{name}[].") if "items" in field else (field, f"{prefix}{name}.")
        if "properties" in inner:
            yield from rows(inner, defs, at)


def type_of(field: dict[str, Any], defs: dict[str, Any]) -> str:
    """Return the name of a field's type."""
    field = {**defs[field["$ref"].rpartition("/")[2]], **field} if "$ref" in field else field
    if values := field.get("enum") or [field["const"]] if "const" in field or "enum" in field else []:
        return " or ".join(f"`{json.dumps(value)}`" for value in values)
    if field["type"] == "array":
        inner = field["items"]
        return "list of objects" if "properties" in inner else f"list of {TYPES[inner['type']]}s"
    if field["type"] == "object":
        return "object"
    kinds = field["type"] if isinstance(field["type"], list) else [field["type"]]
    return " or ".join(TYPES[kind] for kind in kinds)
