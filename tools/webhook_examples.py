"""Extracts the payloads for the tests of the manager's webhook from Octokit's webhook examples.

    npm pack @octokit/webhooks-examples@7.6.1
    python -m tools.webhook_examples octokit-webhooks-examples-7.6.1.tgz

Writes tests/manager/webhook/examples.json: each distinct example of the events below, of github.com and of every
Enterprise Server in the package.
"""

from __future__ import annotations

import json
import sys
import tarfile
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parent.parent / "tests/manager/webhook/examples.json"
EVENTS = ("workflow_job", "workflow_run")
_PACKAGE = "package/package.json"


def extract(documents: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Return the distinct examples of each of EVENTS. `documents` has the package's files by their names."""
    found: dict[str, dict[str, dict[str, Any]]] = {event: {} for event in EVENTS}
    for _, described in sorted(documents.items()):
        for event in described:
            for example in event["examples"] if event["name"] in EVENTS else ():
                found[event["name"]].setdefault(json.dumps(example, sort_keys=True), example)
    return {event: list(examples.values()) for event, examples in found.items()}


def main(package: str) -> None:
    with tarfile.open(package) as archive:
        about = json.load(archive.extractfile(_PACKAGE))
        documents = {
            member.name: json.load(archive.extractfile(member))
            for member in archive
            if member.name.endswith("/index.json")
        }
    source = f"{about['name']} {about['version']} ({about['license']}, {about['author']})"
    FILE.write_text(json.dumps({"source": source, "examples": extract(documents)}, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
