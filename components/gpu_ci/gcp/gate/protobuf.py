"""A gate's properties as the engine sends them: plain values, what of them is secret, and texts without it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf import json_format, struct_pb2
from pulumi.output import UNKNOWN
from pulumi.runtime import rpc


def to_plain(struct: struct_pb2.Struct) -> dict[str, Any]:
    """The values without their secret wrapping, unknown ones as `Unknown`."""
    found: dict[str, Any] = _to_plain(json_format.MessageToDict(struct))
    return found


def _to_plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        if rpc._special_sig_key in value:
            return _to_plain(value.get("value", rpc.UNKNOWN))
        return {key: _to_plain(item) for key, item in value.items() if not key.startswith("__")}
    if isinstance(value, list):
        return [_to_plain(item) for item in value]
    return UNKNOWN if value == rpc.UNKNOWN else value


def secret_names(struct: struct_pb2.Struct) -> set[str]:
    """The properties that are secret, or hold a secret."""
    return {name for name, value in json_format.MessageToDict(struct).items() if _holds_secret(value)}


def _holds_secret(value: Any) -> bool:
    if isinstance(value, Mapping):
        return value.get(rpc._special_sig_key) == rpc._special_secret_sig or any(map(_holds_secret, value.values()))
    return isinstance(value, list) and any(map(_holds_secret, value))


def redacted(text: str, inputs: struct_pb2.Struct) -> str:
    """A text without the secret inputs: not them, nor what a path of them ends in."""
    given = to_plain(inputs)
    whole = {str(given[name]) for name in secret_names(inputs)}
    for secret in sorted(whole | {each.rpartition("/")[2] for each in whole}, key=len, reverse=True):
        text = text.replace(secret, "[secret]") if secret else text
    return text


def as_sent(struct: struct_pb2.Struct, name: str) -> Any:
    """One value as it was sent, secret wrapping and all."""
    return json_format.MessageToDict(struct).get(name)


def with_outputs(inputs: struct_pb2.Struct, outputs: Mapping[str, Any]) -> struct_pb2.Struct:
    properties = struct_pb2.Struct()
    properties.CopyFrom(inputs)
    properties.update(outputs)
    return properties
