"""Data types for the shapes of an SDK: the inputs, outputs and types of resources and functions.

"On the wire" means in the engine's messages, where names are in camel case.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SCALARS = frozenset({"string", "integer", "number", "boolean", "any", "asset", "archive"})


@dataclass(frozen=True)
class Type:
    """One type: a scalar, a `list`, `map` or `union` of types, an `object` or `enum` by name, or a `const`."""

    kind: str
    of: tuple[Type, ...] = ()
    name: str = ""

    def to_json(self) -> Any:
        if self.kind in SCALARS:
            return self.kind
        if self.name:
            return [self.kind, self.name]
        return [self.kind, *(inner.to_json() for inner in self.of)]

    @staticmethod
    def from_json(stored: Any) -> Type:
        if isinstance(stored, str):
            if stored not in SCALARS:
                raise ValueError(f"no such type: {stored}")
            return Type(stored)
        kind, *rest = stored
        if kind in ("object", "enum", "const"):
            (name,) = rest
            return Type(kind, name=str(name))
        if kind in ("list", "map", "union"):
            return Type(kind, of=tuple(Type.from_json(inner) for inner in rest))
        raise ValueError(f"no such type: {kind}")


ANY = Type("any")


@dataclass(frozen=True)
class Property:
    """One input: its type, and whether it is required."""

    type: Type
    required: bool = False


@dataclass(frozen=True)
class ObjectShape:
    """The inputs of an object, by name on the wire."""

    properties: dict[str, Property] = field(default_factory=dict)

    def to_json(self) -> Any:
        return {name: [int(one.required), one.type.to_json()] for name, one in self.properties.items()}

    @staticmethod
    def from_json(stored: Any) -> ObjectShape:
        return ObjectShape(
            {name: Property(Type.from_json(kind), bool(required)) for name, (required, kind) in stored.items()}
        )


@dataclass(frozen=True)
class Shape:
    """The declaration of a resource in its SDK, or of a function with its arguments and results."""

    token: str
    inputs: ObjectShape
    outputs: dict[str, Type]
    secret_inputs: frozenset[str] = frozenset()
    secret_outputs: frozenset[str] = frozenset()
    component: bool = False
    # True for a custom Kubernetes resource: properties outside the shape may have any form.
    open_ended: bool = False

    def to_json(self) -> Any:
        return {
            "inputs": self.inputs.to_json(),
            "outputs": {name: kind.to_json() for name, kind in self.outputs.items()},
            "secretInputs": sorted(self.secret_inputs),
            "secretOutputs": sorted(self.secret_outputs),
            "component": self.component,
        }

    @staticmethod
    def from_json(token: str, stored: Any) -> Shape:
        return Shape(
            token=token,
            inputs=ObjectShape.from_json(stored["inputs"]),
            outputs={name: Type.from_json(kind) for name, kind in stored["outputs"].items()},
            secret_inputs=frozenset(stored["secretInputs"]),
            secret_outputs=frozenset(stored["secretOutputs"]),
            component=bool(stored["component"]),
        )
