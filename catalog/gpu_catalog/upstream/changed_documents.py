"""Applies the diff of a refresh to the data files of the catalog, for `gpu-ci catalog refresh`.

The result is the new documents, and a list of changes that a maintainer has to make by hand. This module writes
nothing: `plans.save` writes the documents.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from gpu_catalog import data_files
from gpu_catalog.refresh import GONE, Change, Diff, Row, value_text

FILES = {"aws": "aws_machines", "gcp": "gcp_machines"}

# The fields of a data file that a refresh can change, and for each the fact of `Machine`. A maintainer changes the
# other fields: the fields of families, because several machines share them, and zones, because they have several
# sources.
FACTS = {
    "aws": {
        "vcpus": "vcpus",
        "memory_mib": "memory_gib",
        "gpu_count": "gpu_count",
        "gpu_memory_mib": "gpu_memory_gib",
        "efa_interfaces": "efa_interfaces",
        "local_nvme_gb": "local_disks",
        "markets": "markets",
        "regions": "regions",
    },
    "gcp": {"vcpus": "vcpus", "memory_gib": "memory_gib", "api_gpu_count": "api_gpu_count"},
}
# The required fields of a row of aws_machines.json that no source of a refresh has.
UNKNOWN_FIELDS = {"network_mbps": None, "hypervisor": ""}


@dataclass(frozen=True, slots=True)
class ChangedDocuments:
    """The new documents of the data files that change, and a line for each change to make by hand."""

    documents: dict[str, data_files.Json]
    by_hand: tuple[str, ...]


def apply_diff(diff: Diff, source: str) -> ChangedDocuments:
    """Return the changed documents. `source` is the key in sources.json that changed facts cite."""
    documents = {file: copy.deepcopy(data_files.document(file)) for file in FILES.values()}
    rows = {f"{cloud}/{row['machine_type']}": row for cloud, file in FILES.items() for row in documents[file]["rows"]}
    by_hand: list[str] = []
    for change in diff.changed:
        by_hand += _change(rows.get(change.machine), change, source)
    for name in (*diff.gone, *diff.back):
        by_hand += _mark(rows.get(name), name, diff.rows[name])
    for name in diff.added:
        cloud, _, machine_type = name.partition("/")
        row = _new(cloud, machine_type, diff.rows[name], source)
        if row is None:
            by_hand.append(f"{name}: add its family, its GPU and other facts that the source lacks, then the machine")
        else:
            documents[FILES[cloud]]["rows"].append(row)
    changed = {file: document for file, document in documents.items() if document != data_files.document(file)}
    return ChangedDocuments(changed, tuple(by_hand))


def _change(row: data_files.Json | None, change: Change, source: str) -> Iterator[str]:
    """Change a field of a row. Yield the change as text if a maintainer has to make it."""
    fact = FACTS[change.machine.partition("/")[0]].get(change.field)
    if row is None or fact is None:
        yield str(change)
        return
    row[change.field] = list(change.upstream) if isinstance(change.upstream, tuple) else change.upstream
    row["sources"] = {**row.get("sources", {}), fact: [source]}


def _mark(row: data_files.Json | None, name: str, new_row: Row) -> Iterator[str]:
    """Mark a row as gone upstream, or remove the mark. Yield a text if a maintainer has to do this."""
    if row is None:
        yield f"{name}: gone upstream since {value_text(new_row.get(GONE))}"
    elif GONE in new_row:
        row[GONE] = new_row[GONE]
    else:
        del row[GONE]


def _new(cloud: str, machine_type: str, found: Row, source: str) -> data_files.Json | None:
    """Return a new row of a known family, or None if the family is unknown or the source lacks a fact."""
    facts = FACTS["aws"]
    families = {row["family"]: row for row in data_files.rows("aws_families")} if cloud == "aws" else {}
    shared = families.get(str(found.get("family")))
    if shared is None or found.get("gpu") != shared["gpu"] or not {*facts} <= {*found}:
        return None
    values = {field: found[field] for field in facts}
    return {
        "machine_type": machine_type,
        "family": shared["family"],
        **{field: list(value) if isinstance(value, tuple) else value for field, value in values.items()},
        **UNKNOWN_FIELDS,
        "sources": {fact: [source] for fact in facts.values()},
    }


def with_source(document: data_files.Json, key: str, what: str, day: date) -> data_files.Json:
    """Return sources.json with this source added or replaced."""
    others = [row for row in document["rows"] if row["key"] != key]
    return {**document, "rows": [*others, {"key": key, "what": what, "date": day.isoformat(), "certain": True}]}


def text(document: data_files.Json) -> str:
    """Return the text of a data file. Each row is one line, so that a diff of the file is a diff of rows."""
    head = {key: value for key, value in document.items() if key != "rows"}
    lines = [f" {json.dumps(key)}: {_block(value)}," for key, value in head.items()]
    rows = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in document["rows"])
    return "\n".join(["{", *lines, ' "rows": [', rows, " ]", "}", ""])


def _block(value: object) -> str:
    if not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    inner = ",\n".join(f"  {json.dumps(key)}: {json.dumps(each, ensure_ascii=False)}" for key, each in value.items())
    return "{\n" + inner + "\n }"
