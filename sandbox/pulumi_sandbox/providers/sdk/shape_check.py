"""Check inputs against their shape in the SDK, and report each problem with its path."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from gpu_common.suggest import closest

from pulumi_sandbox.providers import paths
from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.providers.sdk.types import ObjectShape, Property, Type
from pulumi_sandbox.providers.values import NO_SECRETS, Asset, Path, Secrets, Unknown, is_at_or_below

WHOLE_NUMBER = re.compile(r"[+-]?\d+\Z")
# The strings that Terraform converts to a boolean (go-cty's conversion of strings).
BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
KINDS = {"list": "a list", "map": "a map", "object": "an object", "asset": "an asset", "archive": "an archive"}
LISTED_NAMES = 12


@dataclass
class ShapeCheck:
    """One check of the inputs of one resource. `value` returns a value in the form that the provider stores."""

    objects: Callable[[str], ObjectShape]
    enums: Callable[[str], tuple[str | float, ...]]
    coerces_scalars: bool = False
    # Names of Kubernetes quantities: strings in the SDK, but an API server also accepts a number.
    quantities: frozenset[str] = frozenset()
    secrets: Secrets = NO_SECRETS
    problems: list[Problem] = field(default_factory=list)

    def properties(
        self, shape: ObjectShape, values: Mapping[str, Any], path: Path = (), *, open_ended: bool = False
    ) -> dict[str, Any]:
        checked: dict[str, Any] = {}
        for name, value in values.items():
            declared = shape.properties.get(name)
            if name.startswith("__"):  # the engine and the bridge use names such as `__defaults`
                checked[name] = value
            elif declared is not None:
                kind = as_quantity(declared.type) if name in self.quantities else declared.type
                checked[name] = self.value(kind, value, (*path, name))
            elif open_ended:
                checked[name] = value
            else:
                self._unknown(shape, name, (*path, name))
        for name, declared in shape.properties.items():
            if declared.required and values.get(name) is None:
                self._problem((*path, name), f"required, and missing\n  expected: {self._expected(declared)}")
        return checked

    def value(self, kind: Type, value: Any, path: Path) -> Any:
        if value is None or isinstance(value, Unknown):
            return value
        match kind.kind:
            case "any":
                return value
            case "object" if isinstance(value, Mapping):
                return self.properties(self.objects(kind.name), value, path)
            case "list" if isinstance(value, list | tuple):
                return [self.value(kind.of[0], one, (*path, at)) for at, one in enumerate(value)]
            case "map" if isinstance(value, Mapping):
                return {
                    name: one if name.startswith("__") else self.value(kind.of[0], one, (*path, name))
                    for name, one in value.items()
                }
            case "union":
                return self._union(kind, value, path)
            case "enum":
                return self._enum(kind, value, path)
            case "const":
                if value != kind.name:
                    self._wrong(path, value, f'"{kind.name}"', "wrong value")
                return value
            case "asset" | "archive":
                # A bridged provider also accepts the path of a file.
                if isinstance(value, Asset) or (self.coerces_scalars and isinstance(value, str)):
                    return value
            case "string" | "integer" | "number" | "boolean":
                is_valid, converted = self._scalar(kind.kind, value)
                if is_valid:
                    return converted
        self._wrong(path, value, self._expected(Property(kind)))
        return value

    def _scalar(self, kind: str, value: Any) -> tuple[bool, Any]:
        """Return True and the converted value if the value fits the type.

        Bridged providers convert scalars in the same way as pulumi-terraform-bridge v3.137.
        """
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        match kind:
            case "string":
                # A program may pass a resource instead of its id. The engine converts it to the id.
                if isinstance(value, str):
                    return True, value
                if self.coerces_scalars and isinstance(value, bool):
                    return True, "true" if value else "false"
                if self.coerces_scalars and is_number:
                    return True, plain_number(value)
            case "boolean":
                if isinstance(value, bool):
                    return True, value
                if self.coerces_scalars and isinstance(value, str) and value in BOOLEANS:
                    return True, BOOLEANS[value]
            case "integer" | "number":
                if is_number and (kind == "number" or float(value).is_integer()):
                    return True, value
                if self.coerces_scalars and isinstance(value, str):
                    return parsed_number(value, whole=kind == "integer")
        return False, value

    def _union(self, kind: Type, value: Any, path: Path) -> Any:
        attempts: list[tuple[list[Problem], Any]] = []
        # A value that fits one type without conversion must not be converted to another type.
        for coerces in (False, self.coerces_scalars):
            for member in kind.of:
                attempt = ShapeCheck(self.objects, self.enums, coerces, self.quantities, self.secrets)
                checked = attempt.value(member, value, path)
                if not attempt.problems:
                    return checked
                if member.kind == "object" and isinstance(value, Mapping):
                    attempts.append((attempt.problems, checked))
        if attempts:
            self.problems.extend(attempts[-1][0])
            return attempts[-1][1]
        self._wrong(path, value, self._expected(Property(kind)))
        return value

    def _enum(self, kind: Type, value: Any, path: Path) -> Any:
        allowed = self.enums(kind.name)
        if value not in allowed:
            similar = closest(str(value), [str(one) for one in allowed])
            self._problem(
                path,
                f"not one of its values\n  got: {self._format_value(value, path)}\n"
                f"  expected: {', '.join(json.dumps(one) for one in allowed)}",
                f"did you mean {json.dumps(similar)}?" if similar and not is_at_or_below(path, self.secrets) else "",
            )
        return value

    def _unknown(self, shape: ObjectShape, name: str, path: Path) -> None:
        suggestion = did_you_mean(name, shape.properties)
        text = "no such property"
        if not suggestion and len(shape.properties) <= LISTED_NAMES:
            text += f"\n  expected: {', '.join(sorted(shape.properties)) or 'no properties at all'}"
        self._problem(path, text, f"did you mean '{suggestion}'?" if suggestion else "")

    def _wrong(self, path: Path, value: Any, expected: str, problem: str = "wrong type") -> None:
        hint = ""
        if expected.startswith("a list") and not isinstance(value, Mapping | list):
            hint = f"for one value, write [{self._format_value(value, path, bare=True)}]"
        self._problem(path, f"{problem}\n  got: {self._format_value(value, path)}\n  expected: {expected}", hint)

    def _problem(self, path: Path, text: str, hint: str = "") -> None:
        self.problems.append(Problem(paths.text(path), text, hint))

    def _format_value(self, value: Any, path: Path, *, bare: bool = False) -> str:
        """Format a value for a message. A value that is or contains a secret is never shown."""
        if is_at_or_below(path, self.secrets):
            return "[secret]"
        match value:
            case bool():
                text, type_name = json.dumps(value), "a boolean"
            case int() | float():
                text, type_name = plain_number(value), "a number"
            case str():
                text, type_name = json.dumps(value if len(value) <= 60 else value[:57] + "..."), "a string"
            case list() | tuple():
                return "a list"
            case Mapping():
                return "an object"
            case Asset():
                return "an archive" if value.is_archive else "an asset"
            case _:
                return "a resource"
        return text if bare else f"{text} ({type_name})"

    def _expected(self, declared: Property) -> str:
        kind = declared.type
        match kind.kind:
            case "list":
                inner = kind.of[0].kind
                return {"object": "a list of objects", "list": "a list of lists"}.get(
                    inner, f"a list of {inner}s" if inner in ("string", "integer", "number", "boolean") else "a list"
                )
            case "map":
                inner = kind.of[0].kind
                return f"a map of {inner}s" if inner in ("string", "integer", "number", "boolean") else "a map"
            case "union":
                # In a union with its plain type, an enum only suggests values.
                plain = [one for one in kind.of if one.kind != "enum"]
                return " or ".join(self._expected(Property(one)) for one in plain or kind.of)
            case "enum":
                return ", ".join(json.dumps(one) for one in self.enums(kind.name))
            case "const":
                return json.dumps(kind.name)
            case other:
                return KINDS.get(other, "an integer" if other == "integer" else f"a {other}")


def did_you_mean(name: str, names: Collection[str], similarity: float = 0.7) -> str:
    """Return the known name closest to `name`: first another spelling, then a similar name, else an empty string."""
    for each in names:
        if each.lower() == name.replace("_", "").lower():
            return each
    return closest(name, sorted(names), cutoff=similarity)


def plain_number(value: float) -> str:
    """Format a number without exponent and trailing zeros, in the form of Go's FormatFloat(v, 'f', -1, 64)."""
    return str(int(value)) if float(value).is_integer() else format(Decimal(repr(value)), "f")


def as_quantity(kind: Type) -> Type:
    """Return the type of a Kubernetes quantity, or of a map of quantities: a string or a number."""
    if kind.kind == "map":
        return Type("map", (as_quantity(kind.of[0]),))
    return Type("union", (Type("string"), Type("number"))) if kind.kind == "string" else kind


def parsed_number(text: str, *, whole: bool) -> tuple[bool, Any]:
    if WHOLE_NUMBER.match(text):
        return True, int(text)
    try:
        return (False, text) if whole else (True, float(text))
    except ValueError:
        return False, text
