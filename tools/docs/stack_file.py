"""Writes the reference page of a stack file from its JSON Schema. Pools and image pipelines have pages of their own."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from gpu_ci.errors import in_yaml
from gpu_ci.stack.images import IMAGES
from gpu_ci.stack.pools import POOLS

from tools.docs import components

FILE = "reference/stack-file.md"
# A table refers to one on any page that has at least this number of its fields.
SHARED_FIELDS = 3
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
    queue, sections = list(names), components.sections().copy()
    # Where a type is described, if another page describes the same one.
    elsewhere: dict[str, str] = {}
    while queue:
        name = queue.pop(0)
        definition = schema["$defs"][name]
        fields = definition.get("properties", {})
        if same := next((each for each in sections if each.heading == _short(name) and _is_same(fields, each)), None):
            elsewhere[f"(#{_short(name).lower()})"] = f"({_link(same)})"
            continue
        lines += [""] if lines[-1] else []
        lines += [f"## {_short(name)}", "", definition.get("description", ""), ""]
        if section := _most_alike(fields, sections):
            shared = [each for each, item in fields.items() if _is_alike(item, section.fields.get(each))]
            link = f"[{section.heading}]({_link(section)})"
            lines += [f"As for {link}: {', '.join(f'`{each}`' for each in shared)}.", ""]
            fields = {each: item for each, item in fields.items() if each not in shared}
        sections.append(components.Section(FILE, _short(name), fields))
        lines += components.in_list(list(_rows(fields, definition.get("required", ()))))
        new = [each for each in _references(fields) if each not in names]
        names |= dict.fromkeys(new)
        queue += dict.fromkeys(new)
    text = "\n".join([*lines, ""])
    for link, other in elsewhere.items():
        text = text.replace(link, other)
    return f"{text.rstrip()}\n"


def _link(section: components.Section) -> str:
    file = "" if section.file == FILE else section.file.removeprefix("reference/")
    return f"{file}#{section.heading.lower()}"


def _is_same(fields: dict[str, Any], section: components.Section) -> bool:
    return fields.keys() == section.fields.keys() and all(
        _is_alike(item, section.fields[name]) for name, item in fields.items()
    )


def _most_alike(fields: dict[str, Any], sections: list[components.Section]) -> components.Section | None:
    """Return the section, of any page, with most of these fields, if it has enough of them."""
    alike = [sum(_is_alike(item, each.fields.get(name)) for name, item in fields.items()) for each in sections]
    return sections[alike.index(max(alike))] if max(alike) >= SHARED_FIELDS else None


def _is_alike(item: dict[str, Any], other: dict[str, Any] | None) -> bool:
    return other is not None and (_text(item), _default(item)) == (_text(other), _default(other))


def _default(item: dict[str, Any]) -> str:
    return f"`{in_yaml(item['default'])}`" if item.get("default") not in (None, [], {}) else ""


def _rows(fields: dict[str, Any], required: Collection[str]) -> Iterator[components.Row]:
    for name, item in fields.items():
        default = "required" if name in required else _default(item)
        yield components.Row(f"`{name}`", _type(item), default, _text(item))


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
