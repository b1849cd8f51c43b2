"""Creates the plans of `gpu-ci catalog refresh`. A plan is the changes of the catalog from one source.

The command shows `plan.diff.lines()` and `plan.by_hand` of each plan. With --write, it then calls `save(plans)`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from gpu_catalog import data_files
from gpu_catalog.refresh import Diff, diff
from gpu_catalog.upstream import aws_rows, cfn_lint, google_billing, google_compute, google_rows, version
from gpu_catalog.upstream import google_prices as prices
from gpu_catalog.upstream.changed_documents import apply_diff, text, with_source


@dataclass(frozen=True, slots=True)
class Plan:
    """The changes from one source: the new documents by data file, and the changes to make by hand."""

    diff: Diff
    documents: dict[str, data_files.Json]
    by_hand: tuple[str, ...]


def aws(today: date) -> Plan:
    """Return the changes from the pinned versions of botocore, moto and cfn-lint, without network access."""
    packages = f"botocore {version('botocore')}, moto {version('moto')}, cfn-lint {version('cfn-lint')}"
    current = aws_rows.current()
    found = diff(current, aws_rows.upstream(current), source=packages, today=today, covers=aws_rows.covers)
    what = f"{packages}: EC2's recorded answers, price list of {cfn_lint.as_of()}"
    return _plan(found, f"ec2_{today.isoformat()}", what, today)


def google(today: date, project: str, compute: Any = None) -> Plan:
    """Return the changes from Compute Engine's lists for one project. Not tested with the real API."""
    machines, accelerators = google_compute.fetch(project, compute)
    upstream = google_rows.upstream(
        google_compute.machine_types(machines), google_compute.accelerator_types(accelerators)
    )
    found = diff(google_rows.current(), upstream, source="Compute Engine", today=today, covers=google_rows.covers)
    return _plan(found, f"compute_{today.isoformat()}", "Compute Engine, machineTypes.aggregatedList", today)


def google_prices(today: date, billing: Any = None) -> Plan:
    """Return the changes from the Cloud Billing catalog. Not tested with the real API."""
    upstream = prices.upstream(google_billing.skus(google_billing.fetch(billing)).values())
    found = diff(prices.current(), upstream, source="Cloud Billing", today=today, covers=prices.covers)
    return Plan(found, prices.changed_documents(found, upstream, today), ())


def _plan(found: Diff, source: str, what: str, today: date) -> Plan:
    result = apply_diff(found, source)
    documents = result.documents
    if documents:
        documents = {**documents, "sources": with_source(data_files.document("sources"), source, what, today)}
    return Plan(found, documents, result.by_hand)


def save(plans: Iterable[Plan], folder: Path = data_files.DATA) -> list[Path]:
    """Write the documents of all plans. sources.json can be in several plans, so its rows are merged by key."""
    documents: dict[str, data_files.Json] = {}
    for plan in plans:
        for file, document in plan.documents.items():
            if file == "sources" and file in documents:
                known = {row["key"] for row in documents[file]["rows"]}
                documents[file]["rows"] += [row for row in document["rows"] if row["key"] not in known]
            else:
                documents[file] = copy.deepcopy(document)
    paths = {folder / f"{file}.json": document for file, document in documents.items()}
    for path, document in paths.items():
        path.write_text(text(document), encoding="utf-8")
    data_files.document.cache_clear()
    return list(paths)
