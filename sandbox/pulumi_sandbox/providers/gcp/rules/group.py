"""Check rules for managed instance groups that no schema contains, each with its source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import gpu_catalog

from pulumi_sandbox.providers.gcp.compute import machine_types
from pulumi_sandbox.providers.gcp.names import last, region_of
from pulumi_sandbox.providers.gcp.rules.template import attached
from pulumi_sandbox.providers.inputs import is_known, rows, table
from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.providers.values import UNKNOWN

# Discovery document compute v1, InstanceGroupManager.baseInstanceName.
BASE_NAME = r"[a-z](([-a-z0-9]{0,57})|([-a-z0-9]{0,51}-#{1,10}(\[[0-9]{1,10}\])?))"
# Google Cloud documentation "About regional MIGs" (docs.cloud.google.com/compute/docs/instance-groups/regional-migs):
# a group without chosen zones is distributed over three zones.
DEFAULT_ZONES = 3
WITHOUT_REDISTRIBUTION = ("ANY", "ANY_SINGLE_ZONE", "BALANCED")


def group(inputs: dict[str, Any], region: str = "") -> Iterator[Problem]:
    """Check a managed instance group; `region` is empty for a zonal group."""
    base = inputs.get("baseInstanceName")
    if isinstance(base, str) and not re.fullmatch(BASE_NAME, base):
        yield Problem("baseInstanceName", f'"baseInstanceName" ("{base}") doesn\'t match regexp "^{BASE_NAME}$"')
    for name in ("targetSize", "targetStoppedSize", "targetSuspendedSize"):
        size = inputs.get(name)
        if isinstance(size, int | float) and size < 0:
            yield Problem(name, f"expected {name} to be at least 0, got {size:g}")
    for policy in ("autoHealingPolicies", "standbyPolicy"):
        delay = table(inputs.get(policy)).get("initialDelaySec")
        if isinstance(delay, int | float) and not 0 <= delay <= 3600:
            # terraform-provider-google e03b7622: IntBetween(0, 3600), for both.
            yield Problem(
                f"{policy}.initialDelaySec", f"expected initialDelaySec to be in the range (0 - 3600), got {delay:g}"
            )
    yield from surge(inputs, region)
    if region:
        yield from shape(inputs)
        yield from zones(inputs, region)


def shape(inputs: dict[str, Any]) -> Iterator[Problem]:
    # Google Cloud documentation "Regional MIG distribution shapes"
    # (docs.cloud.google.com/compute/docs/instance-groups/regional-mig-distribution-shape): proactive redistribution,
    # on by default, requires the shape EVEN. Two versions at once also require EVEN.
    shape_input = inputs.get("distributionPolicyTargetShape")
    if shape_input not in WITHOUT_REDISTRIBUTION:
        return
    policy = inputs.get("updatePolicy")
    if policy is not UNKNOWN and table(policy).get("instanceRedistributionType") not in ("NONE", UNKNOWN):
        yield Problem(
            "updatePolicy.instanceRedistributionType",
            f"must be NONE when distributionPolicyTargetShape is {shape_input} (the default is PROACTIVE)",
            "set instanceRedistributionType to NONE",
        )
    versions = rows(inputs.get("versions"))
    if len(versions) > 1:
        yield Problem(
            "versions", f"expected one version when distributionPolicyTargetShape is {shape_input}, got {len(versions)}"
        )


def surge(inputs: dict[str, Any], region: str) -> Iterator[Problem]:
    policy = table(inputs.get("updatePolicy"))
    for field in ("maxSurge", "maxUnavailable"):
        fixed, percent = policy.get(f"{field}Fixed"), policy.get(f"{field}Percent")
        if is_known(fixed) and is_known(percent):
            yield Problem(f"updatePolicy.{field}Fixed", f'"{field}Fixed": conflicts with {field}Percent')
        if isinstance(percent, int | float) and not 0 <= percent <= 100:
            # terraform-provider-google e03b7622, resource_compute_region_instance_group_manager.go: IntBetween(0, 100).
            name = f"{field}Percent"
            yield Problem(f"updatePolicy.{name}", f"expected {name} to be in the range (0 - 100), got {percent:g}")
        count = len(rows(inputs.get("distributionPolicyZones"))) or DEFAULT_ZONES
        if inputs.get("distributionPolicyZones") is UNKNOWN:
            continue
        if region and isinstance(fixed, int | float) and 0 < fixed < count:
            # The API's message, from Google's documentation of rolling updates for regional groups.
            yield Problem(
                f"updatePolicy.{field}Fixed",
                f"Invalid value for field 'resource.updatePolicy.{field}': '{fixed:g}'. Fixed updatePolicy.{field} "
                "for regional managed instance group has to be either 0 or at least equal to the number of zones "
                f"({count}).",
            )
    if policy.get("maxSurgeFixed") == 0 and policy.get("maxUnavailableFixed") == 0:
        # Discovery document compute v1, InstanceGroupManagerUpdatePolicy.maxSurge.
        yield Problem(
            "updatePolicy", "At least one of either maxSurgeFixed or maxUnavailableFixed must be greater than 0"
        )


def zones(inputs: dict[str, Any], region: str) -> Iterator[Problem]:
    for index, zone in enumerate(rows(inputs.get("distributionPolicyZones"))):
        if isinstance(zone, str) and region_of(zone) != region:
            yield Problem(
                f"distributionPolicyZones[{index}]", f"zone {last(zone)} is not in region {region}, where the group is"
            )


def unavailable_machine(inputs: dict[str, Any], template: dict[str, Any], region: str, zone: str = "") -> str:
    """Return the reason why the template's machines cannot run in the group's zones; empty if they can."""
    machine_type = machine_types.machine(machine_types.short(str(template.get("machineType"))))
    if machine_type is None:
        return ""
    offer = machine_types.offer_of(machine_type, attached(template))
    if offer is None:
        return ""
    product = machine_type.name if machine_type.accelerator else attached(template)
    group_zones = [last(one) for one in rows(inputs.get("distributionPolicyZones")) if isinstance(one, str)]
    group_zones = group_zones or [zone] * bool(zone)
    missing = [one for one in group_zones if not offer.is_in(one)]
    if missing:
        zones_with_product = ", ".join(gpu_catalog.zones(offer, region)) or "none"
        return (
            f"{product} is not available in {', '.join(missing)}; zones of {region} that have it: {zones_with_product}"
        )
    return "" if machine_type.accelerator else too_large(machine_type, template, group_zones)


def too_large(machine_type: machine_types.MachineType, template: dict[str, Any], group_zones: list[str]) -> str:
    """Return the problem if an N1 machine type is too large for its attached GPUs.

    The limits differ by zone (gpu_catalog).
    """
    for row in rows(template.get("guestAccelerators")):
        accelerator, count = attached(template), int(table(row).get("count") or 0)
        limit = machine_types.n1_limit(accelerator, count, group_zones)
        if limit and ((machine_type.vcpus or 0) > limit[0] or (machine_type.memory_gb or 0) > limit[1]):
            return (
                f"{machine_type.name} ({machine_type.vcpus} vCPUs, {machine_type.memory_gb:g} GB) is larger than "
                f"{count} x {accelerator} allows there: {limit[0]} vCPUs, {limit[1]} GB"
            )
    return ""
