"""Holds an answer to GitHub's OpenAPI description, and to nothing beyond it."""

from __future__ import annotations

import json
import re
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker

FILE = Path(__file__).with_name("api.github.com.json")
OTHER_ANSWER = {"$ref": "#/components/schemas/basic-error"}
checker = FormatChecker(formats=())


@checker.checks("date-time", raises=ValueError)
def is_instant(value: object) -> bool:
    return isinstance(value, str) and value.endswith("Z") and bool(datetime.fromisoformat(value))


@cache
def description() -> dict[str, Any]:
    found: dict[str, Any] = converted(json.loads(FILE.read_text()))
    return found


def operations() -> list[str]:
    return list(description()["answers"])


def converted(schema: Any) -> Any:
    """OpenAPI 3.0's `nullable` as JSON Schema has it. An object with known properties has no other ones."""
    if isinstance(schema, list):
        return [converted(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: converted(each) for key, each in schema.items()}
    if "allOf" in found:
        # One that only adds fields nothing requires would refuse those of the others.
        found["allOf"] = [each for each in found["allOf"] if "$ref" in each or "required" in each]
    if "properties" in found and found.get("type") == "object" and not {"allOf", "anyOf", "oneOf"} & set(found):
        found.setdefault("additionalProperties", False)
    return {"anyOf": [found, {"type": "null"}]} if found.pop("nullable", False) is True else found


def operation(method: str, path: str) -> str:
    """The operation of a request; fails where the description has none."""
    for one in operations():
        pattern = re.sub(r"\\\{.*?\\\}", "[^/]+", re.escape(one))
        if re.fullmatch(pattern, f"{method} {path}"):
            return one
    raise AssertionError(f"GitHub's description has no {method} {path}")


@cache
def validator(one: str, status: str) -> Draft202012Validator:
    schema = description()["answers"][one].get(status, OTHER_ANSWER)
    known = {"components": description()["components"], **(schema or {})}
    return Draft202012Validator(known, format_checker=checker)


def check(method: str, path: str, status: int, text: str) -> None:
    """Raises ValidationError, or AssertionError where a body is missing or should be."""
    one = operation(method, path)
    if status == 304 or description()["answers"][one].get(str(status), OTHER_ANSWER) is None:
        assert text == "", f"{one} answers {status} without a body"
        return
    body = json.loads(text)
    if status >= 400:
        # GitHub sends it with every error, and the description has it for some of them alone.
        assert body.pop("status") == str(status)
    validator(one, str(status)).validate(body)
