"""The rules for component documents of EC2 Image Builder, which its program AWSTOE runs.

Sources: docs.aws.amazon.com/imagebuilder/latest/userguide, pages toe-use-documents.html (the document) and
toe-action-modules.html (the actions). AWS publishes no schema. This one has what the documents of components use.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonschema
import yaml

from pulumi_sandbox.providers.resource import Problem

ACTIONS = (
    "Assert", "CopyFile", "CreateFile", "CreateFolder", "CreateSymlink", "DeleteFile", "ExecuteBash", "ExecuteBinary",
    "ExecuteDocument", "ReadFile", "Reboot", "S3Download", "SetFileOwner", "SetFilePermissions", "UpdateOS",
    "WebDownload",
)  # fmt: skip
STEP: dict[str, Any] = {
    "type": "object",
    "required": ["name", "action"],
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "action": {"enum": list(ACTIONS)},
        "timeoutSeconds": {"type": "integer"},
        "onFailure": {"enum": ["Abort", "Continue", "Ignore"]},
        "inputs": {"type": ["object", "array"]},
    },
    "if": {"properties": {"action": {"const": "ExecuteBash"}}},
    "then": {
        "required": ["inputs"],
        "properties": {
            "inputs": {
                "required": ["commands"],
                "additionalProperties": False,
                "properties": {"commands": {"type": "array", "minItems": 1, "items": {"type": "string"}}},
            }
        },
    },
}
PHASE: dict[str, Any] = {
    "type": "object",
    "required": ["name", "steps"],
    "additionalProperties": False,
    "properties": {
        "name": {"enum": ["build", "validate", "test", "container-host-test"]},
        "steps": {"type": "array", "minItems": 1, "items": STEP},
    },
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["schemaVersion", "phases"],
    "properties": {
        "schemaVersion": {"enum": [1.0, "1.0"]},
        "phases": {"type": "array", "minItems": 1, "items": PHASE},
    },
}


def problems(inputs: dict[str, Any]) -> Iterator[Problem]:
    """Check the document of a component."""
    if isinstance(data := inputs.get("data"), str):
        for text in refusals(data):
            yield Problem("data", f"InvalidRequestException: the component document is not valid: {text}")


def refusals(data: str) -> Iterator[str]:
    """Yield each problem of a document."""
    try:
        document = yaml.safe_load(data)
    except yaml.YAMLError as error:
        yield f"not YAML: {' '.join(str(error).split())}"
        return
    for each in jsonschema.Draft202012Validator(SCHEMA).iter_errors(document):
        yield f"{each.json_path}: {each.message}"
