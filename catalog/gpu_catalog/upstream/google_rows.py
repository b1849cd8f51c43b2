"""Returns Google's machine types as rows for a comparison: `current` from the catalog, `upstream` from Compute Engine.

Compute Engine does not list N1 machines with attached GPUs. For N1, a row is an accelerator, such as
gcp/n1+nvidia-tesla-t4, with its zones and its maximum number in a machine.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpu_catalog import data_files, n1
from gpu_catalog.refresh import GONE, Row, Rows
from gpu_catalog.upstream.google_compute import AcceleratorType, MachineType

WORKSTATION = "-vws"  # the same GPU with another licence
WITHOUT_DISKS = "-nolssd"  # the same machine without its local SSDs


def covers(machine: str) -> bool:
    return machine.startswith("gcp/")


def current() -> Rows:
    """Return the rows of the catalog, with the zones that its queries return."""
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
    """Return the rows of Compute Engine's lists for one project. Zones that are not open to the project are missing."""
    rows: dict[str, Row] = {}
    for machine in machines.values():
        with_disks = machine.name.removesuffix(WITHOUT_DISKS)
        if machine.accelerator and (with_disks == machine.name or with_disks not in machines):
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
