"""Read sandbox.yaml. Every provider uses its own entries of the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from pulumi_sandbox.providers.sdk.shape_check import did_you_mean
from pulumi_sandbox.workspace import yaml_error

ENTRIES = ("guest", "exists", "github", "lookups", "values")
# The keys allowed below an entry. The keys of `lookups` are functions. The keys of a provider's `values` are free.
KEYS_BELOW = {
    "guest": ("path", "environment", "scriptOutput"),
    "exists": ("aws", "gcp", "github"),
    "github": ("apps", "plans"),
    "values": ("aws", "gcp", "github", "kubernetes"),
}
LONGEST_SHOWN_CHARS = 80
# Lower than the default, because names have three letters: one wrong letter is a third of the name.
MIN_SIMILARITY = 0.6


class SettingsError(ValueError):
    """An entry of sandbox.yaml is not valid. The text has its path and the expected value."""


def read(file: Path | None) -> dict[str, Any]:
    """Return the entries of the file, or an empty dict if the file is missing."""
    if file is None or not file.is_file():
        return {}
    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
    except yaml.MarkedYAMLError as error:
        raise SettingsError(yaml_error(file, error)) from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise SettingsError(f"{file.name}: is not YAML: {type(error).__name__}\n  expected: YAML") from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        shown = json.dumps(document, default=str)[:LONGEST_SHOWN_CHARS]
        raise SettingsError(
            f"{file.name}: the file: wrong form\n  got: {shown}\n  expected: a map of {', '.join(ENTRIES)}"
        )
    refuse_unknown(file.name, "", document, ENTRIES)
    for entry, names in KEYS_BELOW.items():
        if isinstance(keys := document.get(entry), dict):
            refuse_unknown(file.name, f"{entry}.", keys, names)
    return document


def refuse_unknown(file: str, parent: str, entries: dict[Any, Any], names: tuple[str, ...]) -> None:
    for name in entries:
        if name not in names:
            suggestion = did_you_mean(str(name), names, MIN_SIMILARITY)
            hint = f"\n  hint: did you mean '{suggestion}'?" if suggestion else ""
            raise SettingsError(f"{file}: {parent}{name}: no such entry\n  expected: {', '.join(names)}{hint}")


def existing_patterns(file: Path | None, package: str, example: str) -> tuple[str, ...]:
    """Return the globs under `exists: <package>:`. They match paths such as the example."""
    entry = read(file).get("exists") or {}
    patterns = entry.get(package) or [] if isinstance(entry, dict) else None
    if not isinstance(patterns, list) or not all(isinstance(one, str) for one in patterns):
        raise SettingsError(
            f"{file.name if file else 'sandbox.yaml'}: exists.{package}: wrong type\n  got: {entry}\n"
            f"  expected: a list of paths such as {example}"
        )
    return tuple(patterns)
