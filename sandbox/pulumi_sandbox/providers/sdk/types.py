"""What an SDK says about its types: the model that the reader fills, the cache stores and the check walks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SCALARS = frozenset({"string", "integer", "number", "boolean", "any", "asset", "archive"})


@dataclass(frozen=True)
class Type:
    """One type: a scalar, or `list`, `map` and `union` of others, or `object` and `enum` by name, or `const`."""

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
    """One input: its type, and whether a resource cannot do without it."""

    type: Type
    required: bool = False


@dataclass(frozen=True)
class ObjectShape:
    """The inputs of an object, by the names they have on the wire."""

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
    """A resource as its SDK declares it, or a function with what it takes and gives."""

    token: str
    inputs: ObjectShape
    outputs: dict[str, Type]
    secret_inputs: frozenset[str] = frozenset()
    secret_outputs: frozenset[str] = frozenset()
    component: bool = False
    # A custom Kubernetes resource: what the shape does not name may have any form.
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
