"""Generates the Pulumi schema of the package from the models and classes of the components."""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pulumi
from pydantic.alias_generators import to_camel, to_pascal
from pydantic.fields import FieldInfo

from . import versions
from .args import Args, marker_of
from .component import Component
from .kinds import catalog
from .validation_errors import tag_of

NAME = "gpu-ci"

_PRIMITIVES = {str: "string", int: "integer", float: "number", bool: "boolean"}
_OUTPUTS = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}


def schema() -> dict[str, Any]:
    """Return the schema of all components."""
    types: dict[str, Any] = {}
    resources = {found.token: _resource(found.load(), found.token, types) for found in catalog()}
    return {
        "name": NAME,
        "version": versions.PACKAGE,
        "displayName": "GPU CI",
        "description": "GPU capacity for CI: typed pools whose GPUs are checked before they take a job.",
        "keywords": ["pulumi", "gpu", "ci", "category/infrastructure", "kind/component"],
        "license": "Apache-2.0",
        "meta": {"moduleFormat": "(.*)"},
        "language": {"nodejs": {"respectSchemaVersion": True}, "python": {"respectSchemaVersion": True}},
        "types": dict(sorted(types.items())),
        "resources": resources,
    }


def as_json() -> str:
    """Return the schema as JSON text for the engine."""
    return json.dumps(schema(), indent=2) + "\n"


def _resource(cls: type[pulumi.Resource], token: str, types: dict[str, Any]) -> dict[str, Any]:
    model: type[Args] = cls.ARGS  # type: ignore[attr-defined]
    owner = token.rpartition(":")[2]
    fields = _fields(model, owner, token, types)
    outputs = _outputs(cls)
    return {
        "description": inspect.cleandoc(cls.__doc__ or ""),
        **({"isComponent": True} if issubclass(cls, Component) else {}),
        "inputProperties": fields,
        "requiredInputs": _required(model),
        "properties": outputs,
        "required": list(outputs),
    }


def _fields(model: type[Args], owner: str, token: str, types: dict[str, Any]) -> dict[str, Any]:
    return {
        to_camel(name): {
            "description": field.description or "",
            **_type(field, f"{owner}{to_pascal(name)}", token, types),
            **_default(field),
        }
        for name, field in model.model_fields.items()
    }


def _required(model: type[Args]) -> list[str]:
    return [to_camel(name) for name, field in model.model_fields.items() if field.is_required()]


def _default(field: FieldInfo) -> dict[str, Any]:
    """Return the default of a field if it is a number, a text or a boolean. A schema cannot contain other defaults."""
    return {"default": field.default} if isinstance(field.default, str | int | float | bool) else {}


def _type(field: FieldInfo, enum: str, token: str, types: dict[str, Any]) -> dict[str, Any]:
    marker = marker_of(field.metadata)
    annotation = marker.item if marker else field.annotation
    return _spec(annotation, enum, token, types, plain=marker is None)


def _spec(annotation: Any, enum: str, token: str, types: dict[str, Any], *, plain: bool) -> dict[str, Any]:
    origin, arguments = get_origin(annotation), get_args(annotation)
    mark = {"plain": True} if plain else {}
    if origin is Annotated:  # the first argument is the type, the others are constraints
        marker = marker_of(list(annotation.__metadata__))
        inner = marker.item if marker else arguments[0]
        return _spec(inner, enum, token, types, plain=plain and marker is None)
    if origin in (Union, UnionType):
        inner, *others = [argument for argument in arguments if argument is not NoneType]
        if others:
            return {**_one_of([inner, *others], token, types), **mark}
        return _spec(inner, enum, token, types, plain=plain)
    if origin is list:
        return {"type": "array", "items": _spec(arguments[0], enum, token, types, plain=plain), **mark}
    if origin is dict:
        return {"type": "object", "additionalProperties": _spec(arguments[1], enum, token, types, plain=plain), **mark}
    if origin is Literal and len(arguments) == 1:
        return {"type": "string", "const": arguments[0], **mark}
    if origin is Literal:
        return {"$ref": f"#/types/{_enum(arguments, enum, token, types)}", **mark}
    if isinstance(annotation, type) and issubclass(annotation, Args):
        return {"$ref": f"#/types/{_object(annotation, token, types)}", **mark}
    if annotation is Any:  # the properties of a resource
        return {"type": "object", "additionalProperties": {"$ref": "pulumi.json#/Any"}}
    return {"type": _PRIMITIVES[annotation], **mark}


def _enum(values: tuple[str, ...], name: str, token: str, types: dict[str, Any]) -> str:
    key = f"{token.rpartition(':')[0]}:{name}"
    types[key] = {
        "type": "string",
        "description": f"One of {', '.join(values)}.",
        "enum": [{"name": to_pascal(value.replace("-", "_")), "value": value} for value in values],
    }
    return key


def _object(model: type[Args], token: str, types: dict[str, Any]) -> str:
    key = f"{token.rpartition(':')[0]}:{model.__name__}"
    types[key] = {
        "type": "object",
        "description": inspect.cleandoc(model.__doc__ or ""),
        "properties": _fields(model, model.__name__, token, types),
        "required": _required(model),
    }
    return key


def _one_of(models: list[type[Args]], token: str, types: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a union of models. The discriminator is the field that has one fixed value in each model."""
    references = {tag_of(model): f"#/types/{_object(model, token, types)}" for model in models}
    ((name, _), *_) = references
    mapping = {value: reference for (_, value), reference in references.items()}
    return {
        "oneOf": [{"type": "object", "$ref": reference} for reference in mapping.values()],
        "discriminator": {"propertyName": name, "mapping": mapping},
    }


def _outputs(cls: type[pulumi.Resource]) -> dict[str, Any]:
    return {
        to_camel(name): {"type": _OUTPUTS[kind], "description": description}
        for base in reversed(cls.__mro__)
        if issubclass(base, pulumi.Resource) and base.__module__.split(".")[0] != "pulumi"
        for name, kind, description in _annotated(base)
    }


def _annotated(cls: type[pulumi.Resource]) -> Iterator[tuple[str, str, str]]:
    """Yield name, kind and docstring of each `name: pulumi.Output[kind]` of a class."""
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(node, ast.ClassDef)  # noqa: S101 - getsource of a class is a class
    for statement, following in zip(node.body, [*node.body[1:], None], strict=True):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        annotation = ast.unparse(statement.annotation)
        if annotation.startswith("pulumi.Output["):
            text = ""
            if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
                text = inspect.cleandoc(str(following.value.value))
            yield statement.target.id, annotation.removeprefix("pulumi.Output[").removesuffix("]"), text
