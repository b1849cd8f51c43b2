"""Tests of the extraction from GitHub's OpenAPI description."""

from __future__ import annotations

from typing import Any

from tools.github_openapi import OPERATIONS, extract, trimmed


def described(**schemas: Any) -> dict[str, Any]:
    """Return a description in which every operation answers 200 with a run, and 404 with a shared answer."""
    reference = {"schema": {"$ref": "#/components/schemas/run"}}
    responses = {
        "200": {"description": "Response", "content": {"application/json": reference}},
        "404": {"$ref": "#/components/responses/not_found"},
        "204": {"description": "Response"},
    }
    paths: dict[str, Any] = {}
    for one in OPERATIONS:
        method, path = one.split()
        paths.setdefault(path, {})[method.lower()] = {"responses": responses}
    error = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/basic-error"}}}}
    return {
        "info": {"version": "1.2.3"},
        "paths": paths,
        "components": {"schemas": {"basic-error": {"type": "object"}, **schemas}, "responses": {"not_found": error}},
    }


def test_every_answer_is_kept_with_all_schemas_that_it_needs_and_no_other() -> None:
    run = {"type": "object", "properties": {"jobs": {"type": "array", "items": {"$ref": "#/components/schemas/job"}}}}
    found = extract(described(run=run, job={"type": "string"}, gist={"type": "string"}))
    assert list(found["components"]["schemas"]) == ["basic-error", "job", "run"]
    assert list(found["answers"]) == OPERATIONS
    assert found["answers"][OPERATIONS[0]] == {
        "200": {"$ref": "#/components/schemas/run"},
        "204": None,
        "404": {"$ref": "#/components/schemas/basic-error"},
    }


def test_descriptions_are_left_out_and_a_field_of_that_name_is_kept() -> None:
    schema = {
        "type": "object",
        "description": "A run",
        "example": {},
        "properties": {"description": {"type": "string", "nullable": True, "title": "T"}},
        "required": ["description"],
    }
    assert trimmed(schema) == {
        "type": "object",
        "properties": {"description": {"type": "string", "nullable": True}},
        "required": ["description"],
    }
