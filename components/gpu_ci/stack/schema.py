"""The JSON Schema of stack files, made from the models that check them: an editor completes, and refuses, alike."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import Any

import gpu_catalog
from gpu_catalog import limits
from pydantic.alias_generators import to_camel
from pydantic.json_schema import models_json_schema

from ..args import Args
from ..kinds import component_for, kind_names
from ..naming import PATTERN
from .pools import POOLS
from .quotas import QUOTAS

Json = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
# Keys of the package itself; what is under another name belongs to somebody else.
_OURS = "^gpu-ci:"
_FAMILIES = "GPUS_PER_GPU_FAMILY"


def stack_schema(site: type[Args] | None = None, keys: Mapping[str, str] | None = None) -> Json:
    """The schema of Pulumi.<stack>.yaml.

    `site` is the model of what a program asks besides pools and quotas, and `keys` where a stack file has each of its
    fields. With them, any other key that begins with gpu-ci: is a mistake.
    """
    kinds = {kind: component_for(kind) for kind in kind_names()}
    models: list[type[Args]] = [*(each.ARGS for each in kinds.values()), *([site] if site else [])]
    found, document = models_json_schema([(model, "validation") for model in models], ref_template="#/$defs/{model}")
    defs = {name: _tidy(each) for name, each in document["$defs"].items()}
    names = {model: found[model, "validation"]["$ref"].rpartition("/")[2] for model in models}
    for kind, component in kinds.items():
        name, text = names[component.ARGS], inspect.cleandoc(component.__doc__ or "")
        defs[name] = _pool(kind, component.ARGS, text, defs[name])
    config = {POOLS: _pools({kind: names[each.ARGS] for kind, each in kinds.items()}), QUOTAS: _quotas()}
    extra: Json = {}
    if site:
        own = defs.pop(names[site])
        config |= {key: own["properties"][to_camel(field)] for field, key in (keys or {}).items()}
        extra = {
            "propertyNames": {"anyOf": [{"enum": list(config)}, {"not": {"pattern": _OURS}}]},
            "required": [POOLS, *(key for field, key in (keys or {}).items() if to_camel(field) in own["required"])],
        }
    return {
        "$schema": DIALECT,
        "title": "Stack file of gpu-ci",
        "description": "Pulumi.<stack>.yaml: pools of GPU machines, and what they are placed in.",
        "type": "object",
        "properties": {
            "config": {"type": "object", "description": "the stack's configuration", "properties": config, **extra}
        },
        "required": ["config"],
        "$defs": dict(sorted(defs.items())),
    }


def as_json(schema: Json) -> str:
    """The schema as a file has it."""
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def _pool(kind: str, model: type[Args], text: str, schema: Json) -> Json:
    """The choices of a kind: its model without the wiring, which the program fills in."""
    wiring = {to_camel(name) for name in model.WIRING}
    choices = {name: field for name, field in schema["properties"].items() if name not in wiring}
    return schema | {
        "description": text.splitlines()[0],
        "markdownDescription": text,
        "properties": {"kind": {"const": kind, "description": text.splitlines()[0]}, **choices},
        "required": ["kind", *(name for name in schema["required"] if name not in wiring)],
    }


def _pools(names: Mapping[str, str]) -> Json:
    """Pools by name. Which model a pool has its kind decides, so that a mistake is told in that model's words."""
    return {
        "type": "object",
        "description": "pools by name, each with a kind and the choices of that kind",
        "minProperties": 1,
        "propertyNames": {"pattern": f"^{PATTERN}$"},
        "additionalProperties": {
            "type": "object",
            "properties": {"kind": {"enum": list(names), "description": "what the pool is made of"}},
            "required": ["kind"],
            "allOf": [
                {
                    "if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]},
                    "then": {"$ref": f"#/$defs/{name}"},
                }
                for kind, name in names.items()
            ],
        },
    }


def _quotas() -> Json:
    """Limits by region and metric, as `gpu_catalog.limits` reads them."""
    return {
        "type": "object",
        "description": "the limits that were granted, by region and metric; what all regions share stands under global",
        "propertyNames": {"enum": [limits.GLOBAL, *gpu_catalog.regions()]},
        "properties": {limits.GLOBAL: _limits("global")},
        "additionalProperties": _limits("region"),
    }


def _limits(scope: str) -> Json:
    number = {"type": "number", "minimum": 0}
    rows = [limits.row_of(metric) for metric in limits.metrics() if limits.row_of(metric)["scope"] == scope]
    schema: Json = {
        row["metric"]: {**number, "description": row["name"]} for row in rows if not row["metric"].startswith(_FAMILIES)
    }
    families = {row["gpu_family"]: number for row in rows if row["metric"].startswith(_FAMILIES)}
    if families:
        schema[_FAMILIES] = {"type": "object", "properties": families, "additionalProperties": False}
    return {"type": "object", "properties": schema, "additionalProperties": False}


def _tidy(schema: Any) -> Any:
    """Without the titles pydantic makes of names, and with the default where an editor shows the description."""
    if isinstance(schema, list):
        return [_tidy(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "discriminator" in schema:
        schema = _by_word(schema)
    if [*map(_is_null, schema.get("anyOf", []))] == [False, True]:
        schema = _or_null(schema)
    found = {
        key: {name: _tidy(each) for name, each in value.items()} if key == "properties" else _tidy(value)
        for key, value in schema.items()
        if key != "title"
    }
    default, text = schema.get("default"), schema.get("description")
    if text and isinstance(default, str | int | float | bool):
        default_text = str(default).lower() if isinstance(default, bool) else default
        found["markdownDescription"] = f"{text}\n\nDefault: `{default_text}`"
    return found


def _is_null(schema: Json) -> bool:
    return schema == {"type": "null"}


def _or_null(schema: Json) -> Json:
    """What may be left empty, without a choice of two: a mistake is then told where it is, and not of the whole."""
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    own = _tidy(schema["anyOf"][0])
    return {**rest, "if": {"not": {"type": "null"}}, "then": own} if "$ref" in own or "allOf" in own else schema


def _by_word(schema: Json) -> Json:
    """A choice of models decided by its word alone: a mistake is then told in the words of the model that is meant."""
    name, models = schema["discriminator"]["propertyName"], schema["discriminator"]["mapping"]
    rest = {key: value for key, value in schema.items() if key not in ("discriminator", "oneOf")}
    return {
        **rest,
        "type": "object",
        "properties": {name: {"enum": list(models)}},
        "required": [name],
        "allOf": [
            {"if": {"properties": {name: {"const": word}}, "required": [name]}, "then": {"$ref": model}}
            for word, model in models.items()
        ],
    }
