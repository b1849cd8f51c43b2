"""Check rules for managed instance groups that no schema contains, each with its source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gpu_catalog

from pulumi_sandbox.providers.gcp.compute import machine_types
from pulumi_sandbox.providers.gcp.names import last, region_of
from pulumi_sandbox.providers.gcp.rules.template import attached
from pulumi_sandbox.providers.inputs import rows, table
from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.providers.values import UNKNOWN

# Google Cloud documentation "About regional MIGs" (docs.cloud.google.com/compute/docs/instance-groups/regional-migs):
# a group without chosen zones is distributed over three zones.
DEFAULT_ZONES = 3
WITHOUT_REDISTRIBUTION = ("ANY", "ANY_SINGLE_ZONE", "BALANCED")


def group(inputs: dict[str, Any], region: str) -> Iterator[Problem]:
    """Check a regional managed instance group."""
    policy, shape = inputs.get("updatePolicy"), inputs.get("distributionPolicyTargetShape")
    # Google Cloud documentation "Regional MIG distribution shapes" (docs.cloud.google.com/compute/docs/
    # instance-groups/regional-mig-distribution-shape): proactive redistribution, on by default, requires EVEN.
    redistribution = table(policy).get("instanceRedistributionType")
    if shape in WITHOUT_REDISTRIBUTION and policy is not UNKNOWN and redistribution not in ("NONE", UNKNOWN):
        yield Problem(
            "updatePolicy.instanceRedistributionType",
            f"must be NONE when distributionPolicyTargetShape is {shape} (the default is PROACTIVE)",
            "set instanceRedistributionType to NONE",
        )
    zones = inputs.get("distributionPolicyZones")
    count = len(rows(zones)) or DEFAULT_ZONES
    for field in ("maxSurge", "maxUnavailable") if zones is not UNKNOWN else ():
        fixed = table(policy).get(f"{field}Fixed")
        if isinstance(fixed, int | float) and 0 < fixed < count:
            # The API's message, from Google's documentation of rolling updates for regional groups.
            yield Problem(
                f"updatePolicy.{field}Fixed",
                f"Invalid value for field 'resource.updatePolicy.{field}': '{fixed:g}'. Fixed updatePolicy.{field} "
                "for regional managed instance group has to be either 0 or at least equal to the number of zones "
                f"({count}).",
            )
    for index, zone in enumerate(rows(zones)):
        if isinstance(zone, str) and region_of(zone) != region:
            text = f"zone {last(zone)} is not in region {region}, where the group is"
            yield Problem(f"distributionPolicyZones[{index}]", text)


def unavailable_machine(inputs: dict[str, Any], template: dict[str, Any], region: str, zone: str = "") -> str:
    """Return the reason why the template's machines cannot run in the group's zones; empty if they can."""
    machine_type = machine_types.machine(machine_types.short(str(template.get("machineType"))))
    offer = machine_types.offer_of(machine_type, attached(template)) if machine_type else None
    if machine_type is None or offer is None:
        return ""
    group_zones = [last(one) for one in rows(inputs.get("distributionPolicyZones")) if isinstance(one, str)]
    missing = [one for one in group_zones or [zone] * bool(zone) if not offer.is_in(one)]
    if not missing:
        return ""
    product = machine_type.name if machine_type.accelerator else attached(template)
    usable = ", ".join(gpu_catalog.zones(offer, region)) or "none"
    return f"{product} is not available in {', '.join(missing)}; zones of {region} that have it: {usable}"
