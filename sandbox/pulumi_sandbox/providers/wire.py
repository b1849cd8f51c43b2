"""Convert the engine's values to plain Python values and back, with unknowns, secrets and assets.

Resource references and output values do not arrive: the provider declares that it does not accept them (server.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from google.protobuf import struct_pb2
from gpu_common.pulumi_wire import ARCHIVE, ASSET, SECRET, SIGNATURE, UNKNOWN_STRING, UNKNOWNS

from pulumi_sandbox.providers.values import NO_SECRETS, UNKNOWN, Asset, Decoded, Path, Unknown, drop_nested

# Numbers are sent as doubles. A whole number of this size or more is not exact and stays a float.
EXACT_BELOW = 2**53


def decode(struct: struct_pb2.Struct) -> Decoded:
    """Convert a Struct from the engine to plain Python values."""
    return decode_wire(_tree(struct))


def decode_wire(tree: Mapping[str, Any]) -> Decoded:
    """Convert a JSON tree to plain Python values."""
    secrets: set[Path] = set()
    return Decoded({name: _to_plain(value, (name,), secrets) for name, value in tree.items()}, drop_nested(secrets))


def encode(values: Mapping[str, Any], secrets: Collection[Path] = ()) -> struct_pb2.Struct:
    """Convert plain values to a Struct, and mark the values at secret paths. Paths that do not exist are ignored."""
    struct = struct_pb2.Struct()
    struct.update(to_wire(values, secrets))
    return struct


def to_wire(values: Mapping[str, Any], secrets: Collection[Path] = ()) -> dict[str, Any]:
    """Convert plain values to a JSON tree with Pulumi's signatures."""
    secret_set = secrets if isinstance(secrets, frozenset | set) else frozenset(secrets)
    return {str(name): _wire(value, (name,), secret_set) for name, value in values.items()}


def _tree(value: Any) -> Any:
    """Convert a Struct to a JSON tree, and keep the signatures."""
    if isinstance(value, struct_pb2.Struct):
        return {name: _tree(value[name]) for name in value}
    return [_tree(inner) for inner in value] if isinstance(value, struct_pb2.ListValue) else value


def _to_plain(value: Any, path: Path, secrets: set[Path]) -> Any:
    if isinstance(value, Mapping):
        if SIGNATURE in value:
            return _signed(value, path, secrets)
        return {name: _to_plain(inner, (*path, name), secrets) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_to_plain(inner, (*path, at), secrets) for at, inner in enumerate(value)]
    if isinstance(value, str):
        return UNKNOWN if value in UNKNOWNS else value
    return number(value) if isinstance(value, float) else value


def _signed(tree: Mapping[str, Any], path: Path, secrets: set[Path]) -> Any:
    match tree[SIGNATURE]:
        case signature if signature == SECRET:
            secrets.add(path)
            return _to_plain(tree.get("value"), path, secrets)
        case signature if signature in (ASSET, ARCHIVE):
            return Asset(dict(tree))
    return {name: _to_plain(inner, (*path, name), secrets) for name, inner in tree.items()}


def _wire(value: Any, path: Path, secrets: Collection[Path]) -> Any:
    if path in secrets:
        return {SIGNATURE: SECRET, "value": _wire(value, (), NO_SECRETS)}
    match value:
        case Unknown():
            return UNKNOWN_STRING
        case Asset():
            return dict(value.wire)
        case Mapping():
            return {str(name): _wire(inner, (*path, name), secrets) for name, inner in value.items()}
        case list() | tuple():
            return [_wire(inner, (*path, at), secrets) for at, inner in enumerate(value)]
    return value


def number(value: float) -> int | float:
    return int(value) if value.is_integer() and abs(value) < EXACT_BELOW else value


def request_values(request: Any) -> list[Decoded]:
    """Return all values of a request."""
    return [decode(value) for _, value in request.ListFields() if isinstance(value, struct_pb2.Struct)]
