"""Updates the prices of the catalog from the catalogs that gpuhunt publishes every day.

    .venv/bin/python -m tools.refresh_catalog            # shows what differs
    .venv/bin/python -m tools.refresh_catalog --write    # writes catalog/gpu_catalog/data/

gpuhunt (github.com/dstackai/gpuhunt) collects the prices from AWS's price list and spot price history, and from
Google's Cloud Billing catalog. No account is needed. `--folder DIR` reads aws.csv and gcp.csv of your own run of
gpuhunt instead, of the day `--date`.

Only prices of known machine types, regions and markets change, each with the date of its source. A price that gpuhunt
does not have stays. Machine types that the catalog does not have are printed: a person adds their facts.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import gpu_catalog
from gpu_catalog import data_files
from gpuhunt._internal import storage
from gpuhunt._internal.catalog import Catalog
from gpuhunt._internal.errors import GPUHuntError
from gpuhunt._internal.models import CatalogItem

DATA = data_files.DATA

Prices = dict[str, dict[str, dict[str, float]]]
"""USD an hour by machine type or accelerator, region and market."""

PROVIDERS = {
    "aws": "gpuhunt's published catalog of AWS: AWS's price list, and the lowest zone of its spot price history",
    "gcp": "gpuhunt's published catalog of Google Cloud, computed from Google's Cloud Billing catalog",
}
_DAY = re.compile(r"(\d{4})-?(\d{2})-?(\d{2})")
_N1 = re.compile(r"n1-[a-z]+-\d+")
# The two prices of a spot and a standard price that are this close are equal: Google's are sums of rounded components.
_ROUNDING = 1e-5


def main(arguments: list[str] | None = None) -> int:
    """Run the command line. Return 1 if prices differ and --write was not given."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the new prices into the data files")
    parser.add_argument("--folder", type=Path, help="read aws.csv and gcp.csv from this folder")
    parser.add_argument("--date", default="", help="the day of the files in --folder, as YYYY-MM-DD")
    given = parser.parse_args(arguments)
    if bool(given.folder) != bool(given.date):
        parser.error("--folder requires --date, and --date requires --folder")
    document, sources = (json.loads((DATA / f"{name}.json").read_text("utf-8")) for name in ("prices", "sources"))
    rows: list[dict[str, Any]] = document["rows"]
    changed = 0
    for cloud, (day, items) in _read(given.folder, given.date).items():
        known, unknown = _known(cloud, items)
        if not known:
            print(f"{cloud}: no price of a known machine type: an empty answer counts as a failed one", file=sys.stderr)
            return 2
        dates = {row["key"]: row["date"] or "" for row in sources["rows"]}
        sources = _with_source(sources, f"gpuhunt_{cloud}", PROVIDERS[cloud], day)
        rows, count = merged(rows, dates, cloud, known)
        changed += count
        print(f"{cloud}: {count} prices of {day} differ, of {len(known)} machine types and accelerators")
        print(*(f"  not in the catalog: {name}" for name in unknown), sep="\n", end="\n" if unknown else "")
    if given.write:
        _write("prices", {**document, "rows": rows})
        _write("sources", sources)
    return 1 if changed and not given.write else 0


def _read(folder: Path | None, day: str) -> dict[str, tuple[str, list[CatalogItem]]]:
    """Return the day and the offers of each cloud."""
    if folder:
        texts = {cloud: (folder / f"{cloud}.csv").read_text("utf-8") for cloud in PROVIDERS}
        return {
            cloud: (_date(day), list(storage.load(io.StringIO(text), provider=cloud))) for cloud, text in texts.items()
        }
    catalog = Catalog(auto_reload=False)
    try:
        catalog.load()
        return {cloud: (_date(catalog.catalog[cloud].version), catalog.catalog[cloud].items) for cloud in PROVIDERS}
    except (GPUHuntError, KeyError) as error:
        hint = "gpuhunt's bucket needs an Internet connection; --folder reads files of your own"
        raise SystemExit(f"gpuhunt: not every catalog could be loaded\n  got: {error}\n  hint: {hint}") from None


def _date(text: str) -> str:
    if not (found := _DAY.match(text)):
        raise SystemExit(f"{text!r} is no date\n  expected: YYYY-MM-DD\n  hint: gpuhunt's versions may have changed")
    return "-".join(found.groups())


def _known(cloud: str, items: Iterable[CatalogItem]) -> tuple[Prices, list[str]]:
    """Return the prices of the catalog's machines, and the machine types with GPUs that it does not have."""
    offered: dict[tuple[str, int, str, str, str], float] = {}
    for item in items:
        if item.gpu_count and not item.provider_data.get("is_dws_calendar_mode"):
            region = gpu_catalog.region_of(item.location) if cloud == "gcp" else item.location
            market = "spot" if item.spot else "standard"
            key = (item.instance_name, item.gpu_count, item.gpu_name or "", region, market)
            offered[key] = min(item.price, offered.get(key, item.price))  # the cheapest zone of a region
    machines = {each.machine_type: each for each in gpu_catalog.machines(n1=False) if each.cloud == cloud}
    found: Prices = {}
    for (name, _, _, region, market), usd in offered.items():
        machine = machines.get(name)
        if machine and market in machine.markets and region in machine.regions:
            found.setdefault(name, {}).setdefault(region, {})[market] = usd
    for name, region, market, usd in _components(offered):
        found.setdefault(name, {}).setdefault(region, {})[market] = usd
    unknown = {name for name, *_ in offered} - {*machines} - {*gpu_catalog.machine_types()}
    return found, sorted(unknown)


def _components(offered: Mapping[tuple[str, int, str, str, str], float]) -> Iterator[tuple[str, str, str, float]]:
    """Yield the prices of N1 machines and of the GPUs that are attached to them.

    gpuhunt has the sum for each number of GPUs. Two sums of one machine type determine both components.
    """
    accelerators = {gpu_catalog.gpu(name).name: name for name in gpu_catalog.attachable()}
    sums: dict[tuple[str, str, str, str], dict[int, float]] = {}
    for (name, count, gpu, region, market), usd in offered.items():
        if _N1.fullmatch(name) and gpu in accelerators:
            sums.setdefault((name, accelerators[gpu], region, market), {})[count] = usd
    for (name, accelerator, region, market), by_count in sums.items():
        if len(by_count) < 2:
            continue
        (few, low), (many, high) = sorted(by_count.items())[:2]
        one = (high - low) / (many - few)
        if name in gpu_catalog.machine_types("gcp"):
            yield name, region, market, round(low - few * one, 6)
        yield accelerator, region, market, round(one, 6)


def merged(
    rows: list[dict[str, Any]], dates: Mapping[str, str], cloud: str, new: Prices
) -> tuple[list[dict[str, Any]], int]:
    """Return the rows with the new prices, and the number of prices that differ from the newest ones before.

    Prices of other sources for the same machine, region and market are removed, because they are older.
    """
    before = {
        (row.get("machine_type") or row["accelerator"], region, market): usd
        for row in sorted(rows, key=lambda row: dates[row["source"]])
        for region, markets in row["usd_per_hour"].items()
        for market, usd in markets.items()
    }
    differs = sum(
        abs(before.get((name, region, market), -1) - usd) > _ROUNDING
        for name, regions in new.items()
        for region, markets in regions.items()
        for market, usd in markets.items()
    )
    kept = []
    for row in rows:
        replaced = new.get(row.get("machine_type") or row["accelerator"], {})
        row["usd_per_hour"] = {
            region: left
            for region, markets in row["usd_per_hour"].items()
            if (left := {market: usd for market, usd in markets.items() if market not in replaced.get(region, {})})
        }
        kept += [row] if row["usd_per_hour"] else []
    kind = {name: "accelerator" if name in gpu_catalog.attachable() else "machine_type" for name in new}
    added = [
        {
            "cloud": cloud,
            kind[name]: name,
            "source": f"gpuhunt_{cloud}",
            "usd_per_hour": dict(sorted(new[name].items())),
        }
        for name in sorted(new)
    ]
    return [*kept, *added], differs


def _with_source(sources: dict[str, Any], key: str, what: str, day: str) -> dict[str, Any]:
    row = {"key": key, "what": what, "date": day, "certain": True}
    return {**sources, "rows": [*(each for each in sources["rows"] if each["key"] != key), row]}


def _write(name: str, document: Mapping[str, Any]) -> None:
    """Write a data file with one row on each line, so that a diff shows the changed rows."""
    head = [f" {json.dumps(key)}: {json.dumps(value)}," for key, value in document.items() if key != "rows"]
    rows = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in document["rows"])
    text = "\n".join(["{", *head, ' "rows": [', rows, " ]", "}", ""])
    (DATA / f"{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
