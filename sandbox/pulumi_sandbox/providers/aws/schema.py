"""Check inputs by AWS's schemas (documents.py), with the mapping of names in types.toml."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Any, cast

import jsonschema

from pulumi_sandbox.providers import bridged
from pulumi_sandbox.providers.aws import documents
from pulumi_sandbox.providers.aws.documents import Document, Node
from pulumi_sandbox.providers.aws.types import TARGETS, row
from pulumi_sandbox.providers.paths import parse, text
from pulumi_sandbox.providers.resource import DEFAULTS, Problem
from pulumi_sandbox.providers.values import UNKNOWN, Path

# A place in one schema: the document, and the node in it.
Place = tuple[Document, Node]
# The inputs that pulumi-aws adds to a type, and whose change always replaces the resource
# (terraform-provider-aws, ForceNew; `region` since v7).
ALWAYS_NEW = ("namePrefix", "region")
# The keywords that are checked for one value.
KEYWORDS = ("maxItems", "maxLength", "maximum", "minItems", "minLength", "minimum", "pattern")


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


def _place(token: str, region: str, names: tuple[str, ...]) -> Place | None:
    """Return the schema of the property at a path of names."""
    target = TARGETS[token]
    document = documents.cloudformation(target.schema, region)
    top: Place = (document, document.root)
    place = reduce(_step, target.base, cast("Place | None", top))
    for depth in range(1, len(names) + 1):
        renamed = target.fields.get(".".join(names[:depth]), names[depth - 1])
        parent = top if renamed.startswith("/") else place
        place = reduce(_step, renamed.removeprefix("/").split("."), parent)
    return place


def replaces(token: str, path: str) -> bool | None:
    """Return True if a change replaces the resource by its row or CloudFormation's schema; None for another type."""
    target = row(token)
    if target.replaces is not None:
        return bridged.replaces({token: target.replaces}, token, path)
    if not target.schema:
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
        yield from _walk(token, region, inputs, ())


def _walk(token: str, region: str, value: Any, path: Path) -> Iterator[Problem]:
    if value is None or value is UNKNOWN:
        return
    names = tuple(step for step in path if isinstance(step, str))
    place = _place(token, region, names)
    if isinstance(value, dict):
        given = {name: inner for name, inner in value.items() if name != DEFAULTS and inner is not None}
        element = _element(place) if place else None
        # The bridge treats an empty list or map as missing.
        if names and given and element and ".".join(names) not in TARGETS[token].loose:
            yield from _object(element[1], given, path)
        for name, inner in given.items():
            yield from _walk(token, region, inner, (*path, name))
    elif isinstance(value, list | tuple):
        node = place[0].resolved(place[1]) if place and value else None
        yield from _value(node or {}, list(value), path)
        for index, inner in enumerate(value):
            yield from _walk(token, region, inner, (*path, index))
    elif element := _element(place) if place else None:
        yield from _value(element[1], value, path)


def _object(node: Node, properties: dict[str, Any], path: Path) -> Iterator[Problem]:
    """Check the required properties of an object."""
    given = {name.lower() for name in properties}
    if "Key" in node.get("properties", {}) and not {"key", "value"} <= given:
        return  # a map in pulumi-aws that is a list of pairs in the schema
    for needed in node.get("required", ()):
        if needed.lower() not in given:
            yield Problem(text((*path, needed[:1].lower() + needed[1:])), "Missing required argument")


def _value(node: Node, value: Any, path: Path) -> Iterator[Problem]:
    if value == "":  # the provider treats an empty string as not set
        return
    if "enum" in node:
        if value not in node["enum"]:
            yield bridged.not_one_of(text(path), str(path[-1]), value, node["enum"])
        return
    rules = {name: node[name] for name in KEYWORDS if name in node and "\\p{" not in str(node[name])}
    for error in jsonschema.Draft7Validator(rules).iter_errors(value):
        # The message begins with the value, which may be long.
        problem = f"{path[-1]}{error.message.removeprefix(repr(value))}"
        yield Problem(text(path), f"{problem} ({error.validator}: {error.validator_value})")
