"""Data types for the shapes of an SDK: the inputs, outputs and types of resources and functions.

"On the wire" means in the engine's messages, where names are in camel case.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Type:
    """One type: a scalar, a `list`, `map` or `union` of types, an `object` or `enum` by name, or a `const`.

    The scalars are `string`, `integer`, `number`, `boolean`, `asset`, `archive` and `any`.
    """

    kind: str
    of: tuple[Type, ...] = ()
    name: str = ""


ANY = Type("any")


@dataclass(frozen=True)
class Property:
    """One input: its type, and whether it is required."""

    type: Type
    required: bool = False


@dataclass(frozen=True)
class ObjectShape:
    """The fields of an object, by name on the wire."""

    properties: dict[str, Property] = field(default_factory=dict)


@dataclass(frozen=True)
class Shape:
    """The declaration of a resource in its SDK, or of a function with its arguments and results."""

    inputs: ObjectShape
    outputs: dict[str, Type]
    never_empty: Collection[str] = ()
    """The outputs that the SDK does not declare as Optional."""
    secret_inputs: Collection[str] = ()
    secret_outputs: Collection[str] = ()
    # True for a custom Kubernetes resource: properties outside the shape may have any form.
    open_ended: bool = False
