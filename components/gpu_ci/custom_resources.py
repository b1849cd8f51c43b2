"""The code that the providers of custom resources share: read properties from the engine, check them, and log.

The engine sends the properties of a resource as a protobuf Struct. In a Struct, a secret value is wrapped in a map with
a signature.
"""

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
    """A log whose lines the engine shows under a resource. Without an engine, the lines are dropped."""

    def __init__(self, engine: Callable[[], str]) -> None:
        self._engine = engine

    def __call__(self, urn: str, text: str, is_warning: bool = False) -> None:
        """Print a line under a resource. Only warnings stay visible after the resource is complete."""
        if not self._engine():
            return
        severity = engine_pb2.WARNING if is_warning else engine_pb2.INFO
        request = engine_pb2.LogRequest(severity=severity, message=text, urn=urn, ephemeral=not is_warning)
        try:
            with grpc.insecure_channel(self._engine()) as channel:
                engine_pb2_grpc.EngineStub(channel).Log(request, timeout=10)
        except grpc.RpcError:
            return


def checked(request: Any, model: type[Args], public: Mapping[str, str]) -> Any:
    """Return the CheckResponse for the engine: the inputs with their defaults, and all problems.

    Unknown values are not checked.

    Args:
        request: The CheckRequest of the engine.
        model: The arguments of the resource.
        public: The inputs that must not be secret. Each has a text that says where its value appears in plain text.
    """
    values, secrets = to_plain(request.news), secret_names(request.news)
    # If a failure has a property, the engine prints the value of the property. So for a secret property, the failure
    # has the name only in its text.
    failures = [
        provider_pb2.CheckFailure(reason=f"{problem.path}: {problem.reason}")
        if re.split(r"[.\[]", problem.path)[0] in secrets
        else provider_pb2.CheckFailure(property=problem.path, reason=problem.reason)
        for problem in model.choice_problems(values)
    ]
    failures += [
        provider_pb2.CheckFailure(reason=f"{name}: is a secret, and would be in plain text {where}")
        for name, where in public.items()
        if name in secrets
    ]
    inputs = struct_pb2.Struct()
    inputs.CopyFrom(request.news)
    for name, field in model.model_fields.items():
        if to_camel(name) not in values and not field.is_required() and field.default is not None:
            inputs[to_camel(name)] = field.default
    return provider_pb2.CheckResponse(inputs=inputs, failures=failures)


def to_plain(struct: struct_pb2.Struct) -> dict[str, Any]:
    """Return the values without the wrapping of secrets. Unknown values become UNKNOWN of the SDK."""
    values: dict[str, Any] = _to_plain(json_format.MessageToDict(struct))
    return values


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
    return {name for name, value in json_format.MessageToDict(struct).items() if _contains_secret(value)}


def _contains_secret(value: Any) -> bool:
    if isinstance(value, Mapping):
        return value.get(rpc._special_sig_key) == rpc._special_secret_sig or any(map(_contains_secret, value.values()))
    return isinstance(value, list) and any(map(_contains_secret, value))


def redacted(text: str, inputs: struct_pb2.Struct) -> str:
    """Replace each secret input in a text by [secret]. Of a secret path, the last segment is also replaced."""
    values = to_plain(inputs)
    secrets = {str(values[name]) for name in secret_names(inputs)}
    for secret in sorted(secrets | {each.rpartition("/")[2] for each in secrets}, key=len, reverse=True):
        text = text.replace(secret, "[secret]") if secret else text
    return text


def as_sent(struct: struct_pb2.Struct, name: str) -> Any:
    """Return one value as the engine sent it. A secret value is still wrapped."""
    return json_format.MessageToDict(struct).get(name)


def with_outputs(inputs: struct_pb2.Struct, outputs: Mapping[str, Any]) -> struct_pb2.Struct:
    """Return the properties of a resource: its inputs and outputs."""
    properties = struct_pb2.Struct()
    properties.CopyFrom(inputs)
    properties.update(outputs)
    return properties
