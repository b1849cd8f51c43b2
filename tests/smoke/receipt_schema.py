"""The published schema of receipts, closed: a field that it does not name is a typo here, whatever it is to readers."""

from __future__ import annotations

import json
from typing import Any

from jsonschema import Draft202012Validator

from .paths import ROOT

PUBLISHED: dict[str, Any] = json.loads((ROOT / "docs" / "gpu-smoke-receipt.schema.json").read_text())


def closed(schema: Any) -> Any:
    """The schema with no object left open; what it says under conditions describes no object whole and stays open."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    conditions = {key: value for key, value in schema.items() if key in ("oneOf", "if", "then")}
    inner = {key: closed(value) for key, value in schema.items() if key not in conditions}
    return {**inner, **conditions, **({"additionalProperties": False} if schema.get("type") == "object" else {})}


_VALIDATOR = Draft202012Validator(closed(PUBLISHED))


def faults_of(record: Any) -> list[str]:
    """Where a receipt is not what the schema says, and why."""
    return sorted(f"{error.json_path}: {error.message}" for error in _VALIDATOR.iter_errors(record))
