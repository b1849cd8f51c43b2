"""The published schema of receipts, closed: here a field that the schema does not name is an error."""

from __future__ import annotations

import json
from typing import Any

from jsonschema import Draft202012Validator

from .paths import ROOT

PUBLISHED: dict[str, Any] = json.loads((ROOT / "docs" / "gpu-smoke-receipt.schema.json").read_text())


def closed(schema: Any) -> Any:
    """Return the schema with every object closed. Objects below conditions stay open, because they are only parts."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    conditions = {key: value for key, value in schema.items() if key in ("oneOf", "if", "then")}
    inner = {key: closed(value) for key, value in schema.items() if key not in conditions}
    return {**inner, **conditions, **({"additionalProperties": False} if schema.get("type") == "object" else {})}


_VALIDATOR = Draft202012Validator(closed(PUBLISHED))


def faults_of(record: Any) -> list[str]:
    """Return the places where a receipt contradicts the schema, with the reasons."""
    return sorted(f"{error.json_path}: {error.message}" for error in _VALIDATOR.iter_errors(record))
