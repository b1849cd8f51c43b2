"""Checks requests against Google's discovery documents, with jsonschema."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import jsonschema
from pulumi_sandbox.providers.gcp import discovery

SERVICES = {"/v1/": "aiplatform.v1", "/v3/": "monitoring.v3"}


def check(method: str, path: str, query: dict[str, list[str]], body: Any) -> None:
    """Raise AssertionError if the service has no such method, or if a parameter or a field of the body is wrong."""
    service = SERVICES[path[:4]]
    found = _method(service, method, path)
    assert found, f"{service} has no method {method} {path}"
    for name in query:
        assert name in found["parameters"], f"{found['id']} has no parameter {name}"
    if "request" not in found:
        assert body is None, f"{found['id']} has no body"
        return
    _validator(service, found["request"]["$ref"]).validate(body)


@cache
def _validator(service: str, schema: str) -> Any:
    return jsonschema.Draft7Validator({"$ref": f"#/schemas/{schema}", "schemas": _schemas(service)})


def _pattern(flat_path: str) -> str:
    return re.sub(r"\{[^}]*\}", "[^/:]+", flat_path)


@cache
def _method(service: str, method: str, path: str) -> dict[str, Any] | None:
    fitting = (each for each in _methods(service) if re.fullmatch(_pattern(each["flatPath"]), path[1:]))
    return next((each for each in fitting if each["httpMethod"] == method), None)


@cache
def _methods(service: str) -> list[dict[str, Any]]:
    def walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield from node.get("methods", {}).values()
        for inner in node.get("resources", {}).values():
            yield from walk(inner)

    return list(walk(discovery.document(service)))


@cache
def _schemas(service: str) -> dict[str, Any]:
    return {name: _strict(schema) for name, schema in discovery.document(service)["schemas"].items()}


def _strict(node: dict[str, Any]) -> Any:
    """Return the JSON schema of a node of a discovery document. Unknown and output-only fields are refused."""
    if "$ref" in node:
        return {"$ref": f"#/schemas/{node['$ref']}"}
    if node.get("readOnly"):
        return False
    if node.get("type") == "object":
        properties = {name: _strict(each) for name, each in node.get("properties", {}).items()}
        others = node.get("additionalProperties")
        return {
            "type": "object",
            "properties": properties,
            "additionalProperties": _strict(others) if others else False,
        }
    if node.get("type") == "array":
        return {"type": "array", "items": _strict(node["items"])}
    if node.get("type") == "any":
        return {}
    return {"type": node["type"]} | ({"enum": node["enum"]} if "enum" in node else {})
