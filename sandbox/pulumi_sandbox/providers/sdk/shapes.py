"""The shapes of every resource of one SDK, each read on first use, and the check of inputs against them."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any

from gpu_common.suggest import closest

from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.providers.sdk.reader import SdkReader, read_function
from pulumi_sandbox.providers.sdk.shape_check import ShapeCheck
from pulumi_sandbox.providers.sdk.types import ANY, ObjectShape, Property, Shape, Type
from pulumi_sandbox.providers.values import NO_SECRETS, Secrets

# Quantities and maps of quantities (k8s.io/apimachinery resource.Quantity; its UnmarshalJSON accepts a number).
QUANTITIES = {
    "kubernetes": frozenset(
        {"limits", "requests", "hard", "capacity", "podFixed", "default", "defaultRequest", "max", "min", "sizeLimit",
         "maxLimitRequestRatio", "divisor", "averageValue"}
    )
}  # fmt: skip
# Inputs of every provider that only the engine uses.
ENGINE_CONFIG = frozenset({"version", "pluginDownloadURL"})


class UnknownTypeError(Exception):
    """The SDK has no such resource. `hint` suggests a similar name."""

    def __init__(self, problem: str, hint: str) -> None:
        super().__init__(problem)
        self.hint = hint


@dataclass(frozen=True)
class Checked:
    """Inputs in the form that the provider stores, and their problems."""

    inputs: dict[str, Any]
    problems: list[Problem]


class Shapes:
    """The shapes of the resources of one installed SDK. Safe to use from several threads."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.reader = SdkReader(package)
        self.object, self.enum = cache(self.reader.object), cache(self.reader.enum)
        self._resource, self._function = cache(self.reader.resource), cache(partial(read_function, self.reader))
        self._lock = threading.RLock()  # so that threads do not read the same type at the same time

    @property
    def tokens(self) -> dict[str, tuple[str, str]]:
        return self.reader.tokens

    def shape(self, token: str) -> Shape:
        with self._lock:
            return self._resource(token) if token in self.tokens else self._unlisted_shape(token)

    def function(self, token: str) -> Shape | None:
        """Return the arguments and results of a function, or None if the SDK does not have it."""
        with self._lock:
            return self._function(token)

    def check(
        self, token: str, inputs: Mapping[str, Any], *, coerces_scalars: bool = False, secrets: Secrets = NO_SECRETS
    ) -> Checked:
        """Check the inputs of a resource for unknown, missing and mistyped properties, also in nested objects."""
        try:
            shape = self.shape(token)
        except UnknownTypeError as error:
            return Checked(dict(inputs), [Problem("", str(error), error.hint)])
        return self._checked(shape, inputs, coerces_scalars, secrets)

    def check_arguments(self, token: str, arguments: Mapping[str, Any]) -> Checked:
        """Check the arguments of a function. Arguments of a function that the SDK does not have are not checked."""
        shape = self.function(token)
        if shape is None:
            return Checked(dict(arguments), [])
        return self._checked(shape, arguments, True, NO_SECRETS)

    def check_config(self, config: Mapping[str, Any], secrets: Secrets = NO_SECRETS) -> Checked:
        """Check the configuration of the provider. Values other than strings arrive in it as JSON."""
        shape = self.shape(f"pulumi:providers:{self.package}")
        decoded = {name: value for name, value in config.items() if name not in ENGINE_CONFIG}
        for name, value in decoded.items():
            declared = shape.inputs.properties.get(name)
            if isinstance(value, str) and declared and declared.type.kind != "string":
                with suppress(ValueError):
                    decoded[name] = _with_camel_case(json.loads(value))
        return self._checked(shape, decoded, True, secrets)

    def _checked(self, shape: Shape, inputs: Mapping[str, Any], coerces_scalars: bool, secrets: Secrets) -> Checked:
        shape_check = ShapeCheck(
            self.object, self.enum, coerces_scalars, QUANTITIES.get(self.package, frozenset()), secrets
        )
        with self._lock:
            checked = shape_check.properties(shape.inputs, inputs, open_ended=shape.open_ended)
        return Checked(checked, shape_check.problems)

    @cached_property
    def _kinds(self) -> dict[str, list[str]]:
        """The kinds of each Kubernetes API version in the SDK."""
        kinds: dict[str, list[str]] = {}
        for token in self.tokens:
            _, version, kind = token.split(":")
            kinds.setdefault(version, []).append(kind)
        return kinds

    def _unlisted_shape(self, token: str) -> Shape:
        """Return the shape of a type that the SDK does not list.

        A Kubernetes type may be a custom resource. Any other type raises UnknownTypeError.
        """
        if self.package != "kubernetes":
            similar = closest(token, self.tokens, cutoff=0.8)
            raise UnknownTypeError(
                f"pulumi_{self.package} {self.reader.version} has no resource {token}",
                f"did you mean {similar}?" if similar else "",
            )
        _, _, rest = token.partition(":")
        version, _, kind = rest.partition(":")
        if version == "v1":
            return self.shape(f"kubernetes:core/v1:{kind}")
        if version in self._kinds or "." not in version.split("/")[0]:
            similar = closest(kind, self._kinds.get(version, []))
            # The message of an API server that does not serve a kind.
            raise UnknownTypeError(
                f'no matches for kind "{kind}" in version "{version.removeprefix("core/")}"',
                f"did you mean {similar}?" if similar else "",
            )
        metadata = Type("object", name="meta/v1:ObjectMetaArgs")
        required_string = Property(Type("string"), required=True)
        return Shape(
            ObjectShape({"apiVersion": required_string, "kind": required_string, "metadata": Property(metadata)}),
            {"apiVersion": Type("string"), "kind": Type("string"), "metadata": ANY, "spec": ANY, "status": ANY},
            open_ended=True,
        )


def _with_camel_case(value: Any) -> Any:
    """Return a value with the names that the bridge accepts too: it reads `role_arn` of a nested block as `roleArn`.

    Python's SDK translates the names of nested dictionaries, but not those of a provider's arguments.
    """
    if isinstance(value, list):
        return [_with_camel_case(one) for one in value]
    if not isinstance(value, Mapping):
        return value
    return {re.sub("_([a-z])", lambda match: match[1].upper(), name): one for name, one in value.items()}
