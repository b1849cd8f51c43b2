"""Returns Google's prices as rows for a comparison: `current` from the catalog, `upstream` computed from Cloud Billing.

A row has the prices of a machine by region and market. A price is computed if the SKUs of all components are known: for
G2, A2 with 40 GB GPUs, N1 and its accelerators. Other machines have bundled local SSDs or unknown SKUs. A refresh does
not change their prices.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from datetime import date

from gpu_catalog import data_files, n1
from gpu_catalog.refresh import Diff, Row, Rows
from gpu_catalog.upstream.changed_documents import with_source
from gpu_catalog.upstream.google_billing import SKU_DESCRIPTIONS, Sku, price_usd_per_hour

SOURCE = "billing"
SOURCE_DESCRIPTION = "Cloud Billing catalog of Compute Engine, SKUs added up by gpu-ci catalog refresh"
MARKETS = {"standard": "on-demand", "spot": "spot"}

Quantities = Mapping[tuple[str, str], float]


def billed_quantities() -> dict[str, Quantities]:
    """Return the amount of each component in a machine type or accelerator."""
    found: dict[str, Quantities] = {}
    for row in data_files.rows("gcp_machines"):
        accelerator = data_files.family("gcp_families", row["family"])["accelerator"]
        gpus = {(accelerator, "gpu"): row["api_gpu_count"]}
        found[row["machine_type"]] = _host(row) | gpus if row["local_disks"]["mode"] != "bundled" else {}
    found |= {row["machine_type"]: _host(row) for row in data_files.rows("n1_shapes")}
    found |= {row["accelerator"]: {(row["accelerator"], "gpu"): 1} for row in data_files.rows("gcp_attachments")}
    return {
        name: quantities for name, quantities in found.items() if quantities and {*quantities} <= {*SKU_DESCRIPTIONS}
    }


def _host(row: data_files.Json) -> dict[tuple[str, str], float]:
    series = row["machine_type"].split("-")[0]
    return {(series, "core"): row["vcpus"], (series, "ram"): row["memory_gib"]}


def covers(machine: str) -> bool:
    return machine.removeprefix("gcp/") in billed_quantities()


def current() -> Rows:
    """Return the newest prices of the catalog, with fields such as "us-central1 spot"."""
    newest: dict[str, dict[str, float]] = {}
    rows = [row for row in data_files.rows("prices") if row["cloud"] == "gcp"]
    for row in sorted(rows, key=lambda each: data_files.sources()[each["source"]].date or ""):
        fields = newest.setdefault(f"gcp/{_name(row)}", {})
        for region, markets in row["usd_per_hour"].items():
            fields |= {f"{region} {market}": usd for market, usd in markets.items()}
    return newest


def _name(row: data_files.Json) -> str:
    return str(row.get("machine_type") or row["accelerator"])


def upstream(skus: Iterable[Sku]) -> Rows:
    """Return every price that can be computed. Machines without such a price are left out."""
    all_skus = list(skus)
    regions = sorted({region for sku in all_skus for region in sku.regions})
    rows: dict[str, Row] = {}
    for name, quantities in billed_quantities().items():
        prices = {
            f"{region} {market}": round(float(usd), 6)
            for region in regions
            for market, billed in MARKETS.items()
            if (usd := price_usd_per_hour(all_skus, region, billed, quantities)) is not None
        }
        if prices:
            rows[f"gcp/{name}"] = prices
    return rows


def changed_documents(found: Diff, prices: Rows, today: date) -> dict[str, data_files.Json]:
    """Return prices.json and sources.json with the new prices, or nothing if no price has changed.

    Each refresh is a separate source in sources.json, so that every price has the date of its refresh. If the new
    refresh does not have a price, the price of an earlier refresh stays.
    """
    if not (found.added or found.changed):
        return {}
    key = f"{SOURCE}_{today.isoformat()}"
    document, sources = copy.deepcopy(data_files.document("prices")), copy.deepcopy(data_files.document("sources"))
    older = [remaining for row in document["rows"] if (remaining := _without(row, prices))]
    document["rows"] = [*older, *(price_row(name, fields, key) for name, fields in prices.items())]
    used = {row["source"] for row in document["rows"]} | {key}
    sources["rows"] = [row for row in sources["rows"] if row["key"] in used or not _is_refresh(row["key"])]
    return {"prices": document, "sources": with_source(sources, key, SOURCE_DESCRIPTION, today)}


def _is_refresh(source: str) -> bool:
    return source.startswith(f"{SOURCE}_")


def _without(row: data_files.Json, prices: Rows) -> data_files.Json | None:
    """Return a row of an earlier refresh without the prices that are new. Return any other row unchanged."""
    new = prices.get(f"gcp/{_name(row)}", {})
    if row["cloud"] != "gcp" or not _is_refresh(row["source"]):
        return row
    remaining = {
        region: {market: usd for market, usd in markets.items() if f"{region} {market}" not in new}
        for region, markets in row["usd_per_hour"].items()
    }
    remaining = {region: markets for region, markets in remaining.items() if markets}
    return {**row, "usd_per_hour": remaining} if remaining else None


def price_row(name: str, fields: Row, source: str) -> data_files.Json:
    """Return a row of prices.json for an accelerator that can be attached to N1, or for a machine type."""
    bare = name.removeprefix("gcp/")
    usd_per_hour: dict[str, dict[str, object]] = {}
    for field, usd in fields.items():
        region, _, market = field.partition(" ")
        usd_per_hour.setdefault(region, {})[market] = usd
    kind = "accelerator" if bare in n1.attachable() else "machine_type"
    return {"cloud": "gcp", kind: bare, "source": source, "usd_per_hour": usd_per_hour}
