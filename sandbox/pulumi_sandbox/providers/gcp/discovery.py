"""Check inputs against Google's discovery documents, which google-api-python-client contains.

A discovery document is the schema of one Google API. types.toml says which field of it a Pulumi property becomes.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from pulumi_sandbox.providers.bridged import not_one_of
from pulumi_sandbox.providers.gcp.types import TARGETS
from pulumi_sandbox.providers.paths import text
from pulumi_sandbox.providers.resource import DEFAULTS, Problem
from pulumi_sandbox.providers.values import UNKNOWN
from pulumi_sandbox.providers.values import Path as ValuePath

Node = dict[str, Any]


@cache
def document(name: str) -> Node:
    """Return one discovery document, as google-api-python-client ships it."""
    spec = importlib.util.find_spec("googleapiclient")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(
            "google-api-python-client is not installed; the gcp provider requires its discovery documents"
        )
    path = Path(spec.submodule_search_locations[0]) / "discovery_cache" / "documents" / f"{name}.json"
    loaded: Node = json.loads(path.read_text(encoding="utf-8"))
    return loaded


@cache
def methods(name: str, collection: str) -> Node:
    node = document(name)
    for part in collection.split("."):
        node = node["resources"][part]
    return dict(node["methods"])


def _resolved(name: str, node: Node | None) -> Node | None:
    """Return the schema of one element: the node with references and lists resolved."""
    while node is not None and ("$ref" in node or node.get("type") == "array"):
        if "$ref" in node:
            node = document(name)["schemas"][node["$ref"]]
        else:
            # The documents put the pattern of a list's strings on the list, not on its items.
            inherited = {"pattern": node["pattern"]} if "pattern" in node else {}
            node = {**inherited, **node.get("items", {})}
    return node


def _step(name: str, node: Node | None, part: str) -> Node | None:
    schema = _resolved(name, node)
    if schema is None:
        return None
    child: Node | None = schema.get("properties", {}).get(part) or schema.get("additionalProperties")
    return child


def _steps(name: str, node: Node | None, parts: Iterable[str]) -> Node | None:
    for part in parts:
        node = _step(name, node, part)
    return node


@cache
def field(token: str, names: tuple[str, ...]) -> Node | None:
    """Return the API field of the property at this path of names; None if no field is known."""
    target = TARGETS[token]
    top: Node = document(target.document)["schemas"][target.schema]
    node = _steps(target.document, top, target.base)
    for depth in range(1, len(names) + 1):
        path = names[:depth]
        rename = _rename(target.fields, path)
        if rename is None:
            node = _step(target.document, node, path[-1])
        elif rename.startswith("/"):
            node = _steps(target.document, top, rename[1:].split("."))
        else:
            node = _steps(target.document, node, rename.split(".")) if rename else None
    return node


def value_schema(token: str, names: tuple[str, ...]) -> Node | None:
    """Return the schema that one value is checked against: its field with references and lists resolved."""
    return _resolved(TARGETS[token].document, field(token, names))


def _rename(fields: dict[str, str], path: tuple[str, ...]) -> str | None:
    exact = fields.get(".".join(path))
    return exact if exact is not None else fields.get(".".join((*path[:-1], "*")))


def check(token: str, inputs: dict[str, Any]) -> Iterator[Problem]:
    """Yield the problems that Google's schema finds in the inputs."""
    if token in TARGETS:
        yield from _walk(token, inputs, ())


def _walk(token: str, value: Any, path: ValuePath) -> Iterator[Problem]:
    if value is None or value is UNKNOWN:
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            if key != DEFAULTS:
                yield from _walk(token, inner, (*path, key))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _walk(token, inner, (*path, index))
    else:
        names = tuple(step for step in path if isinstance(step, str))
        node = value_schema(token, names)
        if node is not None:
            yield from _check_value(node, value, text(path), names[-1])


def _check_value(node: Node, value: Any, path: str, name: str) -> Iterator[Problem]:
    if value == "":  # the provider treats an empty string as "not set"
        return
    if "enum" in node:
        if value not in node["enum"]:
            yield not_one_of(path, name, value, (one for one in node["enum"] if not one.endswith("UNSPECIFIED")))
    elif isinstance(value, str) and "pattern" in node and not re.fullmatch(node["pattern"].strip("^$"), value):
        yield Problem(path, f'"{name}" ("{value}") doesn\'t match regexp "^(?:{node["pattern"].strip("^$")})$"')
