"""N1 machine types with attached GPUs: what can be attached to which machine, and the resulting `Machine`.

N1 is the only series of Google to which GPUs can be attached. Other machine types have built-in GPUs or no GPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

from . import data_files
from .errors import DoesNotFit, UnknownAccelerator, UnknownMachine
from .models import Attachment, LocalDisks, Machine, N1Shape

_CUSTOM = re.compile(r"(?:n1-)?custom-(\d+)-(\d+)(?:-ext)?")


def n1_shapes() -> tuple[N1Shape, ...]:
    """Return the predefined N1 machine types."""
    return tuple(data_files.n1_shapes().values())


def n1_shape(machine_type: str) -> N1Shape:
    """Return an N1 machine type, predefined or custom (custom-8-30720). Raise UnknownMachine for any other."""
    if found := data_files.n1_shapes().get(machine_type):
        return found
    if custom := _CUSTOM.fullmatch(machine_type):
        return N1Shape(machine_type, int(custom[1]), int(custom[2]) / 1024)
    raise UnknownMachine(machine_type, data_files.n1_shapes())


def takes_accelerator(machine_type: str) -> bool:
    """Return True if GPUs can be attached to this machine type."""
    return machine_type in data_files.n1_shapes() or _CUSTOM.fullmatch(machine_type) is not None


def attachable() -> tuple[str, ...]:
    """Return the accelerator types that can be attached to N1."""
    return tuple(dict.fromkeys(each.accelerator for each in data_files.attachments()))


def attachments(accelerator: str = "") -> tuple[Attachment, ...]:
    """Return the attachable numbers of GPUs with their limits, of one accelerator type or of all."""
    if accelerator and accelerator not in attachable():
        raise UnknownAccelerator(accelerator, attachable())
    return tuple(each for each in data_files.attachments() if accelerator in ("", each.accelerator))


def attachment_counts(accelerator: str) -> tuple[int, ...]:
    """Return the numbers of GPUs of an accelerator that one machine can have."""
    return tuple(each.count for each in attachments(accelerator))


def too_large(machine_type: str, accelerator: str, count: int, zones: Sequence[str] = ()) -> str:
    """Return the reason why an N1 machine is too large for these GPUs in one of the zones, or an empty text."""
    shape, limits = n1_shape(machine_type), _attachment(accelerator, count)
    vcpus, memory_gib = limits.limit(tuple(zones))
    if shape.vcpus <= vcpus and shape.memory_gib <= memory_gib:
        return ""
    most = f"{count} x {accelerator} takes at most {vcpus} vCPUs and {memory_gib:g} GB"
    return f"{most}; {machine_type} has {shape.vcpus} and {shape.memory_gib:g}"


@cache
def attached(machine_type: str, accelerator: str, count: int = 1) -> Machine:
    """Return the machine of an N1 machine type with attached GPUs. It has the zones that allow a machine of this size.

    Raise UnknownMachine, UnknownAccelerator or DoesNotFit if there is no such machine.
    """
    shape, limits = n1_shape(machine_type), _attachment(accelerator, count)
    if text := too_large(machine_type, accelerator, count):
        raise DoesNotFit(text)
    row = next(
        row for row in data_files.rows("gcp_attachments") if (row["accelerator"], row["count"]) == (accelerator, count)
    )
    shared, disks = data_files.family("gcp_families", row["family"]), row["local_disks"]
    zones, zoneless = data_files.zones_and_regions(row["place"])
    small = limits.smaller_zones if too_large(machine_type, accelerator, count, limits.smaller_zones) else ()
    gpu = data_files.gpu_of_accelerator(accelerator)
    sources = data_files.origin(
        ("gcp_families", shared), ("n1_shapes", {}), ("gcp_attachments", data_files.with_zone_sources(row))
    )
    return Machine(
        cloud="gcp",
        machine_type=machine_type,
        family=row["family"],
        gpu=gpu,
        gpu_count=count,
        gpu_memory_gib=gpu.memory_gib,
        vcpus=shape.vcpus,
        memory_gib=shape.memory_gib,
        api_gpu_count=count,
        attached=True,
        markets=tuple(row["markets"]),
        unverified_markets=tuple(row["unverified_markets"]),
        local_disks=LocalDisks(
            "optional",
            tuple(disks["counts"]),
            only_zones=tuple(disks.get("only_zones", ())),
            not_zones=tuple(disks.get("not_zones", ())),
        ),
        zones=tuple(zone for zone in zones if zone not in small),
        zoneless_regions=zoneless,
        unlisted_regions=data_files.unlisted(row["place"]),
        undated_zones=data_files.undated_zones(row["place"]),
        **data_files.google_family(shared),
        **sources,
    )


def all_attached() -> Iterator[Machine]:
    """Yield every predefined N1 machine type with every number of GPUs that can be attached."""
    for limits in data_files.attachments():
        for shape in data_files.n1_shapes().values():
            if not too_large(shape.machine_type, limits.accelerator, limits.count):
                yield attached(shape.machine_type, limits.accelerator, limits.count)


def from_derived_name(machine_type: str) -> Machine | None:
    """Return the machine of a name that is derived from a row of the catalog. Return None for any other name.

    Names that end in -nolssd have no local SSDs. Names such as g2-custom-8-40960 have custom memory.
    """
    bare = machine_type.removesuffix("-nolssd")
    rows = {row["machine_type"]: row for row in data_files.rows("gcp_machines")}
    if bare != machine_type and bare in rows and rows[bare]["nolssd"]:
        return replace(data_files.machines()[bare], machine_type=machine_type, local_disks=LocalDisks("none"))
    if custom := re.fullmatch(r"g2-custom-(\d+)-(\d+)", machine_type):
        like, memory_gib = data_files.machines().get(f"g2-standard-{custom[1]}"), int(custom[2]) / 1024
        if like and like.custom_memory_gib and like.custom_memory_gib[0] <= memory_gib <= like.custom_memory_gib[1]:
            return replace(like, machine_type=machine_type, memory_gib=memory_gib)
    return None


def _attachment(accelerator: str, count: int) -> Attachment:
    found = next((each for each in attachments(accelerator) if each.count == count), None)
    if found is None:
        known = ", ".join(map(str, attachment_counts(accelerator)))
        raise DoesNotFit(f"no machine has {count} x {accelerator}; it can have {known}")
    return found
