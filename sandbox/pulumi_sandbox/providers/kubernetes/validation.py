"""Validate objects against the JSON schemas that kubernetes-validate ships for each version of Kubernetes.

The API server's other rules are not checked. The components check names and labels before, and a real API server gets
their objects (tests/control_plane). Source of the messages: k8s.io/apimachinery v0.36.0, pkg/util/validation/field/
errors.go (ErrorBody).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from jsonschema import Draft202012Validator, validators
from jsonschema.exceptions import ValidationError

from pulumi_sandbox.providers.kubernetes.objects import items
from pulumi_sandbox.providers.kubernetes.quantities import QUANTITY_WRONG, quantity
from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.providers.values import Unknown

VERSION = "1.36"
# JSON schema types, with their names in the errors of a server-side apply (sigs.k8s.io/structured-merge-diff v6,
# typed/validate.go).
TYPE_NAMES = {"integer": "numeric (int or float)", "number": "numeric (int or float)", "array": "list", "object": "map"}
DEFINITION = "/api/_definitions.json#/$defs/"
QUANTITY, PORT = "io.k8s.apimachinery.pkg.api.resource.Quantity", "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
# A schema keyword for lists with keys. QUANTITY is also used as a keyword.
KEYS = "x-kubernetes-list-map-keys"
# k8s.io/api v0.36.0, core/v1/types.go: the one key with a default.
KEY_DEFAULTS = {"protocol": "TCP"}


def format_value(value: Any) -> str:
    """Return a value as Go's errors show it: strings in quotes, objects as JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True, default=str)


@cache
def definitions() -> dict[str, Any]:
    """Return the types of the API by their names in Kubernetes' OpenAPI document."""
    folder = files("kubernetes_validate").joinpath("kubernetes-json-schema", f"v{VERSION}.0-local-strict")
    by_name: dict[str, Any] = json.loads(folder.joinpath("_definitions.json").read_text(encoding="utf-8"))["$defs"]
    return by_name


@cache
def kinds() -> dict[tuple[str, str], str]:
    """Return the OpenAPI name of each kind by its API version, such as `apps/v1` or `v1`, and its name."""
    by_name = {}
    for name, definition in definitions().items():
        for one in definition.get("x-kubernetes-group-version-kind", ()):
            version = f"{one['group']}/{one['version']}" if one["group"] else one["version"]
            by_name[version, one["kind"]] = name
    return by_name


def _check_list_keys(_validator: Any, keys: list[str], elements: Any, _schema: Any) -> Iterator[ValidationError]:
    """Yield an error for list elements with the same key fields (typed/validate.go, visitListItems)."""
    key_texts = set()
    for _, element in items(elements):
        key_values = [(key, element.get(key, KEY_DEFAULTS.get(key))) for key in sorted(keys)]
        if any(not isinstance(value, str | int) for _, value in key_values):
            continue  # another rule reports a missing key, and an unknown value is not an error
        key_text = ",".join(f"{key}={format_value(value)}" for key, value in key_values)
        if key_text in key_texts:
            yield ValidationError(f"duplicate entries for key [{key_text}]")
        key_texts.add(key_text)


def _check_quantity(_validator: Any, _keyword: Any, value: Any, _schema: Any) -> Iterator[ValidationError]:
    if not isinstance(value, Unknown) and value is not None and quantity(value) is None:
        yield ValidationError(QUANTITY_WRONG)


Checker = validators.extend(Draft202012Validator, {KEYS: _check_list_keys, QUANTITY: _check_quantity})


@cache
def _validator(name: str) -> Any:
    local = json.loads(json.dumps(definitions()).replace(DEFINITION, "#/$defs/"))
    local |= {QUANTITY: {QUANTITY: True}, PORT: {}}
    return Checker({"$ref": f"#/$defs/{name}", "$defs": local})


def check(api_version: str, kind: str, inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the problems that the schema finds. A kind without a schema has none."""
    if name := kinds().get((api_version, kind)):
        for error in _validator(name).iter_errors(inputs):
            yield from _problems(error)


def _problems(error: ValidationError) -> Iterator[Problem]:
    path = path_text(error.absolute_path)
    if isinstance(error.instance, Unknown):
        return  # the value is unknown during a preview
    match error.validator:
        case "required":
            missing = [name for name in error.validator_value if name not in error.instance]
            # Each missing property has its own error.
            name = next(one for one in missing if repr(one) in error.message)
            yield Problem(f"{path}.{name}" if path else name, "Required value")
        case "additionalProperties":
            properties = error.schema.get("properties", {})
            for name in error.instance:
                if name not in properties:
                    yield Problem(f"{path}.{name}" if path else name, "field not declared in schema")
        case "type":
            types = error.validator_value
            wanted = next(one for one in ([types] if isinstance(types, str) else types) if one != "null")
            # The message has no value: it may be secret.
            text = f"expected {TYPE_NAMES.get(wanted, wanted)}, got {_type_of(error.instance)}"
            yield Problem(path, "Required value" if error.instance is None else text)
        case "enum":
            supported = ", ".join(map(format_value, error.validator_value))
            value = format_value(error.instance)
            yield Problem(path, f"Unsupported value: {value}: supported values: {supported}")
        case _:
            yield Problem(path, error.message)


def _type_of(value: Any) -> str:
    names = {bool: "boolean", str: "string", int: "integer", float: "number", list: "list"}
    return names.get(type(value), "map")


def path_text(path: Any) -> str:
    """Return a path such as `spec.containers[0].name`; map keys are not quoted."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    return text
