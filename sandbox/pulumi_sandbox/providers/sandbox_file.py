"""Read sandbox.yaml. Every provider uses its own entries of the file."""

from __future__ import annotations

import json
from pathlib import Path as File
from typing import Any

import yaml

from pulumi_sandbox.providers import paths
from pulumi_sandbox.providers.sdk.shape_check import did_you_mean
from pulumi_sandbox.providers.values import Path
from pulumi_sandbox.workspace import yaml_error

# The form of the file. A dict has the keys of a map, or "*" for any key. A list has the form of its elements, a tuple
# the allowed values. None allows any value; its reader checks it.
ANSWER = {"match": {"*": None}, "result": {"*": None}, "only": [str], "secrets": [str]}
FORM: dict[str, Any] = {
    "guest": {"path": [str], "environment": {"*": None}, "scriptOutput": ("serial-port", "journal")},
    "exists": {"aws": [str], "gcp": [str], "github": [str]},
    "github": {"apps": {"*": {"*": ("read", "write")}}, "plans": {"*": ("free", "team", "enterprise")}},
    "lookups": {"*": [ANSWER]},
    "values": {name: {"*": None} for name in ("aws", "gcp", "github", "kubernetes")},
}
LONGEST_SHOWN_CHARS = 80
# Lower than the default, because names have three letters: one wrong letter is a third of the name.
MIN_SIMILARITY = 0.6


class SettingsError(ValueError):
    """An entry of sandbox.yaml is not valid. The text has its path and the expected value."""


def read(file: File | None) -> dict[str, Any]:
    """Return the entries of the file, or an empty dict if the file is missing."""
    if file is None or not file.is_file():
        return {}
    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
    except yaml.MarkedYAMLError as error:
        raise SettingsError(yaml_error(file, error)) from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise SettingsError(f"{file.name}: is not YAML: {type(error).__name__}\n  expected: YAML") from None
    check(file.name, (), document, FORM)
    return document or {}


def check(file: str, path: Path, value: Any, form: Any) -> None:
    """Raise SettingsError if the value at a path of the file does not have this form. An empty value always has it."""
    if form is None or not value:
        return
    place = f"{file}: {paths.text(path) or 'the file'}"
    if isinstance(form, tuple):
        if value not in form:
            raise SettingsError(f"{place}: unknown value\n  got: {value}\n  expected: {', '.join(form)}")
    elif isinstance(form, list) and isinstance(value, list):
        for index, each in enumerate(value):
            check(file, (*path, index), each, form[0])
    elif isinstance(form, dict) and isinstance(value, dict):
        if "*" not in form:
            refuse_unknown(file, f"{paths.text(path)}." if path else "", value, tuple(form))
        for name, each in value.items():
            check(file, (*path, str(name)), each, form.get(name, form.get("*")))
    elif not (form is str and isinstance(value, str)):
        shown = json.dumps(value, default=str)[:LONGEST_SHOWN_CHARS]
        expected = "a text" if form is str else "a list" if isinstance(form, list) else "a map"
        of = f" of {', '.join(form)}" if isinstance(form, dict) and "*" not in form else ""
        raise SettingsError(f"{place}: wrong form\n  got: {shown}\n  expected: {expected}{of}")


def refuse_unknown(file: str, parent: str, entries: dict[Any, Any], names: tuple[str, ...]) -> None:
    for name in entries:
        if name not in names:
            suggestion = did_you_mean(str(name), names, MIN_SIMILARITY)
            hint = f"\n  hint: did you mean '{suggestion}'?" if suggestion else ""
            raise SettingsError(f"{file}: {parent}{name}: no such entry\n  expected: {', '.join(names)}{hint}")


def existing_patterns(file: File | None, package: str) -> tuple[str, ...]:
    """Return the globs under `exists: <package>:`."""
    return tuple((read(file).get("exists") or {}).get(package) or ())
