"""CloudFormation's schemas, read from the files of cfn-lint.

The package is not imported. A provider starts with every command, and the import of cfn-lint takes seconds.
"""

from __future__ import annotations

import importlib.util
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

Node = dict[str, Any]
# The region whose schemas are used for types that are missing from a region's own table.
DEFAULT_REGION = "us-east-1"


@dataclass(frozen=True, eq=False)
class Document:
    """A schema with the definitions that it references."""

    root: Node
    definitions: Node

    def resolved(self, node: Node | None) -> Node | None:
        """Return the node with its references resolved."""
        while node is not None and "$ref" in node:
            target = self.definitions.get(node["$ref"].rsplit("/", 1)[-1])
            node = {**target, **{name: value for name, value in node.items() if name != "$ref"}} if target else None
        return node


def _read(*path: str) -> Any:
    return json.loads((_folder() / "schemas").joinpath(*path).read_bytes())


@cache
def _folder() -> Path:
    spec = importlib.util.find_spec("cfnlint")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("cfn-lint is not installed; the aws provider checks against its files")
    return Path(spec.submodule_search_locations[0]) / "data"


@cache
def regions() -> frozenset[str]:
    """Return every region for which cfn-lint has a table."""
    return frozenset(path.stem for path in (_folder() / "schemas" / "providers").glob("*-*.json"))


@cache
def _types(region: str) -> dict[str, str]:
    found: dict[str, str] = _read("providers", f"{region}.json")
    return found


@cache
def cloudformation(name: str, region: str) -> Document:
    """Return CloudFormation's schema of a resource type in a region."""
    files = _types(region) if region in regions() else {}
    file = files.get(name) or _types(DEFAULT_REGION)[name]
    schema = _read("resources", f"{file}.json")
    return Document(schema, schema.get("definitions", {}))


@cache
def create_only(name: str) -> frozenset[str]:
    """Return the properties whose change replaces a resource. Names are CloudFormation's, in lower case."""
    properties = cloudformation(name, DEFAULT_REGION).root.get("createOnlyProperties", ())
    return frozenset(path.removeprefix("/properties/").replace("/", ".").lower() for path in properties)


@cache
def type_named(module: str, name: str) -> str:
    """Return CloudFormation's type of this name in a service, or an empty string. Case does not matter."""
    full_name = f"aws::{module}::{name}".lower()
    return next((each for each in _types(DEFAULT_REGION) if each.lower() == full_name), "")


@cache
def iam_schema(name: str) -> Node:
    """Return the schema of a kind of IAM policy document."""
    found: Node = _read("other", "iam", f"{name}.json")
    return found
