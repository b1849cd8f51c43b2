"""The rules for component documents of EC2 Image Builder, which its program AWSTOE runs.

Sources: docs.aws.amazon.com/imagebuilder/latest/userguide, pages toe-use-documents.html (the document) and
toe-action-modules.html (the actions). AWS publishes no schema, so SCHEMA is written from these pages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import jsonschema
import yaml

from pulumi_sandbox.providers.resource import Problem

ACTIONS = (
    "AppendFile", "Assert", "CopyFile", "CopyFolder", "CreateFile", "CreateFolder", "CreateSymlink", "DeleteFile",
    "DeleteFolder", "ExecuteBash", "ExecuteBinary", "ExecuteDocument", "ExecutePowerShell", "InstallMSI", "ListFiles",
    "MoveFile", "MoveFolder", "ReadFile", "Reboot", "S3Download", "S3Upload", "SetFileEncoding", "SetFileOwner",
    "SetFilePermissions", "SetFolderOwner", "SetFolderPermissions", "SetRegistry", "UninstallMSI", "UpdateOS",
    "WebDownload",
)  # fmt: skip
PHASES = ("build", "validate", "test", "container-host-test")
_SCRIPTS = ("ExecuteBash", "ExecutePowerShell")
_NAME = {"type": "string", "minLength": 1}
STEP: dict[str, Any] = {
    "type": "object",
    "required": ["name", "action"],
    "additionalProperties": False,
    "properties": {
        "name": _NAME,
        "action": {"enum": list(ACTIONS)},
        "timeoutSeconds": {"type": "integer", "anyOf": [{"const": -1}, {"minimum": 1}]},
        "onFailure": {"enum": ["Abort", "Continue", "Ignore"]},
        "maxAttempts": {"type": "integer", "minimum": 1},
        "inputs": {"type": ["object", "array"]},
        "loop": {"type": "object"},
        "if": {"type": "object"},
    },
    "if": {"properties": {"action": {"enum": list(_SCRIPTS)}}},
    "then": {
        "required": ["inputs"],
        "properties": {
            "inputs": {
                "type": "object",
                "required": ["commands"],
                "additionalProperties": False,
                "properties": {"commands": {"type": "array", "minItems": 1, "items": {"type": "string"}}},
            }
        },
    },
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["schemaVersion", "phases"],
    "additionalProperties": False,
    "properties": {
        "name": _NAME,
        "description": {"type": "string"},
        "schemaVersion": {"enum": [1.0, "1.0"]},
        "parameters": {"type": "array"},
        "constants": {"type": "array"},
        "phases": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["name", "steps"],
                "additionalProperties": False,
                "properties": {"name": _NAME, "steps": {"type": "array", "minItems": 1, "items": STEP}},
            },
        },
    },
}


def problems(inputs: dict[str, Any]) -> Iterator[Problem]:
    """Check the document of a component."""
    data, uri = inputs.get("data"), inputs.get("uri")
    if not data and not uri:
        yield Problem("data", 'one of "data" or "uri" must be set')
    if isinstance(data, str):
        for text in refusals(data):
            yield Problem("data", f"InvalidRequestException: the component document is not valid: {text}")


def refusals(data: str) -> Iterator[str]:
    """Yield each problem of a document."""
    try:
        document = yaml.safe_load(data)
    except yaml.YAMLError as error:
        yield f"not YAML: {' '.join(str(error).split())}"
        return
    found = list(jsonschema.Draft202012Validator(SCHEMA).iter_errors(document))
    for each in sorted(found, key=lambda error: list(map(str, error.absolute_path))):
        yield f"{each.json_path}: {each.message}"
    if found:
        return
    phases = [phase["name"] for phase in document["phases"]]
    if not set(phases) & set(PHASES):
        yield f"expected at least one of the phases {', '.join(PHASES)}, got {', '.join(phases)}"
    yield from (f"the phase {name} is there twice" for name in _twice(phases))
    for phase in document["phases"]:
        steps = [step["name"] for step in phase["steps"]]
        yield from (f"the step {name} is there twice in the phase {phase['name']}" for name in _twice(steps))


def _twice(names: list[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]
