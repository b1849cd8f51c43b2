"""Check rules for instance templates and VMs that no schema contains, each with its source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import gpu_catalog

from pulumi_sandbox.providers.gcp.compute import machine_types
from pulumi_sandbox.providers.gcp.compute.machine_types import MachineType
from pulumi_sandbox.providers.inputs import rows, table
from pulumi_sandbox.providers.paths import text as path_text
from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.providers.values import UNKNOWN

# terraform-provider-google e03b7622, resource_compute_instance_template.go, buildDisks: the type of a disk without one.
DEFAULT_TYPE = "pd-standard"
# Google Cloud documentation "About Flex-start VMs".
FLEX_START_SEC = (600, 604_800)
# Google Cloud documentation "Limit the run time of a VM" (docs.cloud.google.com/compute/docs/instances/
# limit-vm-runtime), "Restrictions": from 30 seconds to 120 days.
RUN_LIMIT_SEC = (30, 10_368_000)
# Discovery document compute v1, Metadata.items: value "less than or equal to 262144 bytes", all "less than 512 KB".
METADATA_VALUE_BYTES = 262144
METADATA_TOTAL_BYTES = 512 * 1024


def template(inputs: dict[str, Any]) -> Iterator[Problem]:
    yield from metadata(inputs)
    scheduling = table(inputs.get("scheduling"))
    if inputs.get("scheduling") is not UNKNOWN:
        yield from scheduling_rules(scheduling)
    yield from reservation(scheduling, inputs.get("reservationAffinity"))
    type_input = inputs.get("machineType")
    if not isinstance(type_input, str):
        return
    machine_type = machine_types.machine(machine_types.short(type_input))
    if machine_type is None:
        hint = machine_types.did_you_mean(machine_types.short(type_input))
        yield Problem("machineType", f'"{type_input}" is not a machine type', hint)
        return
    yield from accelerators(machine_type, inputs.get("guestAccelerators"))
    yield from boot_disk(machine_type, inputs.get("disks"))
    yield from market(machine_type, scheduling)
    if (machine_type.accelerator or attached(inputs)) and inputs.get("scheduling") is not UNKNOWN:
        yield from maintenance(scheduling)


def instance(inputs: dict[str, Any]) -> Iterator[Problem]:
    """Check a VM by the rules of a template, and that its zone has the machine."""
    # The API chooses the type of a disk without one.
    kind = table(table(inputs.get("bootDisk")).get("initializeParams")).get("type")
    for problem in template({**inputs, "disks": [{"diskType": kind}] if kind else []}):
        yield replace(problem, path=problem.path.replace("disks[0].diskType", "bootDisk.initializeParams.type"))
    name, zone = inputs.get("machineType"), inputs.get("zone")
    machine_type = machine_types.machine(machine_types.short(name)) if isinstance(name, str) else None
    if machine_type and isinstance(zone, str) and (text := machine_types.not_in(zone, machine_type, attached(inputs))):
        yield Problem("zone", text)


def metadata(inputs: dict[str, Any]) -> Iterator[Problem]:
    values = table(inputs.get("metadata"))
    if isinstance(script := inputs.get("metadataStartupScript"), str):
        values = values | {"startup-script": script}
    total = 0
    for key, value in values.items():
        size = len(value.encode()) if isinstance(value, str) else 0
        total += len(key.encode()) + size
        if size > METADATA_VALUE_BYTES:
            yield Problem(
                path_text(("metadata", key)),
                f"Value for field 'resource.properties.metadata.{key}' is too large: "
                f"maximum size {METADATA_VALUE_BYTES} character(s); actual size {size}.",
            )
    if total >= METADATA_TOTAL_BYTES:
        yield Problem(
            "metadata", f"all keys and values together must be less than {METADATA_TOTAL_BYTES} bytes, got {total}"
        )


def scheduling_rules(scheduling: dict[str, Any]) -> Iterator[Problem]:
    """Check the provisioning model.

    Sources: Google Cloud documentation "Create and use Spot VMs", "About Flex-start VMs" and "Limit the run time of a
    VM" (docs.cloud.google.com/compute/docs/instances). The provider sends automaticRestart true and preemptible false
    when they are left out.
    """
    model, preemptible = scheduling.get("provisioningModel"), scheduling.get("preemptible")
    if model == "SPOT" and not preemptible:
        text = "must be true when provisioningModel is SPOT"
        yield Problem("scheduling.preemptible", text, "set preemptible to true")
    is_temporary = model in ("SPOT", "FLEX_START") or preemptible is True
    if is_temporary and scheduling.get("automaticRestart") not in (False, UNKNOWN):
        text = f"must be false when provisioningModel is {model or 'SPOT'} (the default is true)"
        yield Problem("scheduling.automaticRestart", text, "set automaticRestart to false")
    action, duration = scheduling.get("instanceTerminationAction"), scheduling.get("maxRunDuration")
    if model == "FLEX_START" and action not in ("DELETE", UNKNOWN):
        text = f"must be DELETE when provisioningModel is FLEX_START, got {action or 'nothing'}"
        yield Problem("scheduling.instanceTerminationAction", text)
    if model == "FLEX_START" and not duration:
        yield Problem("scheduling.maxRunDuration", "is required when provisioningModel is FLEX_START")
    seconds = table(duration).get("seconds")
    min_sec, max_sec = FLEX_START_SEC if model == "FLEX_START" else RUN_LIMIT_SEC
    if isinstance(seconds, int | float) and not min_sec <= seconds <= max_sec:
        text = f"must be from {min_sec} to {max_sec} seconds, got {seconds:.0f}"
        yield Problem("scheduling.maxRunDuration.seconds", text)
    has_limit = duration or scheduling.get("terminationTime")
    is_standard = model in (None, "", "STANDARD") and preemptible in (None, False)
    if is_standard and action in ("DELETE", "STOP") and not has_limit:
        # The API's message (github.com/cloudpilot-ai/karpenter-provider-gcp/issues/155). The API accepts the action
        # with a time limit, as "Limit the run time of a VM" shows.
        yield Problem(
            "scheduling.instanceTerminationAction",
            f"Invalid value for field 'resource.scheduling.instanceTerminationAction': '{action}'. You cannot specify "
            "a termination action for a VM instance that has the standard provisioning model (default).",
        )


def reservation(scheduling: dict[str, Any], affinity: Any) -> Iterator[Problem]:
    """Check the reservation of a provisioning model.

    Sources: Google Cloud documentation "Compute Engine instances provisioning models", "About Flex-start VMs" and
    "Consume reservations", Limitations.
    """
    model, kind = scheduling.get("provisioningModel"), table(affinity).get("type")
    if affinity is UNKNOWN or kind is UNKNOWN:
        return
    if model == "RESERVATION_BOUND" and kind != "SPECIFIC_RESERVATION":
        text = f"must be SPECIFIC_RESERVATION when provisioningModel is RESERVATION_BOUND, got {kind or 'nothing'}"
        yield Problem("reservationAffinity.type", text)
    is_temporary = model in ("SPOT", "FLEX_START") or scheduling.get("preemptible") is True
    if kind == "SPECIFIC_RESERVATION" and is_temporary:
        text = "must not be SPECIFIC_RESERVATION for a Spot VM or a Flex-start VM, which cannot consume a reservation"
        yield Problem("reservationAffinity.type", text, "remove reservationAffinity")


def maintenance(scheduling: dict[str, Any]) -> Iterator[Problem]:
    # Google Cloud documentation "Handle GPU host maintenance events"
    # (docs.cloud.google.com/compute/docs/gpus/gpu-host-maintenance): GPU instances cannot live migrate. The message is
    # the API's. The default of onHostMaintenance is MIGRATE, and TERMINATE for a preemptible instance.
    value = scheduling.get("onHostMaintenance")
    spot = scheduling.get("preemptible") or scheduling.get("provisioningModel") in ("SPOT", UNKNOWN)
    if value not in (UNKNOWN, "TERMINATE") and (value or not spot):
        yield Problem(
            "scheduling.onHostMaintenance",
            f"Instances with guest accelerators do not support live migration (got {value or 'nothing: MIGRATE'}).",
            "set onHostMaintenance to TERMINATE",
        )


def market(machine_type: MachineType, scheduling: dict[str, Any]) -> Iterator[Problem]:
    # gpu_catalog, `markets`: the provisioning models of each machine type.
    model = scheduling.get("provisioningModel") or ("SPOT" if scheduling.get("preemptible") else "STANDARD")
    if not machine_type.models or UNKNOWN in (model, scheduling.get("preemptible")):
        return
    if model in ("STANDARD", "SPOT", "FLEX_START") and model not in machine_type.models:
        offered = ", ".join(machine_type.models)
        text = f"{machine_type.name} is not offered as {model}; it is offered as {offered}"
        yield Problem("scheduling.provisioningModel", text)


def boot_disk(machine_type: MachineType, disks: Any) -> Iterator[Problem]:
    # gpu_catalog, `boot_disks`. An existing disk has its own type.
    disk = table(next(iter(rows(disks)), {}))
    disk_type = disk.get("diskType")
    if disk_type is UNKNOWN or disk.get("source") or not disk:
        return
    kind = machine_types.short(disk_type) if disk_type else DEFAULT_TYPE
    if machine_type.boot_disks and kind not in machine_type.boot_disks:
        usable = " or ".join(machine_type.boot_disks)
        default = "" if disk_type else " (the provider's default, because no disk type is set)"
        text = f"[{kind}] features are not compatible with {machine_type.name}{default}; use {usable}"
        yield Problem("disks[0].diskType", text)


def attached(inputs: dict[str, Any]) -> str:
    """Return the type of the attached accelerator; empty if the template has none or the type is unknown yet."""
    for row in rows(inputs.get("guestAccelerators")):
        kind = table(row).get("type")
        if isinstance(kind, str):
            return machine_types.short(kind)
    return ""


def accelerators(machine_type: MachineType, accelerator_rows: Any) -> Iterator[Problem]:
    for index, row in enumerate(rows(accelerator_rows)):
        kind, count = table(row).get("type"), table(row).get("count")
        if not isinstance(kind, str) or not isinstance(count, int | float):
            continue
        path, card, cards = f"guestAccelerators[{index}]", machine_types.short(kind), int(count)
        if machine_type.accelerator:
            # The provider's own a3 example repeats the type's accelerator, so an exact repetition is accepted.
            if (card, cards) != (machine_type.accelerator, machine_type.gpus):
                yield Problem(
                    path,
                    f"{machine_type.name} comes with {machine_type.gpus} x {machine_type.accelerator}; "
                    f"{cards} x {card} cannot be added",
                    "remove guestAccelerators",
                )
        elif machine_type.takes_accelerators:
            yield from n1(machine_type, card, cards, path)
        elif machine_type.name in machine_types.SHARED_CORE or cards > 0:
            yield Problem(
                path,
                f"{machine_type.name} takes no GPU; only N1 machine types (not shared-core ones) take attached GPUs",
            )


def n1(machine_type: MachineType, card: str, count: int, path: str) -> Iterator[Problem]:
    counts = machine_types.n1_counts(card)
    if not counts:
        attachable = " ".join(gpu_catalog.attachable())
        yield Problem(f"{path}.type", f"{card} cannot be attached to N1 machine types; these can: {attachable}")
        return
    limit = machine_types.n1_limit(card, count, [])
    if limit is None:
        allowed = ", ".join(str(number) for number in counts)
        yield Problem(f"{path}.count", f"expected one of {allowed} GPUs of type {card}, got {count}")
        return
    if (machine_type.vcpus or 0) > limit[0] or (machine_type.memory_gb or 0) > limit[1]:
        yield Problem(
            "machineType",
            f"{machine_type.name} ({machine_type.vcpus} vCPUs, {machine_type.memory_gb:g} GB) is larger than "
            f"{count} x {card} allows: {limit[0]} vCPUs, {limit[1]} GB",
        )
