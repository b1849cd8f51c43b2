"""The catalog as it was before a refresh, so that a refresh has changes."""

from __future__ import annotations

import copy

from gpu_catalog import data_files


def aws_machines() -> data_files.Json:
    """Return aws_machines.json with the regions of AWS's page, which lists families: no size has regions of its own."""
    document = copy.deepcopy(data_files.document("aws_machines"))
    for row in document["rows"]:
        if row.pop("regions", None) is not None:
            del row["sources"]["regions"]
    return document


def regions(row: data_files.Json) -> list[str]:
    """Return the regions of a row of that document."""
    shared = data_files.family("aws_families", row["family"])
    return [*shared["regions"], *shared["govcloud_regions"]]
