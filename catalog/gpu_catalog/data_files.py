"""Reads the data files in data/, and builds the rows of the catalog from them.

Each file is read once, at the first query that needs it. A family is a group of machine types with the same GPU. A
place is a key of gcp_zones.json, which several machine types share.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from .locations import region_of
from .models import Attachment, Gpu, LocalDisks, Machine, N1Shape, Source

DATA = Path(__file__).with_name("data")

Json = dict[str, Any]
Sources = dict[str, tuple[str, ...]]


@cache
def document(name: str) -> Json:
    """Return the content of a data file."""
    found: Json = json.loads(DATA.joinpath(f"{name}.json").read_text(encoding="utf-8"))
    return found


def rows(name: str) -> list[Json]:
    """Return the rows of a data file."""
    found: list[Json] = document(name)["rows"]
    return found


@cache
def sources() -> dict[str, Source]:
    return {row["key"]: Source(**row) for row in rows("sources")}


def origin(*layers: tuple[str, Json]) -> dict[str, Any]:
    """Return the sources of a row's facts, as the fields `sources` and `uncertain` of `Row`.

    A layer is a file and one of its rows. The sources of the file apply to all its rows. A row can override them, and a
    later layer overrides an earlier layer.
    """
    found: Sources = {}
    for file, row in layers:
        named = {**document(file).get("sources", {}), **row.get("sources", {})}
        found |= {fact: tuple(keys) for fact, keys in named.items()}
    uncertain = tuple(sorted(fact for fact, keys in found.items() if not all(sources()[key].certain for key in keys)))
    return {"sources": found, "uncertain": uncertain}


@cache
def gpus() -> dict[str, Gpu]:
    return {row["key"]: _gpu(row) for row in rows("gpus")}


def _gpu(row: Json) -> Gpu:
    plain = {key: value for key, value in row.items() if key != "sources"}
    return Gpu(**{**plain, "accelerators": tuple(row["accelerators"])}, **origin(("gpus", row)))


@cache
def gpu_of_accelerator(accelerator: str) -> Gpu:
    return next(gpu for gpu in gpus().values() if accelerator in gpu.accelerators)


@cache
def machines() -> dict[str, Machine]:
    """Return every machine type with built-in GPUs, by name."""
    made = {"gcp_machines": _google, "aws_machines": _amazon, "jarvislabs_machines": _jarvis_labs}
    found = [make(row) for file, make in made.items() for row in rows(file)]
    return {machine.machine_type: machine for machine in found}


@cache
def family(file: str, name: str) -> Json:
    return next(row for row in rows(file) if row["family"] == name)


def _google(row: Json) -> Machine:
    shared = family("gcp_families", row["family"])
    zones, zoneless = zones_and_regions(row["place"])
    custom = row.get("custom_memory_gib")
    disks = row["local_disks"]
    return Machine(
        cloud="gcp",
        machine_type=row["machine_type"],
        family=row["family"],
        gpu=gpu_of_accelerator(shared["accelerator"]),
        gpu_count=row["gpu_count"],
        gpu_memory_gib=row["gpu_memory_gib"],
        vcpus=row["vcpus"],
        memory_gib=row["memory_gib"],
        api_gpu_count=row["api_gpu_count"],
        markets=tuple(row["markets"]),
        unverified_markets=tuple(row.get("unverified_markets", ())),
        local_disks=LocalDisks(disks["mode"], tuple(disks["counts"]), disks.get("size_gib")),
        zones=zones,
        zoneless_regions=zoneless,
        unlisted_regions=unlisted(row["place"]),
        undated_zones=undated_zones(row["place"]),
        custom_memory_gib=(custom[0], custom[1]) if custom else None,
        notes=tuple(row.get("notes", ())),
        **google_family(shared) | ({"gpudirect": row["gpudirect"]} if "gpudirect" in row else {}),
        **origin(("gcp_families", shared), ("gcp_machines", with_zone_sources(row))),
    )


def google_family(shared: Json) -> dict[str, Any]:
    """Return the facts that all machines of a Google family share, by field of `Machine`."""
    spot = [shared["quota"]["spot"]] if shared["quota"]["spot"] else []
    # Flex-start uses the quota of preemptible GPUs (docs.cloud.google.com, "About Flex-start VMs").
    quota = {"standard": (shared["quota"]["standard"],), "spot": tuple(spot), "flex-start": tuple(spot)}
    return {
        "accelerator": shared["accelerator"],
        "architecture": shared["architecture"],
        "boot_disks": tuple(shared["boot_disks"]),
        "nics": tuple(shared["nics"]),
        "rdma_nic": shared["rdma_nic"],
        "gpudirect": shared["gpudirect"],
        "quota": {market: metrics for market, metrics in quota.items() if metrics},
    }


def _amazon(row: Json) -> Machine:
    shared = family("aws_families", row["family"])
    gb = row["local_nvme_gb"]
    disks = (
        LocalDisks("unknown") if gb is None else LocalDisks("bundled" if gb else "none", (), _gib(gb) if gb else None)
    )
    return Machine(
        cloud="aws",
        machine_type=row["machine_type"],
        family=row["family"],
        gpu=gpus()[shared["gpu"]],
        gpu_count=row["gpu_count"],
        gpu_memory_gib=row["gpu_memory_mib"] / 1024,
        vcpus=row["vcpus"],
        memory_gib=row["memory_mib"] / 1024,
        architecture=shared["architecture"],
        markets=tuple(row["markets"]),
        efa_interfaces=row["efa_interfaces"],
        network_mbps=row["network_mbps"],
        hypervisor=row["hypervisor"],
        local_disks=disks,
        # AWS's page lists families. If a size differs from its family, its row has the regions.
        zoneless_regions=tuple(sorted(row.get("regions", [*shared["regions"], *shared["govcloud_regions"]]))),
        ami_types=tuple(shared["ami_types"]),
        quota={market: tuple(metrics) for market, metrics in shared["quota"].items()},
        legacy=row.get("legacy", False),
        notes=tuple(shared.get("notes", ())),
        **origin(("aws_families", shared), ("aws_machines", row)),
    )


def _jarvis_labs(row: Json) -> Machine:
    gpu = gpus()[row["gpu"]]
    return Machine(
        cloud="jarvislabs",
        machine_type=row["machine_type"],
        family=row["machine_type"].partition("x")[2],
        gpu=gpu,
        gpu_count=row["gpu_count"],
        gpu_memory_gib=gpu.memory_gib,
        vcpus=row["vcpus"],
        memory_gib=row["memory_gib"],
        architecture="x86_64",
        markets=("standard",),
        zoneless_regions=tuple(row["regions"]),
        **origin(("jarvislabs_machines", row)),
    )


def _gib(gb: float) -> float:
    """Convert GB to GiB. AWS gives disk sizes in GB."""
    return round(gb * 1e9 / 2**30, 1)


@cache
def zones_and_regions(key: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the zones of a row of gcp_zones.json, and the regions whose zones no source names.

    There are three sources: Google's list of zones, Google's newer list of regions, and an undated copy of an answer of
    the API. A region of the list of zones is dropped if the newer list of regions does not have it. A region that only
    the copy has is kept, because the region may be open to some projects. A zone that the API refused is dropped.
    """
    found: dict[str, set[str]] = {}
    listed_regions: set[str] = set()
    refused: set[str] = set()
    for row in rows("gcp_zones"):
        if row["place"] == key:
            found[row["source"]] = _names(row.get("zones", {}))
            refused |= _names(row.get("refused", {}))
            listed_regions |= set(row.get("regions", ()))
    gone = {region_of(zone) for zone in found["gdoc_zones"]} - listed_regions
    zones = tuple(sorted(zone for zone in set().union(*found.values()) - refused if region_of(zone) not in gone))
    return zones, tuple(sorted(listed_regions - {region_of(zone) for zone in zones}))


def _names(letters_by_region: Mapping[str, str]) -> set[str]:
    return {f"{region}-{letter}" for region, letters in letters_by_region.items() for letter in letters.split()}


@cache
def undated_zones(key: str) -> tuple[str, ...]:
    """Return the zones of a place that only an undated source names."""
    dated = [row for row in rows("gcp_zones") if row["place"] == key and sources()[row["source"]].date]
    known = set().union(*(_names(row.get("zones", {})) for row in dated))
    return tuple(zone for zone in zones_and_regions(key)[0] if zone not in known)


@cache
def unlisted(key: str) -> tuple[str, ...]:
    """Return the regions of a place that Google's page does not list, but a copy of the API or a price list names."""
    zones, zoneless = zones_and_regions(key)
    pages = [row for row in rows("gcp_zones") if row["place"] == key and row["source"].startswith("gdoc_")]
    listed = {region for row in pages for region in (*row.get("zones", ()), *row.get("regions", ()))}
    return tuple(sorted({*map(region_of, zones), *zoneless} - listed))


def with_zone_sources(row: Json) -> Json:
    """Return a row of a machine with the sources of its zones, taken from gcp_zones.json."""
    zones = [each["source"] for each in rows("gcp_zones") if each["place"] == row["place"]]
    return {**row, "sources": {"zones": zones, **row.get("sources", {})}}


@cache
def attachments() -> tuple[Attachment, ...]:
    return tuple(_attachment(row, row.get("smaller_in", {})) for row in rows("gcp_attachments"))


def _attachment(row: Json, smaller: Mapping[str, Any]) -> Attachment:
    return Attachment(
        accelerator=row["accelerator"],
        count=row["count"],
        max_vcpus=row["max_vcpus"],
        max_memory_gib=row["max_memory_gib"],
        smaller_zones=tuple(smaller.get("zones", ())),
        smaller_max_vcpus=smaller.get("max_vcpus"),
        smaller_max_memory_gib=smaller.get("max_memory_gib"),
    )


@cache
def n1_shapes() -> dict[str, N1Shape]:
    return {row["machine_type"]: N1Shape(**row) for row in rows("n1_shapes")}
