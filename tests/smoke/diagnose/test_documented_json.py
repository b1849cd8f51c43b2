"""The JSON of `gpu-smoke diagnose`: its page names every field, and no other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from gpu_smoke.checks import Check

from ..paths import ROOT
from .conftest import Diagnose

GUIDES = ROOT / "docs/guides"


def documented(page: str, schema: str) -> set[str]:
    text = (GUIDES / page).read_text(encoding="utf-8")
    table = text.partition(f"`{schema}`")[2].partition("\n\n|")[2].partition("\n\n")[0]
    return {name for line in table.splitlines() for name in re.findall(r"`([^`]+)`", line.split("|")[1])}


def named(value: Any, name: str = "") -> Iterator[str]:
    """Return the fields of a record as the page writes them: `checks[].next`."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from named(inner, f"{name}.{key}".lstrip("."))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for inner in value:
            yield from named(inner, f"{name}[]")
    else:
        yield name


def test_the_page_names_every_field_that_a_diagnosis_adds_to_checks(diagnose: Diagnose) -> None:
    own = {f"checks[].{field.name}" for field in fields(Check)}
    assert documented("gpu-smoke-diagnose.md", "smoke-diagnose/1") == {*named(diagnose().record)} - own
