"""The shapes of every resource of one SDK, each read on first use, and the check of inputs against them."""

from __future__ import annotations

import contextlib
import json
import re
import os
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from gpu_common.suggest import closest

from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.providers.sdk.reader import SdkReader, read_function
from pulumi_sandbox.providers.sdk.shape_check import ShapeCheck
from pulumi_sandbox.providers.sdk.types import ANY, ObjectShape, Property, Shape, Type
from pulumi_sandbox.providers.values import NO_SECRETS, Secrets

# Increase this number when the result of the reader changes. A cache of another format is discarded.
FORMAT = 1


class ShapeCache:
    """One JSON file for one SDK at one version. If the file is broken, the SDK is read again."""

    def __init__(self, folder: Path | None, package: str, version: str, stamp: str) -> None:
        self.path = folder / f"shapes-{package}-{version}.json" if folder else None
        self.stamp = stamp
        self.tokens: dict[str, tuple[str, str]] = {}
        self.resources: dict[str, Shape] = {}
        self.objects: dict[str, ObjectShape] = {}
        self.enums: dict[str, tuple[str | float, ...]] = {}
        self._changed = False
        self._load()

    def changed(self) -> None:
        self._changed = True

    def _load(self) -> None:
        if self.path is None:
            return
        try:
            stored = json.loads(self.path.read_text(encoding="utf-8"))
            if stored["format"] != FORMAT or stored["stamp"] != self.stamp:
                return
            tokens = {token: (folder, name) for token, (folder, name) in stored["tokens"].items()}
            resources = {token: Shape.from_json(token, one) for token, one in stored["resources"].items()}
            objects = {key: ObjectShape.from_json(one) for key, one in stored["objects"].items()}
            enums = {key: tuple(values) for key, values in stored["enums"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return
        self.tokens, self.resources, self.objects, self.enums = tokens, resources, objects, enums

    def save(self) -> None:
        """Write the cache if it changed. If two providers write at the same time, the additions of one are lost."""
        if self.path is None or not self._changed:
            return
        text = json.dumps(self._to_json(), separators=(",", ":"))
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(self.path)
        except OSError:
            # A full or read-only disk only makes the next start slower.
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
        self._changed = False

    def _to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "stamp": self.stamp,
            "tokens": {token: list(place) for token, place in self.tokens.items()},
            "resources": {token: shape.to_json() for token, shape in self.resources.items()},
            "objects": {key: shape.to_json() for key, shape in self.objects.items()},
            "enums": {key: list(values) for key, values in self.enums.items()},
        }


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

    def __init__(self, package: str, cache: Path | None = None) -> None:
        self.package = package
        self.reader = SdkReader(package)
        self.cache = ShapeCache(cache, package, self.reader.version, self.reader.stamp)
        self._lock = threading.RLock()

    @classmethod
    def for_package(cls, package: str, cache: Path | None = None) -> Shapes:
        """Return the shapes of one package. `cache` is the folder of the cache; None caches in memory only."""
        return cls(package, cache)

    @property
    def tokens(self) -> dict[str, tuple[str, str]]:
        with self._lock:
            if not self.cache.tokens:
                self.cache.tokens = self.reader.tokens()
                self.cache.changed()
            return self.cache.tokens

    def shape(self, token: str) -> Shape:
        with self._lock:
            if token not in self.cache.resources:
                if token not in self.tokens:
                    return self._unlisted_shape(token)
                self.cache.resources[token] = self.reader.resource(token, *self.tokens[token])
                self.cache.changed()
            return self.cache.resources[token]

    def object(self, key: str) -> ObjectShape:
        with self._lock:
            if key not in self.cache.objects:
                self.cache.objects[key] = self.reader.object(key)
                self.cache.changed()
            return self.cache.objects[key]

    def enum(self, key: str) -> tuple[str | float, ...]:
        with self._lock:
            if key not in self.cache.enums:
                self.cache.enums[key] = self.reader.enum(key)
                self.cache.changed()
            return self.cache.enums[key]

    def function(self, token: str) -> Shape | None:
        """Return the arguments and results of a function, or None if the SDK does not have it."""
        with self._lock:
            key = f"function {token}"
            if key not in self.cache.resources:
                found = read_function(self.reader, token)
                if found is None:
                    return None
                self.cache.resources[key] = found
                self.cache.changed()
            return self.cache.resources[key]

    def check(
        self,
        token: str,
        inputs: Mapping[str, Any],
        *,
        coerces_scalars: bool = False,
        secrets: Secrets = NO_SECRETS,
    ) -> Checked:
        """Check the inputs of a resource for unknown, missing and mistyped properties, also in nested objects."""
        with self._lock:
            try:
                shape = self.shape(token)
            except UnknownTypeError as error:
                return Checked(dict(inputs), [Problem("", str(error), error.hint)])
            return self._checked(shape, inputs, coerces_scalars, secrets)

    def check_arguments(self, token: str, arguments: Mapping[str, Any]) -> Checked:
        """Check the arguments of a function. Arguments of a function that the SDK does not have are not checked."""
        with self._lock:
            shape = self.function(token)
            if shape is None:
                return Checked(dict(arguments), [])
            return self._checked(shape, arguments, True, NO_SECRETS)

    def check_config(self, config: Mapping[str, Any], secrets: Secrets = NO_SECRETS) -> Checked:
        """Check the configuration of the provider. Values other than strings arrive in it as JSON."""
        with self._lock:
            shape = self.shape(f"pulumi:providers:{self.package}")
            decoded = {name: value for name, value in config.items() if name not in ENGINE_CONFIG}
            for name, value in decoded.items():
                declared = shape.inputs.properties.get(name)
                if isinstance(value, str) and declared and declared.type.kind != "string":
                    try:
                        decoded[name] = _with_camel_case(json.loads(value))
                    except ValueError:
                        continue
            return self._checked(shape, decoded, True, secrets)

    def _checked(self, shape: Shape, inputs: Mapping[str, Any], coerces_scalars: bool, secrets: Secrets) -> Checked:
        shape_check = ShapeCheck(
            self.object, self.enum, coerces_scalars, QUANTITIES.get(self.package, frozenset()), secrets
        )
        checked = shape_check.properties(shape.inputs, inputs, open_ended=shape.open_ended)
        self.cache.save()
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
            token,
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
