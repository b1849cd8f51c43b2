"""Check rules for instance templates that no schema contains, each with its source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gpu_catalog

from pulumi_sandbox.providers.gcp.compute import machine_types
from pulumi_sandbox.providers.gcp.compute.machine_types import MachineType
from pulumi_sandbox.providers.gcp.rules import disk, purchase
from pulumi_sandbox.providers.gcp.rules.common import labels, metadata, name_prefix
from pulumi_sandbox.providers.inputs import rows, table
from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.providers.values import UNKNOWN

# terraform-provider-google e03b7622, google/tpgresource/service_scope.go: short names that become URLs.
SCOPES = (
    "bigquery", "cloud-platform", "cloud-source-repos", "cloud-source-repos-ro", "compute-ro", "compute-rw",
    "datastore", "logging-write", "monitoring", "monitoring-read", "monitoring-write", "pubsub", "service-control",
    "service-management", "sql", "sql-admin", "storage-full", "storage-ro", "storage-rw", "taskqueue", "trace",
    "useraccounts-ro", "useraccounts-rw", "userinfo-email",
)  # fmt: skip
# Google Cloud documentation "Confidential VM clusters" of Managed Service for Apache Spark (docs.cloud.google.com/
# dataproc/docs/concepts/configuring-clusters/confidential-compute, 2026): the machine types with GPUs.
CONFIDENTIAL = {"SEV": ("g4-standard-48",), "SEV_SNP": (), "TDX": ("a3-highgpu-1g",)}


def template(inputs: dict[str, Any], region: str = "") -> Iterator[Problem]:
    """Check one template; `region` is the region of a regional template, and empty for a global one."""
    yield from labels(inputs.get("labels"), "labels")
    yield from metadata(inputs)
    yield from name_prefix(inputs)
    scheduling = table(inputs.get("scheduling"))
    if inputs.get("scheduling") is not UNKNOWN:
        yield from purchase.scheduling_rules(scheduling)
    yield from purchase.reservation(scheduling, inputs.get("reservationAffinity"))
    yield from disk.every_disk(inputs.get("disks"))
    yield from interfaces(inputs.get("networkInterfaces"))
    yield from scopes(inputs.get("serviceAccount"))
    type_input = inputs.get("machineType")
    if not isinstance(type_input, str):
        return
    machine_type = machine_types.machine(machine_types.short(type_input))
    if machine_type is None:
        yield Problem(
            "machineType",
            f'"{type_input}" is not a machine type',
            machine_types.did_you_mean(machine_types.short(type_input)),
        )
        return
    yield from accelerators(machine_type, inputs.get("guestAccelerators"))
    yield from disk.boot_disk(machine_type, inputs.get("disks"))
    yield from disk.local_disks(machine_type, attached(inputs), inputs.get("disks"))
    yield from nics(machine_type, inputs.get("networkInterfaces"))
    yield from confidential(machine_type, has_gpu(machine_type, inputs), inputs.get("confidentialInstanceConfig"))
    yield from purchase.market(machine_type, scheduling)
    yield from place(machine_type, attached(inputs), region)
    if has_gpu(machine_type, inputs) and inputs.get("scheduling") is not UNKNOWN:
        yield from purchase.maintenance(scheduling)


def attached(inputs: dict[str, Any]) -> str:
    """Return the type of the attached accelerator; empty if the template has none or the type is unknown yet."""
    for row in rows(inputs.get("guestAccelerators")):
        kind = table(row).get("type")
        if isinstance(kind, str):
            return machine_types.short(kind)
    return ""


def has_gpu(machine_type: MachineType, inputs: dict[str, Any]) -> bool:
    return bool(machine_type.accelerator or attached(inputs))


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


def place(machine_type: MachineType, accelerator: str, region: str) -> Iterator[Problem]:
    offer = machine_types.offer_of(machine_type, accelerator)
    if offer is None or not region or region in offer.regions:
        return
    product = machine_type.name if machine_type.accelerator else accelerator
    near_regions = [name for name in offer.regions if name.split("-")[0] == region.split("-")[0]]
    yield Problem(
        "region",
        f"{product} is not available in any zone of {region}",
        f"the nearest regions with it: {', '.join(near_regions[:4])}" if near_regions else "",
    )


def nics(machine_type: MachineType, interface_rows: Any) -> Iterator[Problem]:
    # gpu_catalog, `nics`: types without a vendor source are not checked. Google chooses an omitted type.
    offer = machine_type.offer
    if offer is None or not offer.nics or "nics" in offer.uncertain:
        return
    for index, interface in enumerate(rows(interface_rows)):
        kind = table(interface).get("nicType")
        # Machines with RDMA have further interfaces for it after the first.
        usable = (*offer.nics, offer.rdma_nic) if index and offer.rdma_nic else offer.nics
        if isinstance(kind, str) and kind and kind not in usable:
            yield Problem(
                f"networkInterfaces[{index}].nicType",
                f"{machine_type.name} does not support {kind}",
                f"use {' or '.join(usable)}",
            )


def interfaces(interface_rows: Any) -> Iterator[Problem]:
    # The API's message. github.com/luci/luci-go eee7bcb, gce/api/config/v1/vm.go, checks the same before a request.
    if interface_rows is not UNKNOWN and not rows(interface_rows):
        yield Problem("networkInterfaces", "At least one network interface is required.")


def scopes(account: Any) -> Iterator[Problem]:
    for index, scope in enumerate(rows(table(account).get("scopes"))):
        if isinstance(scope, str) and scope not in SCOPES and not scope.startswith("https://"):
            # The API's message (github.com/GoogleCloudPlatform/cloud-build-local/pull/49).
            yield Problem(
                f"serviceAccount.scopes[{index}]",
                f"One or more of the service account scopes are invalid: '{scope}'",
                "such as cloud-platform, or https://www.googleapis.com/auth/cloud-platform",
            )


def confidential(machine_type: MachineType, has_gpu: bool, config_input: Any) -> Iterator[Problem]:
    config = table(config_input)
    # Discovery document compute v1, ConfidentialInstanceConfig: the default is AMD SEV.
    kind = config.get("confidentialInstanceType") or ("SEV" if config.get("enableConfidentialCompute") is True else "")
    usable = CONFIDENTIAL.get(kind) if isinstance(kind, str) else None
    if has_gpu and usable is not None and machine_type.name not in usable:
        only = f"only {' and '.join(usable)} does" if usable else "none does"
        yield Problem(
            "confidentialInstanceConfig", f"{machine_type.name} does not support {kind}; of GPU machines {only}"
        )
