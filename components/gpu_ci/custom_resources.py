"""Shared code of the plugin's custom resources: reading properties from the engine, checks, and log lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import grpc
from google.protobuf import json_format, struct_pb2
from pulumi.output import UNKNOWN
from pulumi.runtime import rpc
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc, provider_pb2
from pydantic.alias_generators import to_camel

from .args import Args


class Refused(Exception):  # noqa: N818 - the expected way to end a request
    """The reason why a resource is not created or changed, as text for the user."""

    def __init__(self, text: str, code: grpc.StatusCode = grpc.StatusCode.UNKNOWN) -> None:
        super().__init__(text)
        self.code = code


class EngineLog:
    """A log whose lines the engine shows under a resource. Without an engine, it drops them."""

    def __init__(self, engine: Callable[[], str]) -> None:
        self._engine = engine

    def __call__(self, urn: str, text: str, stays: bool = False) -> None:
        """Print a line. With `stays` it is a warning; without, it disappears when the resource is complete."""
        if not self._engine():
            return
        severity = engine_pb2.WARNING if stays else engine_pb2.INFO
        request = engine_pb2.LogRequest(severity=severity, message=text, urn=urn, ephemeral=not stays)
        try:
            with grpc.insecure_channel(self._engine()) as channel:
                engine_pb2_grpc.EngineStub(channel).Log(request, timeout=10)
        except grpc.RpcError:
            return


def checked(request: Any, model: type[Args], in_plain: Mapping[str, str]) -> Any:
    """Return the inputs with their defaults, and every problem of them. Unknown values pass.

    Args:
        request: The CheckRequest of the engine.
        model: The arguments of the resource.
        in_plain: The inputs that must not be secret, each with the place that has its value in plain text.
    """
    given, hidden = to_plain(request.news), secret_names(request.news)
    # If a failure names a property, the engine prints its value. Failures of secret properties therefore name none.
    failures = [
        provider_pb2.CheckFailure(reason=f"{problem.path}: {problem.reason}")
        if re.split(r"[.\[]", problem.path)[0] in hidden
        else provider_pb2.CheckFailure(property=problem.path, reason=problem.reason)
        for problem in model.choice_problems(given)
    ]
    failures += [
        provider_pb2.CheckFailure(reason=f"{name}: is a secret, and would be in plain text {where}")
        for name, where in in_plain.items()
        if name in hidden
    ]
    inputs = struct_pb2.Struct()
    inputs.CopyFrom(request.news)
    for name, field in model.model_fields.items():
        if to_camel(name) not in given and not field.is_required() and field.default is not None:
            inputs[to_camel(name)] = field.default
    return provider_pb2.CheckResponse(inputs=inputs, failures=failures)


def to_plain(struct: struct_pb2.Struct) -> dict[str, Any]:
    """Return the values without their secret wrapping. Unknown values become UNKNOWN of the SDK."""
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
    """Return the names of the properties that are or contain a secret."""
    return {name for name, value in json_format.MessageToDict(struct).items() if _holds_secret(value)}


def _holds_secret(value: Any) -> bool:
    if isinstance(value, Mapping):
        return value.get(rpc._special_sig_key) == rpc._special_secret_sig or any(map(_holds_secret, value.values()))
    return isinstance(value, list) and any(map(_holds_secret, value))


def redacted(text: str, inputs: struct_pb2.Struct) -> str:
    """Return the text without the secret inputs, and without the last segment of those that are paths."""
    given = to_plain(inputs)
    whole = {str(given[name]) for name in secret_names(inputs)}
    for secret in sorted(whole | {each.rpartition("/")[2] for each in whole}, key=len, reverse=True):
        text = text.replace(secret, "[secret]") if secret else text
    return text


def as_sent(struct: struct_pb2.Struct, name: str) -> Any:
    """Return one value as the engine sent it, including the secret wrapping."""
    return json_format.MessageToDict(struct).get(name)


def with_outputs(inputs: struct_pb2.Struct, outputs: Mapping[str, Any]) -> struct_pb2.Struct:
    properties = struct_pb2.Struct()
    properties.CopyFrom(inputs)
    properties.update(outputs)
    return properties
