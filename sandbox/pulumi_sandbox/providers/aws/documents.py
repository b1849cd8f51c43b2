"""AWS's schemas, read from the files of two packages: CloudFormation's from cfn-lint, the API's from botocore.

The packages are not imported. A provider starts with every command, and the import of cfn-lint alone takes seconds. A
service model of botocore is converted to the form of CloudFormation's schemas.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

Node = dict[str, Any]
# The region whose schemas are used for types that are missing from a region's own table.
DEFAULT_REGION = "us-east-1"
# The names of the bounds by the type of a shape. A service model uses `min` and `max` for lengths, numbers and counts.
BOUNDS = {
    "string": ("minLength", "maxLength"),
    "list": ("minItems", "maxItems"),
    "map": ("minProperties", "maxProperties"),
}
NUMBERS = ("integer", "long", "float", "double")


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


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"{package} is not installed; the aws provider checks against its files")
    return Path(spec.submodule_search_locations[0]) / "data"


def _read(path: Path) -> Any:
    return json.loads(path.read_bytes() if path.suffix == ".json" else gzip.decompress(path.read_bytes()))


@cache
def regions() -> frozenset[str]:
    """Return every region for which cfn-lint has a table."""
    return frozenset(path.stem for path in (_folder("cfnlint") / "schemas" / "providers").glob("*-*.json"))


@cache
def _types(region: str) -> dict[str, str]:
    found: dict[str, str] = _read(_folder("cfnlint") / "schemas" / "providers" / f"{region}.json")
    return found


@cache
def cloudformation(name: str, region: str) -> Document:
    """Return CloudFormation's schema of a resource type in a region."""
    files = _types(region) if region in regions() else {}
    file = files.get(name) or _types(DEFAULT_REGION)[name]
    schema = _read(_folder("cfnlint") / "schemas" / "resources" / f"{file}.json")
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
def _model(service: str) -> Node:
    # Folders are named after the API's date. Like botocore, use the newest one.
    newest = max((_folder("botocore") / service).glob("*/service-2.json*"))
    shapes: Node = _read(newest)["shapes"]
    return {name: _as_schema(shape) for name, shape in shapes.items()}


@cache
def api(service: str, shape: str) -> Document:
    """Return the shape of a request, in the form of a CloudFormation schema."""
    definitions = _model(service)
    return Document(definitions[shape], definitions)


def _as_schema(shape: Node) -> Node:
    kind = shape["type"]
    low, high = BOUNDS.get(kind, ("minimum", "maximum") if kind in NUMBERS else ("", ""))
    node: Node = {name: shape[word] for name, word in ((low, "min"), (high, "max")) if name and word in shape}
    node |= {name: shape[name] for name in ("enum", "required") if name in shape}
    if "pattern" in shape:  # the services match the whole text, also if the pattern does not end in $
        node["pattern"] = f"^(?:{shape['pattern'].removeprefix('^').removesuffix('$')})$"
    if kind == "structure":
        node["properties"] = {name: _ref(member) for name, member in shape["members"].items()}
    elif kind == "list":
        node["items"] = _ref(shape["member"])
    elif kind == "map":
        node |= {"propertyNames": _ref(shape["key"]), "additionalProperties": _ref(shape["value"])}
    return node


def _ref(member: Node) -> Node:
    return {"$ref": f"#/definitions/{member['shape']}"}


@cache
def instance_types(region: str) -> frozenset[str]:
    """Return the EC2 instance types with a price in a region, or an empty set for a region not in the table."""
    table = _read(_folder("cfnlint") / "schemas" / "extensions" / "aws_ec2_instance" / "instancetype_enum.json")
    return frozenset(table.get(region, {}).get("enum", ()))


@cache
def iam_schema(name: str) -> Node:
    """Return the schema of a kind of IAM policy document."""
    found: Node = _read(_folder("cfnlint") / "schemas" / "other" / "iam" / f"{name}.json")
    return found
