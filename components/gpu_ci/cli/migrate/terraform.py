"""Reads the output of `terraform show -json` and `tofu show -json`, without the sensitive values.

The format is documented at developer.hashicorp.com/terraform/internals/json-format, "State Representation" and "Values
Representation".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError, model_validator

from gpu_ci.cli.output import InputError
from gpu_ci.validation_errors import join

_MAJOR = "1"
_HINT = "terraform show -json > state.json"
# Keys of other JSON documents that users may give instead, with the name of the document.
_OTHERS = {
    "planned_values": "a plan, the output of terraform show -json PLAN",
    "resource_changes": "a plan, the output of terraform show -json PLAN",
    "provider_schemas": "the output of terraform providers schema -json",
    "lineage": "a state file of Terraform, such as terraform.tfstate",
    "modules": "a state file of Terraform 0.11 or older",
    "deployment": "an exported stack of Pulumi",
}
_MODULE = re.compile(r'module\.(?P<name>[^.\[]+)(\[(?P<key>"[^"]*"|\d+)\])?\.')


class Resource(BaseModel):
    """One resource or data source. `values` has no sensitive value."""

    address: str
    mode: Literal["managed", "data"]
    type: str
    name: str
    index: int | str | None = None
    values: dict[str, Any] = {}

    @model_validator(mode="before")
    @classmethod
    def _drop_sensitive(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        marks = given.get("sensitive_values")
        values = given.get("values")
        kept = without_sensitive(values if values is not None else {}, marks)
        return {**given, "values": {} if kept is None else kept}

    @property
    def modules(self) -> list[tuple[str, str]]:
        """The modules around the resource, outermost first: name, and key of count or for_each (or an empty text)."""
        return [(each["name"], (each["key"] or "").strip('"')) for each in _MODULE.finditer(self.address)]

    @property
    def title(self) -> str:
        """A name for what the resource belongs to: the innermost module's key, else the outermost module's name."""
        if keys := [key for _, key in self.modules if key and not key.isdigit()]:
            return keys[-1]
        if self.modules:
            name, key = self.modules[0]
            return f"{name}-{key}" if key and key != "0" else name
        return self.name if self.index is None else f"{self.name}-{self.index}"

    def block(self, *names: str) -> dict[str, Any]:
        """Return the first block at this path, or an empty map: Terraform writes nested blocks as lists."""
        found: Any = self.values
        for name in names:
            found = found.get(name) if isinstance(found, Mapping) else None
            found = found[0] if isinstance(found, list) and found else found
        return dict(found) if isinstance(found, Mapping) else {}

    def text(self, name: str) -> str:
        """Return an attribute that is text, or an empty text."""
        value = self.values.get(name)
        return value if isinstance(value, str) else ""


class Module(BaseModel):
    """The resources of one module, and the modules in it."""

    resources: list[Resource] = []
    child_modules: list[Module] = []

    def every(self) -> Iterator[Resource]:
        yield from self.resources
        for child in self.child_modules:
            yield from child.every()


class Values(BaseModel):
    root_module: Module = Module()


class State(BaseModel):
    """A state. Only the keys that this command reads are kept."""

    format_version: str = Field(pattern=r"^[0-9]+\.[0-9]+$")
    values: Values | None = None

    @property
    def resources(self) -> list[Resource]:
        return list(self.values.root_module.every()) if self.values else []


def without_sensitive(value: Any, marks: Any) -> Any:
    """Return a value without what `sensitive_values` marks: true at a place hides everything below it."""
    if marks is True:
        return None
    if isinstance(value, Mapping) and isinstance(marks, Mapping):
        return {
            key: without_sensitive(each, marks.get(key)) for key, each in value.items() if marks.get(key) is not True
        }
    if isinstance(value, list) and isinstance(marks, list):
        padded = [*marks, *[None] * len(value)]
        return [without_sensitive(each, mark) for each, mark in zip(value, padded, strict=False)]
    return value


def read(path: Path) -> State:
    """Read a state. Raise InputError, which never contains a value of the file, if it is another document."""
    document = _document(path)
    for key, name in _OTHERS.items():
        if key in document:
            raise InputError(
                f"{path}: is not a state", got=name, expected="the output of terraform show -json", hint=_HINT
            )
    version = document.get("format_version")
    if isinstance(version, str) and version.partition(".")[0] not in ("", _MAJOR):
        raise InputError(
            f"{path}: format_version: is another version of the format",
            got=repr(version[:20]),
            expected=f"{_MAJOR}.x",
            hint="use a Terraform or OpenTofu whose `show -json` writes this version",
        )
    try:
        state = State.model_validate(document)
    except ValidationError as error:
        line = error.errors(include_url=False, include_input=False)[0]
        place = ""
        for step in line["loc"]:
            place = join(place, step)
        raise InputError(
            f"{path}: {place}: {line['msg'][:1].lower()}{line['msg'][1:]}",
            expected="the output of terraform show -json",
            hint=_HINT,
        ) from None
    except RecursionError:
        raise InputError(f"{path}: is nested too deeply", expected="the output of terraform show -json") from None
    if not state.resources:
        raise InputError(f"{path}: has no resources", expected="a state that was applied", hint=_HINT)
    return state


def _document(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file", hint=_HINT) from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not text", got=f"the byte {error.start + 1} is not UTF-8", hint=_HINT) from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read", got=error.strerror or str(error)) from None
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InputError(f"{path}: is not JSON", got=f"{error.msg.lower()} at {where}", hint=_HINT) from None
    except RecursionError:
        raise InputError(f"{path}: is nested too deeply", expected="the output of terraform show -json") from None
    if not isinstance(document, dict):
        raise InputError(f"{path}: is not a state", got="JSON that is not an object", hint=_HINT)
    return document
