"""The published schema of the report on a change, from the models that it is made of."""

from __future__ import annotations

import json
from typing import Any

from gpu_preview.model import Report


def schema() -> str:
    """The schema as a file: what a report that was written has, in JSON Schema 2020-12."""
    schema_of_report = untitled(Report.model_json_schema(by_alias=True, mode="serialization"))
    return json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema_of_report}, indent=2) + "\n"


def untitled(schema: Any) -> Any:
    """Without the titles that pydantic makes of the names of fields; they say nothing more."""
    if isinstance(schema, list):
        return [untitled(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: untitled(value) for key, value in schema.items() if key != "title"}
