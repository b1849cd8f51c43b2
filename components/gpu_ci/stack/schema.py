"""Generates the JSON Schema of stack files from the models that check them."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import gpu_catalog
from gpu_catalog import limits
from pydantic.alias_generators import to_camel
from pydantic.json_schema import models_json_schema

from .. import extras
from ..args import Args
from ..kinds import (
    cluster_for,
    cluster_kind_names,
    component_for,
    image_component_for,
    image_kind_names,
    kind_names,
)
from ..naming import PATTERN
from .clusters import CLUSTERS, DEFAULT_KIND
from .images import IMAGES
from .pools import POOLS
from .quotas import QUOTAS

Json = dict[str, Any]
_T = TypeVar("_T")

DIALECT = "https://json-schema.org/draft/2020-12/schema"
# Keys of this package. Keys of other namespaces belong to other packages.
_OURS = "^gpu-ci:"
_FAMILIES = "GPUS_PER_GPU_FAMILY"


def stack_schema(site: type[Args] | None = None, keys: Mapping[str, str] | None = None) -> Json:
    """Return the schema of Pulumi.<stack>.yaml, without the kinds whose Pulumi packages are not installed.

    Args:
        site: The model of the program's keys, except clusters, pools and quotas. With this model, the schema rejects
        other keys that begin with gpu-ci:.
        keys: The key of each field of `site` in a stack file.
    """
    kinds = _installed(kind_names(), component_for)
    pipelines = _installed(image_kind_names(), image_component_for)
    clusters = _installed(cluster_kind_names(), cluster_for)
    components = [*kinds.items(), *pipelines.items()]
    models: list[type[Args]] = [
        *(each.ARGS for _, each in components),
        *clusters.values(),
        *([site] if site else []),
    ]
    found, document = models_json_schema([(model, "validation") for model in models], ref_template="#/$defs/{model}")
    defs = {name: _tidy(each) for name, each in document["$defs"].items()}
    names = {model: found[model, "validation"]["$ref"].rpartition("/")[2] for model in models}
    for kind, component in components:
        name, text = names[component.ARGS], inspect.cleandoc(component.__doc__ or "")
        defs[name] = _pool(kind, component.ARGS, text, defs[name])
    config = {
        POOLS: _entries("pool", {kind: names[each.ARGS] for kind, each in kinds.items()}) | {"minProperties": 1},
        IMAGES: _entries("image pipeline", {kind: names[each.ARGS] for kind, each in pipelines.items()}),
        CLUSTERS: _clusters({kind: names[each] for kind, each in clusters.items()}),
        QUOTAS: _quotas(),
    }
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
        "description": "Pulumi.<stack>.yaml: pools of GPU machines, and the settings that they share.",
        "type": "object",
        "properties": {
            "config": {"type": "object", "description": "the stack's configuration", "properties": config, **extra}
        },
        "required": ["config"],
        "$defs": dict(sorted(defs.items())),
    }


def _installed(names: Iterable[str], load: Callable[[str], _T]) -> dict[str, _T]:
    """Return what `load` imports for each name, without those whose package is not installed."""
    found = {}
    for name in names:
        try:
            found[name] = load(name)
        except ModuleNotFoundError as error:
            if not extras.hint(error.name or ""):
                raise
    return found


def as_json(schema: Json) -> str:
    """Return the schema as the text of a file."""
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def _pool(kind: str, model: type[Args], text: str, schema: Json) -> Json:
    """Return the schema of a kind: its model without the arguments that the program sets."""
    choices = {name: field for name, field in schema["properties"].items() if name in model.choice_names()}
    return schema | {
        "description": text.splitlines()[0],
        "markdownDescription": text,
        "properties": {"kind": {"const": kind, "description": text.splitlines()[0]}, **choices},
        "required": ["kind", *(name for name in schema["required"] if name in choices)],
    }


def _entries(noun: str, names: Mapping[str, str]) -> Json:
    """Return the schema of pools or pipelines. The kind selects the model, so that errors refer to that model."""
    return {
        "type": "object",
        "description": f"{noun}s by name, each with a kind and the fields of that kind",
        "propertyNames": {"pattern": f"^{PATTERN}$"},
        "additionalProperties": {
            "type": "object",
            "properties": {"kind": {"enum": list(names), "description": f"the kind of the {noun}"}},
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


def _clusters(names: Mapping[str, str]) -> Json:
    """Return the schema of clusters. A cluster without a kind is of the default kind."""
    return {
        "type": "object",
        "description": "clusters by name; a pool refers to one by clusterName",
        "additionalProperties": {
            "type": "object",
            "properties": {"kind": {"enum": list(names), "description": "the kind of the cluster"}},
            "allOf": [
                {
                    "if": {"properties": {"kind": {"const": kind}}}
                    | ({} if kind == DEFAULT_KIND else {"required": ["kind"]}),
                    "then": {"$ref": f"#/$defs/{name}"},
                }
                for kind, name in names.items()
            ],
        },
    }


def _quotas() -> Json:
    """Return the schema of limits by region and metric, in the format of `gpu_catalog.limits`."""
    return {
        "type": "object",
        "description": "the granted limits, by region and metric; limits of all regions together are under global",
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
    """Remove the titles that pydantic generates, and add the default to the description that editors show."""
    if isinstance(schema, list):
        return [_tidy(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "discriminator" in schema:
        schema = _by_discriminator(schema)
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
    """Replace anyOf with null by if/then. An editor then marks the invalid field, not the whole value."""
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    own = _tidy(schema["anyOf"][0])
    return {**rest, "if": {"not": {"type": "null"}}, "then": own} if "$ref" in own or "allOf" in own else schema


def _by_discriminator(schema: Json) -> Json:
    """Replace a union of models by if/then on the discriminator, so that errors refer to the selected model."""
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
