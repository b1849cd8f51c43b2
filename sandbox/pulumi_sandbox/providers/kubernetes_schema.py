"""An object against the JSON schema of its kind, which kubernetes-validate ships for each version of Kubernetes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from pulumi_sandbox.providers.kubernetes_fields import required, shown
from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.providers.values import Unknown

VERSION = "1.36"
# A schema may say so by `type` alone; the words are those of a server-side apply (sigs.k8s.io/structured-merge-diff v6,
# typed/validate.go).
WANTED = {
    "string": "string",
    "integer": "numeric (int or float)",
    "number": "numeric (int or float)",
    "boolean": "boolean",
    "array": "list",
    "object": "map",
}
DEFINITION = "/api/_definitions.json#/$defs/"


@cache
def definitions() -> dict[str, Any]:
    """Every type of the API, each one by the name it has in Kubernetes' OpenAPI document."""
    folder = files("kubernetes_validate").joinpath("kubernetes-json-schema", f"v{VERSION}.0-local-strict")
    found: dict[str, Any] = json.loads(folder.joinpath("_definitions.json").read_text(encoding="utf-8"))["$defs"]
    return found


@cache
def kinds() -> dict[tuple[str, str], str]:
    """What a kind is called there: by `apps/v1` (or `v1`) and its name."""
    found = {}
    for name, definition in definitions().items():
        for one in definition.get("x-kubernetes-group-version-kind", ()):
            version = f"{one['group']}/{one['version']}" if one["group"] else one["version"]
            found[version, one["kind"]] = name
    return found


@cache
def _validator(name: str) -> Any:
    local = json.loads(json.dumps(definitions()).replace(DEFINITION, "#/$defs/"))
    return Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": local})


def check(api_version: str, kind: str, given: Mapping[str, Any]) -> Iterator[Problem]:
    """Everything the schema does not allow; nothing for a kind it does not know."""
    name = kinds().get((api_version, kind))
    if name is None:
        return
    for error in _validator(name).iter_errors(given):
        yield from _told(error)


def _told(error: ValidationError) -> Iterator[Problem]:
    path = joined(error.absolute_path)
    if isinstance(error.instance, Unknown):
        return  # what a preview does not know yet
    match error.validator:
        case "required":
            missing = [name for name in error.validator_value if name not in error.instance]
            # One error names one property; the others have their own.
            name = next(one for one in missing if repr(one) in error.message)
            yield required(f"{path}.{name}" if path else name)
        case "additionalProperties":
            known = error.schema.get("properties", {})
            for name in error.instance:
                if name not in known:
                    yield Problem(f"{path}.{name}" if path else name, "field not declared in schema")
        case "type":
            wanted = next(one for one in _listed(error.validator_value) if one != "null")
            yield Problem(path, f"expected {WANTED[wanted]}, got {shown(error.instance)}")
        case _:
            # A union: an amount, or a port by number or name. What is neither is of no scalar type.
            yield Problem(path, f"expected string, got {shown(error.instance)}")


def _listed(types: str | list[str]) -> list[str]:
    return [types] if isinstance(types, str) else types


def joined(path: Any) -> str:
    """`spec.containers[0].name`, with the keys of a map as they are."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    return text
