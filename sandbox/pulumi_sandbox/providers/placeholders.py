"""Placeholders for outputs that a cloud always returns, and that the sandbox does not emulate.

A program may use any output that its SDK declares as never empty. Without a value, such a program fails in the sandbox.
A placeholder has the declared type. A string names itself: `emulated-by-sandbox-dns-name-1a2b3c4`.

Outputs that the SDK declares as optional or secret get no placeholder. In a nested object, optional strings, numbers
and booleans get one too: the SDKs for Python declare every field of a computed object as optional.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from pulumi_sandbox.providers.sdk.shapes import Shapes
from pulumi_sandbox.providers.sdk.types import Type
from pulumi_sandbox.providers.values import UNKNOWN

MARK = "emulated-by-sandbox"
SIMPLE = {"boolean": False, "integer": 1, "number": 1.0}


@dataclass
class Placeholders:
    """Makes the placeholders of one SDK."""

    shapes: Shapes

    def never_empty(self, token: str) -> dict[str, Type]:
        """Return the type of each output that is never empty. A type that the SDK does not list has none."""
        shape = self.shapes.shape(token)
        return {name: kind for name, kind in shape.outputs.items() if name in shape.never_empty}

    def missing(self, token: str, urn: str, present: Collection[str]) -> dict[str, Any]:
        """Return a placeholder for each output that is never empty, not secret and not present.

        The placeholders of a URN never change.
        """
        shape = self.shapes.shape(token)
        made = {
            name: self._value(kind, (urn, name), computed=name not in shape.inputs.properties)
            for name, kind in self.never_empty(token).items()
            if name not in present and name not in shape.secret_outputs
        }
        return {name: value for name, value in made.items() if value is not None}

    def _value(self, kind: Type, path: tuple[str, ...], *, computed: bool, inside: tuple[str, ...] = ()) -> Any:
        """Return a placeholder, or None for a type without one.

        `computed` is True if no input has the name of the output. A list of such an output has one element. Any other
        list of objects is empty, like that of a program that sets none. `inside` has the objects around the value.
        """
        match kind.kind:
            case "string":
                digest = hashlib.sha256("\0".join(path).encode()).hexdigest()
                return f"{MARK}-{_kebab(path[-1])}-{digest[:7]}"
            case "boolean" | "integer" | "number":
                return SIMPLE[kind.kind]
            case "map":
                return {}
            case "list" if kind.of[0].kind == "object" and not computed:
                return []
            case "list":
                element = self._value(kind.of[0], path, computed=computed, inside=inside)
                return [] if element is None else [element]
            case "object" if kind.name not in inside:
                return self._object(kind.name, path, computed=computed, inside=(*inside, kind.name))
            case "enum":
                return next(iter(self.shapes.enum(kind.name)), None)
            case "union":
                return self._value(kind.of[0], path, computed=computed, inside=inside)
        return None

    def _object(self, name: str, path: tuple[str, ...], *, computed: bool, inside: tuple[str, ...]) -> dict[str, Any]:
        made = {
            field: self._value(declared.type, (*path, field), computed=computed, inside=inside)
            for field, declared in self.shapes.object(name).properties.items()
            if computed or declared.required or declared.type.kind in ("string", *SIMPLE)
        }
        return {field: value for field, value in made.items() if value is not None}


def hide(value: Any) -> Any:
    """Return a value with UNKNOWN instead of each string that contains a placeholder.

    A rule about the form of a value then accepts it, as in a preview that does not know the value.
    """
    if isinstance(value, Mapping):
        return {name: hide(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [hide(inner) for inner in value]
    return UNKNOWN if isinstance(value, str) and MARK in value else value


def _kebab(name: str) -> str:
    return re.sub("[A-Z]", lambda found: f"-{found[0].lower()}", name)
