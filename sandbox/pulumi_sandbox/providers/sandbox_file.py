"""Reads sandbox.yaml, which every provider takes its own entries from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from pulumi_sandbox import yaml_file
from pulumi_sandbox.providers.shape_check import did_you_mean
from pulumi_sandbox.workspace import YamlFileError

ENTRIES = ("guest", "exists", "lookups", "values")
LONGEST_SHOWN = 80


class SettingsError(ValueError):
    """sandbox.yaml says something that cannot be used; the text says where and what was expected."""


def read(file: Path | None) -> dict[str, Any]:
    """The entries of the file; none when there is no such file."""
    if file is None or not file.is_file():
        return {}
    try:
        yaml_file.check(file)
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (YamlFileError, yaml.YAMLError) as wrong:
        raise SettingsError(str(wrong)) from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        shown = json.dumps(document, default=str)[:LONGEST_SHOWN]
        raise SettingsError(
            f"{file.name}: the file: wrong form\n  got: {shown}\n  expected: a map of {', '.join(ENTRIES)}"
        )
    for name in document:
        if name not in ENTRIES:
            meant = did_you_mean(str(name), ENTRIES)
            hint = f"\n  hint: did you mean '{meant}'?" if meant else ""
            raise SettingsError(f"{file.name}: {name}: no such entry\n  expected: {', '.join(ENTRIES)}{hint}")
    return document
