"""Google's machine types in the catalog's fields: what the catalog has, and what Compute Engine's lists say.

N1 is not in these lists with its GPUs; there an accelerator's zones and largest number are compared, under names such
as gcp/n1+nvidia-tesla-t4.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpu_catalog import data_files, n1
from gpu_catalog.refresh import GONE, Row, Rows
from gpu_catalog.upstream.google_compute import AcceleratorType, MachineType

WORKSTATION = "-vws"  # the same card with another licence
WITHOUT_DISKS = "-nolssd"  # the same machine without its local SSDs


def covers(machine: str) -> bool:
    return machine.startswith("gcp/")


def current() -> Rows:
    """The catalog's rows, zones as it answers for them."""
    built_in = {f"gcp/{row['machine_type']}": _current(row) for row in data_files.rows("gcp_machines")}
    return built_in | {f"gcp/n1+{accelerator}": _attachable(accelerator) for accelerator in n1.attachable()}


def _current(row: data_files.Json) -> Row:
    shared = data_files.family("gcp_families", row["family"])
    zones, _ = data_files.zones_and_regions(row["place"])
    return {
        "accelerator": shared["accelerator"],
        "architecture": shared["architecture"],
        "vcpus": row["vcpus"],
        "memory_gib": row["memory_gib"],
        "api_gpu_count": row["api_gpu_count"],
        "bundled_local_ssds": _bundled(row["local_disks"]),
        "zones": zones,
        **({GONE: row[GONE]} if GONE in row else {}),
    }


def _bundled(disks: data_files.Json) -> int | None:
    counts = disks["counts"] if disks["mode"] == "bundled" else [0]
    return counts[0] if len(counts) == 1 else None


def _attachable(accelerator: str) -> Row:
    place = next(row["place"] for row in data_files.rows("gcp_attachments") if row["accelerator"] == accelerator)
    zones, _ = data_files.zones_and_regions(place)
    return {"maximum_per_machine": max(n1.attachment_counts(accelerator)), "zones": zones}


def upstream(machines: Mapping[str, MachineType], accelerators: Mapping[str, AcceleratorType]) -> Rows:
    """What Compute Engine lists, for one project: zones that are not open to it are not in the answer."""
    rows: dict[str, Row] = {}
    for machine in machines.values():
        twin = machine.name.removesuffix(WITHOUT_DISKS)
        if machine.accelerator and (twin == machine.name or twin not in machines):
            rows[f"gcp/{machine.name}"] = _upstream(machine)
    for accelerator in accelerators.values():
        if accelerator.name in n1.attachable():
            rows[f"gcp/n1+{accelerator.name}"] = {
                "maximum_per_machine": accelerator.maximum_per_machine,
                "zones": accelerator.zones,
            }
    return rows


def _upstream(machine: MachineType) -> Row:
    return {
        "accelerator": machine.accelerator.removesuffix(WORKSTATION),
        "architecture": machine.architecture or None,
        "vcpus": machine.vcpus,
        "memory_gib": machine.memory_mib / 1024,
        "api_gpu_count": machine.accelerator_count,
        "bundled_local_ssds": machine.bundled_local_ssds,
        "zones": machine.zones,
    }
