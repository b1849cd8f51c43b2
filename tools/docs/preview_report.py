"""Writes docs/preview-report.schema.json, the JSON Schema of a preview report, from the models of the report."""

from __future__ import annotations

import json
from typing import Any

from gpu_preview.model import Report


def schema() -> str:
    """Return the schema of a written report, in JSON Schema 2020-12."""
    schema_of_report = untitled(Report.model_json_schema(by_alias=True, mode="serialization"))
    return json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema_of_report}, indent=2) + "\n"


def untitled(schema: Any) -> Any:
    """Return the schema without the titles that pydantic derives from the names of fields."""
    if isinstance(schema, list):
        return [untitled(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: untitled(value) for key, value in schema.items() if key != "title"}
