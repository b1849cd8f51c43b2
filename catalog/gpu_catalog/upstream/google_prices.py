"""Google's prices by machine, region and market: what the catalog has, what Cloud Billing's parts add up to.

Only machines whose every part has a known name are priced: G2, A2 with 40 GB cards, N1 and what attaches to it. The
others bundle local SSDs or are sold in ways whose SKUs were not seen; their prices stay as they are.
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
    """Machine type or accelerator -> how much of each part an hour of it is."""
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
    """The newest price the catalog has, under fields such as "us-central1 spot"."""
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
    """Every price that can be put together; a machine without any is left out."""
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
    """prices.json and sources.json with these prices beside those of others; nothing when no price moved.

    Each refresh is a source of its own, so that every price keeps its day. Of an earlier refresh stays what this one
    has no price for.
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
    """A row of an earlier refresh without what is priced anew; any other row as it is."""
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
    """A row of prices.json: of an accelerator for what attaches to N1, else of a machine type."""
    bare = name.removeprefix("gcp/")
    usd_per_hour: dict[str, dict[str, object]] = {}
    for field, usd in fields.items():
        region, _, market = field.partition(" ")
        usd_per_hour.setdefault(region, {})[market] = usd
    kind = "accelerator" if bare in n1.attachable() else "machine_type"
    return {"cloud": "gcp", kind: bare, "source": source, "usd_per_hour": usd_per_hour}
