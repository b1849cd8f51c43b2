"""Extracts the answers that the emulated GitHub gives from GitHub's OpenAPI description, for the tests.

    npm pack @octokit/openapi@23.0.2
    python -m tools.github_openapi octokit-openapi-23.0.2.tgz

Writes tests/sandbox/providers/github/openapi/api.github.com.json: the answers of the operations below and all schemas
that these refer to, without descriptions and examples.
"""

from __future__ import annotations

import json
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "tests/sandbox/providers/github/openapi"
SOURCE = "package/generated/api.github.com.json"
RUNS, RUNNERS = "/repos/{owner}/{repo}/actions/runs", "actions/runners"
GROUPS = "/orgs/{org}/actions/runner-groups"
OPERATIONS = [
    "POST /app/installations/{installation_id}/access_tokens",
    "GET /installation/repositories",
    f"GET {GROUPS}",
    f"GET {GROUPS}/{{runner_group_id}}",
    f"GET {GROUPS}/{{runner_group_id}}/repositories",
    f"GET {GROUPS}/{{runner_group_id}}/runners",
    *(
        f"{method} {owner}/{RUNNERS}{path}"
        for owner in ("/orgs/{org}", "/repos/{owner}/{repo}")
        for method, path in (
            ("GET", ""),
            ("GET", "/{runner_id}"),
            ("DELETE", "/{runner_id}"),
            ("POST", "/generate-jitconfig"),
        )
    ),
    f"GET {RUNS}",
    f"GET {RUNS}/{{run_id}}",
    f"GET {RUNS}/{{run_id}}/jobs",
    f"POST {RUNS}/{{run_id}}/cancel",
    f"POST {RUNS}/{{run_id}}/rerun",
    f"POST {RUNS}/{{run_id}}/rerun-failed-jobs",
    "GET /repos/{owner}/{repo}/actions/jobs/{job_id}",
    "POST /repos/{owner}/{repo}/actions/jobs/{job_id}/rerun",
    "POST /repos/{owner}/{repo}/statuses/{sha}",
]
# The schemas of answers that an operation does not list, such as 404.
ERROR = "#/components/schemas/basic-error"
# The keys of a schema that are copied.
KEPT_KEYS = {
    "$ref", "additionalProperties", "allOf", "anyOf", "enum", "format", "items", "nullable", "oneOf", "properties",
    "required", "type",
}  # fmt: skip


def extract(description: dict[str, Any]) -> dict[str, Any]:
    """Return the answers of OPERATIONS by operation and status, and the schemas by name."""
    answers: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        method, path = operation.split()
        responses = description["paths"][path][method.lower()]["responses"]
        answers[operation] = {status: schema(description, answer) for status, answer in sorted(responses.items())}
    schemas: dict[str, Any] = {}
    pending = list(referenced_schemas([answers, {"$ref": ERROR}]))
    while pending:
        name = pending.pop()
        if name not in schemas:
            schemas[name] = trimmed(description["components"]["schemas"][name])
            pending.extend(referenced_schemas(schemas[name]))
    version = description["info"]["version"]
    return {
        "source": f"@octokit/openapi {version}, generated/api.github.com.json (MIT, see LICENSE)",
        "answers": answers,
        "components": {"schemas": dict(sorted(schemas.items()))},
    }


def schema(description: dict[str, Any], answer: dict[str, Any]) -> Any:
    """Return the schema of an answer's JSON, or None if it has none."""
    if "$ref" in answer:
        answer = description["components"]["responses"][answer["$ref"].rpartition("/")[2]]
    content = answer.get("content", {}).get("application/json")
    return trimmed(content["schema"]) if content else None


def trimmed(value: Any) -> Any:
    """Return a schema without descriptions and examples."""
    if not isinstance(value, dict):
        return value
    kept = {key: each for key, each in value.items() if key in KEPT_KEYS}
    for key in ("allOf", "anyOf", "oneOf"):
        if key in kept:
            kept[key] = [trimmed(each) for each in kept[key]]
    for key in ("items", "additionalProperties"):
        if key in kept:
            kept[key] = trimmed(kept[key])
    if "properties" in kept:
        kept["properties"] = {name: trimmed(each) for name, each in kept["properties"].items()}
    return kept


def referenced_schemas(value: Any) -> Iterator[str]:
    """Yield the names of the schemas that a value refers to."""
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"].rpartition("/")[2]
        for each in value.values():
            yield from referenced_schemas(each)
    elif isinstance(value, list):
        for each in value:
            yield from referenced_schemas(each)


def read_text(archive: tarfile.TarFile, name: str) -> str:
    """Return the content of a file in the package. Raise KeyError if the package does not have it."""
    file = archive.extractfile(name)
    return file.read().decode() if file else ""


def main(package: str) -> None:
    with tarfile.open(package) as archive:
        extracted = extract(json.loads(read_text(archive, SOURCE)))
        (FOLDER / "api.github.com.json").write_text(json.dumps(extracted, indent=1) + "\n")
        (FOLDER / "LICENSE").write_text(read_text(archive, "package/LICENSE"))


if __name__ == "__main__":
    main(sys.argv[1])
