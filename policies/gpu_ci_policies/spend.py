"""The rule on the maximum cost of a stack by the hour, with all machines that it may start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .properties import at, entries, number
from .rule import Resource, Rule, RuleContext

STACK = "pulumi:pulumi:Stack"


def over_ceiling(resources: Sequence[Resource], context: RuleContext) -> Iterator[str]:
    ceiling = context.settings.get("maxUsdPerHour")
    if ceiling is None:
        return
    counted = sum(filter(None, map(usd_per_hour, resources)))
    # The properties of a Compute Engine group do not contain the maximum number of its machines, but gpu-ci exports the
    # cost of its pools. The higher cost counts: the exported cost or the sum over the resources.
    declared = max(
        (number(at(each.props, "cost", "usdPerHourAtMax")) or 0.0 for each in stacks(resources)), default=0.0
    )
    usd = max(counted, declared)
    if usd > ceiling:
        yield f"the stack may cost at least {usd:.2f} USD an hour, and maxUsdPerHour is {ceiling:.2f}"


def stacks(resources: Sequence[Resource]) -> list[Resource]:
    return [each for each in resources if each.type == STACK]


def usd_per_hour(resource: Resource) -> float | None:
    """Return the maximum cost of a resource, or None if its properties do not show it or a price is unknown."""
    props = resource.props
    if resource.type == "aws:eks/nodeGroup:NodeGroup":
        types, most = entries(props, "instanceTypes"), number(at(props, "scalingConfig", "maxSize"))
        market = "spot" if at(props, "capacityType") == "SPOT" else "standard"
        return highest_price(types, at(props, "region"), market, most)
    if resource.type == "aws:ec2/instance:Instance":
        return highest_price([at(props, "instanceType")], at(props, "region"), "standard", 1)
    if resource.type == "gcp:compute/instance:Instance":
        zone = at(props, "zone")
        region = zone.rpartition("-")[0] if isinstance(zone, str) else ""
        spot = at(props, "scheduling", "provisioningModel") == "SPOT"
        return highest_price([at(props, "machineType")], region, "spot" if spot else "standard", 1)
    return None


def highest_price(types: Sequence[object], region: object, market: str, count: float | None) -> float | None:
    from gpu_catalog.errors import UnknownName
    from gpu_catalog.prices import price

    found = []
    for name in types:
        if isinstance(name, str) and isinstance(region, str):
            try:
                listed = price(name, region, market)
            except UnknownName:
                continue  # a machine that is not in the catalog, such as one without a GPU
            if listed:
                found.append(listed.usd_per_hour)
    return max(found) * count if found and count is not None else None


RULES = (
    Rule(
        name="spend-ceiling",
        title="The maximum cost of a stack per hour is at most maxUsdPerHour.",
        why="max of a pool is one line of a stack file, and the line shows no price.",
        fix="Lower max of a pool, or agree on a higher maxUsdPerHour.",
        sources=("catalog/gpu_catalog/data/prices.json", "docs/guides/catalog.md"),
        check_stack=over_ceiling,
        needs_catalog=True,
        settings={
            "maxUsdPerHour": {
                "type": "number",
                "minimum": 0,
                "description": "Maximum cost in USD an hour; without it, the rule is not checked.",
            }
        },
    ),
)
