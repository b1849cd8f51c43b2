"""What the custom resources of the plugin share: their properties as the engine sends them, checks, and log lines."""

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


class Refused(Exception):  # noqa: N818 - it is an answer
    """Why a resource is not made or changed, as the user reads it."""

    def __init__(self, text: str, code: grpc.StatusCode = grpc.StatusCode.UNKNOWN) -> None:
        super().__init__(text)
        self.code = code


class EngineLog:
    """Lines under a resource in the engine's own display; without an engine they go nowhere."""

    def __init__(self, engine: Callable[[], str]) -> None:
        self._engine = engine

    def __call__(self, urn: str, text: str, stays: bool = False) -> None:
        """Print a line; one that stays is a warning, and others are shown while the resource is worked on."""
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
    """The inputs with their defaults, or every problem they have; what is not known yet is let through.

    Args:
        request: The engine's CheckRequest.
        model: The arguments of the resource.
        in_plain: Inputs that may not be secret, each with where its value is in plain text.
    """
    given, hidden = to_plain(request.news), secret_names(request.news)
    # The engine prints the value of a property that a failure names, also of a secret one.
    failures = [
        provider_pb2.CheckFailure(reason=f"{problem.path}: {problem.reason}")
        if re.split(r"[.\[]", problem.path)[0] in hidden
        else provider_pb2.CheckFailure(property=problem.path, reason=problem.reason)
        for problem in model.choice_problems(given)
    ]
    failures += [
        provider_pb2.CheckFailure(reason=f"{name}: is a secret, and would stand in plain text {where}")
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
