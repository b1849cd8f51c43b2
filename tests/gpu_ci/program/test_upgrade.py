"""Compares the resources of today's program for the staging stack of the last release with those of that release.

The engine decides by registrations alone what an update changes, so equal ones change nothing. test_upgrade.py of
tests/engine asks the engine itself.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest
import yaml
from google.protobuf import json_format

from tests.gpu_ci.program.test_program import run
from tests.last_release import ADDED, ANNOUNCED, REGISTRATIONS, REMOVED, STACK_FILE, without_payloads

pytestmark = pytest.mark.usefixtures("short_definitions")

# What differs with the SDK, or with the place in the sources, and changes nothing in a stack.
_LEFT_OUT = {
    "acceptResources", "acceptSecrets", "hooks", "packageRef", "propertyDependencies", "sourcePosition", "stackTrace",
    "supportsPartialValues", "supportsResultReporting", "version",
}  # fmt: skip


def registrations() -> dict[str, Any]:
    """URN -> all that is registered of the resource; and ARC's definitions, which short_definitions leaves out."""
    found = {}
    for row in run(yaml.safe_load(STACK_FILE.read_text())["config"]).rows:
        request = json_format.MessageToDict(row.request)
        for name in _LEFT_OUT & request.keys():
            del request[name]
        found[row.urn] = in_order(without_payloads(request))
    definitions = json.loads(files("gpu_ci.kubernetes").joinpath("arc_definitions.json").read_text())
    found["ARC's definitions"] = hashlib.sha256(json.dumps(definitions, sort_keys=True).encode()).hexdigest()
    return found


def in_order(value: Any) -> Any:
    """The value with its lists of URNs sorted: the engine takes them as sets, and the SDK does not order them."""
    if isinstance(value, dict):
        return {name: in_order(each) for name, each in value.items()}
    if isinstance(value, list) and all(isinstance(each, str) and each.startswith("urn:") for each in value):
        return sorted(value)
    return value


def differences(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """The paths at which two values differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted({*before, *after}):
            yield from differences(before.get(name), after.get(name), f"{path} {name}".strip())
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from differences(one, other, f"{path}[{number}]")
    elif before != after:
        yield path


def test_every_resource_is_registered_as_in_the_last_release() -> None:
    today = registrations()
    if os.environ.get("LAST_RELEASE") == "write":
        REGISTRATIONS.write_text(json.dumps(today, indent=1, sort_keys=True) + "\n")
    released = json.loads(REGISTRATIONS.read_text())
    added = {urn for urn in today if urn.rpartition("::")[2] in ADDED}
    released = {urn: row for urn, row in released.items() if urn.rpartition("::")[2] not in REMOVED}
    assert sorted(today.keys() - added) == sorted(released)
    found = [path.rpartition("::")[2] for path in differences(released, {urn: today[urn] for urn in released})]
    assert sorted(found) == sorted(ANNOUNCED), "this changes stacks that the last release deployed"
