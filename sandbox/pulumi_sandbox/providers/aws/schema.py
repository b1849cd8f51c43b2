"""Check inputs by AWS's schemas (documents.py), with the mapping of names in types.py."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from gpu_common.suggest import closest

from pulumi_sandbox.providers.aws import documents
from pulumi_sandbox.providers.aws.documents import Document, Node
from pulumi_sandbox.providers.aws.types import TARGETS
from pulumi_sandbox.providers.paths import parse, text
from pulumi_sandbox.providers.resource import DEFAULTS, Problem
from pulumi_sandbox.providers.values import UNKNOWN, Path

# A place in one schema: the document, and the node in it.
Place = tuple[Document, Node]
# The inputs that pulumi-aws adds to a type, and whose change always replaces the resource
# (terraform-provider-aws, ForceNew; `region` since v7).
ALWAYS_NEW = ("namePrefix", "region")
# The number of allowed values that a message lists.
CHOICES_SHOWN = 30


def _roots(token: str, region: str) -> Iterator[Place]:
    """Yield the schemas of the resource's properties: CloudFormation's, then that of the API."""
    target = TARGETS[token]
    document = documents.cloudformation(target.schema, region)
    if found := _steps((document, document.root), target.base):
        yield found
    if target.api:
        document = documents.api(*target.api)
        yield document, document.root


def _element(place: Place) -> Place | None:
    """Resolve references and lists, and return the place of one element."""
    document, node = place[0], place[0].resolved(place[1])
    while node is not None and "items" in node:
        node = document.resolved(node["items"])
    return None if node is None else (document, node)


def _step(place: Place | None, name: str) -> Place | None:
    element = _element(place) if place else None
    if element is None:
        return None
    document, node = element
    properties = node.get("properties", {})
    named = next((key for key in properties if key.lower() == name.lower()), None)
    if named is not None:
        return document, properties[named]
    if {"Key", "Value"} <= properties.keys():  # a map in pulumi-aws that is a list of pairs in the schema
        return document, properties["Value"]
    value_schema = node.get("additionalProperties") or next(iter(node.get("patternProperties", {}).values()), None)
    return (document, value_schema) if isinstance(value_schema, dict) else None


def _steps(place: Place | None, names: Iterable[str]) -> Place | None:
    for name in names:
        place = _step(place, name)
    return place


def _places(token: str, region: str, names: tuple[str, ...]) -> list[Place]:
    """Return every schema of the property at a path of names."""
    fields, places = TARGETS[token].fields, []
    for root in _roots(token, region):
        place: Place | None = root
        for depth in range(1, len(names) + 1):
            renamed = fields.get(".".join(names[:depth]), names[depth - 1])
            parent = (root[0], root[0].root) if renamed.startswith("/") else place
            place = _steps(parent, renamed.removeprefix("/").split("."))
        if place:
            places.append(place)
    return places


def replaces(token: str, path: str) -> bool | None:
    """Return True if a change replaces the resource by CloudFormation's schema, or None for an unmapped type."""
    target = TARGETS.get(token)
    if target is None:
        return None
    names = [step for step in parse(path) if isinstance(step, str)]
    if names[0] in ALWAYS_NEW:
        return True
    renamed = target.fields.get(names[0], ".".join((*target.base, names[0])))
    return _is_create_only(target.schema, (renamed.removeprefix("/"), *names[1:]))


def replaces_by_name(token: str, path: str) -> bool:
    """Return True if a change replaces by the CloudFormation type and property of the same names.

    This covers types that are not in the mapping: 779 of the 1,749 types of pulumi-aws 7 have a CloudFormation type of
    the same name. Of their properties, 1,511 replace the resource.
    """
    names = [step for step in parse(path) if isinstance(step, str)]
    _, place, kind = token.split(":")
    schema = documents.type_named(place.partition("/")[0], kind)
    # In CloudFormation, the `name` of a queue is QueueName.
    return bool(schema) and any(
        _is_create_only(schema, (first, *names[1:])) for first in (names[0], f"{kind}{names[0]}")
    )


def _is_create_only(schema: str, names: Iterable[str]) -> bool:
    changed = ".".join(names).lower()
    return any(
        f"{changed}.".startswith(f"{one}.") or one.startswith(f"{changed}.") for one in documents.create_only(schema)
    )


def check(token: str, inputs: dict[str, Any], region: str) -> Iterator[Problem]:
    """Check the inputs by AWS's schemas."""
    if token in TARGETS:
        yield from _Check(token, region).walk(inputs, ())


class _Check:
    def __init__(self, token: str, region: str) -> None:
        self.token = token
        self.region = region

    def merged_schema(self, names: tuple[str, ...], *, whole: bool = False) -> Node:
        """Return the merged schema of a property. The API takes precedence over CloudFormation.

        With `whole`, return the schema of a list, not of its elements.
        """
        schema: Node = {}
        for place in _places(self.token, self.region, names):
            element = (place[0], place[0].resolved(place[1])) if whole else _element(place)
            schema |= (element[1] if element else None) or {}
        return schema

    def walk(self, value: Any, path: Path) -> Iterator[Problem]:
        if value is None or value is UNKNOWN:
            return
        names = tuple(step for step in path if isinstance(step, str))
        if isinstance(value, dict):
            given = {name: inner for name, inner in value.items() if name != DEFAULTS and inner is not None}
            # The bridge treats an empty list or map as missing.
            if names and given:
                yield from self.check_object(given, path, names)
            for name, inner in given.items():
                yield from self.walk(inner, (*path, name))
        elif isinstance(value, list | tuple):
            node = self.merged_schema(names, whole=True) if value else {}
            name = f"number of items in {names[-1]}"
            yield from _bounds(node, len(value), path, name, "minItems", "maxItems")
            for index, inner in enumerate(value):
                yield from self.walk(inner, (*path, index))
        else:
            yield from _leaf(self.merged_schema(names), value, path, names[-1])

    def check_object(self, properties: dict[str, Any], path: Path, names: tuple[str, ...]) -> Iterator[Problem]:
        """Check the required and mutually exclusive properties of an object, and the keys of a map."""
        node = self.merged_schema(names)
        keys = node.get("propertyNames") or node.get("properties", {}).get("Key")
        set_names = {name.lower() for name in properties}
        if keys and ("propertyNames" in node or not {"key", "value"} <= set_names):
            name = f"number of items in {names[-1]}"
            yield from _bounds(node, len(properties), path, name, "minProperties", "maxProperties")
            for key in properties:
                for document, _ in _roots(self.token, self.region):
                    yield from _leaf(document.resolved(keys) or {}, key, (*path, key), "the key")
            return
        if ".".join(names) in TARGETS[self.token].loose:
            return
        for needed in node.get("required", ()):
            if needed.lower() not in set_names:
                yield Problem(text((*path, _pulumi_name(needed))), "Missing required argument")
        choice = node.get("requiredXor", ())
        set_choices = [one for one in choice if one.lower() in set_names]
        if choice and len(set_choices) != 1:
            listed, got = (
                ", ".join(map(_pulumi_name, choice)),
                ", ".join(map(_pulumi_name, set_choices)) or "none of them",
            )
            yield Problem(text(path), f"expected exactly one of {listed}, got {got}")
        for one, others in node.get("dependentExcluded", {}).items():
            for other in others:
                if one < other and {one.lower(), other.lower()} <= set_names:
                    yield Problem(
                        text((*path, _pulumi_name(one))), f'"{_pulumi_name(one)}": conflicts with {_pulumi_name(other)}'
                    )


def _pulumi_name(name: str) -> str:
    """Return the name of a property in pulumi-aws."""
    return name[:1].lower() + name[1:]


def _leaf(node: Node, value: Any, path: Path, name: str) -> Iterator[Problem]:
    if value == "":  # the provider treats an empty string as not set
        return
    if "enum" in node:
        if value not in node["enum"]:
            yield not_one_of(text(path), name, value, node["enum"])
        return
    if isinstance(value, str):
        yield from _bounds(node, len(value), path, f"length of {name}", "minLength", "maxLength")
        pattern = node.get("pattern", "")
        if pattern and "\\p{" not in pattern and not re.search(pattern, value):
            yield Problem(text(path), f'"{name}" ("{value}") doesn\'t match regexp "{pattern}"')
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _bounds(node, value, path, name, "minimum", "maximum")


def _bounds(node: Node, value: float, path: Path, name: str, low: str, high: str) -> Iterator[Problem]:
    """Check bounds, with the message of the Terraform SDK (helper/validation/int.go)."""
    least, most = node.get(low), node.get(high)
    if (least is None or value >= least) and (most is None or value <= most):
        return
    expected = f"in the range ({least} - {most})"
    if most is None:
        expected = f"at least ({least})"
    elif least is None:
        expected = f"at most ({most})"
    yield Problem(text(path), f"expected {name} to be {expected}, got {value:g}")


def not_one_of(path: str, name: str, value: Any, allowed: Iterable[str]) -> Problem:
    """Return a problem with the message of the Terraform SDK (validation.StringInSlice)."""
    choices = list(allowed)
    similar = closest(str(value).lower(), [one.lower() for one in choices])
    suggestion = next((one for one in choices if one.lower() == similar), "")
    quoted = " ".join(f'"{one}"' for one in choices[:CHOICES_SHOWN])
    quoted += f" and {len(choices) - CHOICES_SHOWN} more" if choices[CHOICES_SHOWN:] else ""
    return Problem(
        path,
        f"expected {name} to be one of [{quoted}], got {value}",
        f"did you mean {suggestion}?" if suggestion else "",
    )
