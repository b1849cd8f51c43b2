"""Writes the reference page of a stack file from its JSON Schema. Pools and image pipelines have pages of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpu_ci.errors import in_yaml
from gpu_ci.stack.images import IMAGES
from gpu_ci.stack.pools import POOLS

PAGES = {POOLS: "pools.md", IMAGES: "image-pipelines.md"}
_INTRODUCTION = """\
# The stack file

Generated from the schema of stack files by `make docs`. These keys are below `config` in `Pulumi.<stack>.yaml`. An
editor completes them with [the schema](../pulumi-stack.schema.json), which `gpu-ci schema` prints.

| key | type | what it is |
|---|---|---|"""


def page(schema: dict[str, Any]) -> str:
    """Return the text of the page."""
    keys = schema["properties"]["config"]["properties"]
    lines = [_INTRODUCTION]
    for key, item in keys.items():
        kind = f"[fields]({PAGES[key]})" if key in PAGES else _type(item)
        lines.append(f"| `{key}` | {kind} | {_text(item)} |")
    names: dict[str, None] = {}
    for key, item in keys.items():
        names |= dict.fromkeys(() if key in PAGES else _references(item))
    queue = list(names)
    while queue:
        name = queue.pop(0)
        definition = schema["$defs"][name]
        lines += ["", f"## {_short(name)}", "", definition.get("description", ""), "", *_table(definition)]
        new = [each for each in _references(definition) if each not in names]
        names |= dict.fromkeys(new)
        queue += dict.fromkeys(new)
    return "\n".join([*lines, ""])


def _table(definition: dict[str, Any]) -> Iterator[str]:
    yield from ("| field | type | default | what it is |", "|---|---|---|---|")
    for name, item in definition.get("properties", {}).items():
        is_set = item.get("default") not in (None, [], {})
        default = f"`{in_yaml(item['default'])}`" if is_set else ""
        default = "required" if name in definition.get("required", ()) else default
        yield f"| `{name}` | {_type(item)} | {default} | {_text(item)} |"


def _type(item: dict[str, Any]) -> str:
    """Return the name of a type. An object is a link to its section."""
    if name := item.get("$ref", "").rpartition("/")[2]:
        return f"[{_short(name)}](#{_short(name).lower()})"
    if "then" in item:
        return _type(item["then"])
    if choices := [each for each in item.get("anyOf", item.get("allOf", ())) if each.get("type") != "null"]:
        return " or ".join(dict.fromkeys(_type(each) for each in choices))
    if "enum" in item or "const" in item:
        return " or ".join(f"`{each}`" for each in item.get("enum", [item.get("const")]))
    if item.get("type") == "array":
        return f"list of {_type(item['items'])}"
    if item.get("type") == "object":
        return f"map of {_type(item['additionalProperties'])}" if item.get("additionalProperties") else "map"
    found = item.get("type", [])
    return " or ".join("text" if each == "string" else each for each in ([found] if isinstance(found, str) else found))


def _references(item: Any) -> Iterator[str]:
    """Yield the names of the definitions in an item, in order."""
    for key, value in item.items() if isinstance(item, dict) else enumerate(item) if isinstance(item, list) else ():
        if key == "$ref":
            yield value.rpartition("/")[2]
        else:
            yield from _references(value)


def _short(name: str) -> str:
    return str(name.rpartition("__")[2])


def _text(item: dict[str, Any]) -> str:
    return str(item.get("description", "")).replace("|", "\\|").replace("<", "&lt;")
