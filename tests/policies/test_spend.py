"""spend-ceiling."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_catalog.prices import price
from gpu_ci_policies.properties import UNKNOWN
from gpu_ci_policies.rule import Resource, RuleContext

from .support import BY_NAME, TODAY

STACK, NODES = "pulumi:pulumi:Stack", "aws:eks/nodeGroup:NodeGroup"
MACHINE, GCE = "aws:ec2/instance:Instance", "gcp:compute/instance:Instance"


def spend(ceiling: float | None, *resources: tuple[str, dict[str, Any]]) -> list[str]:
    rule = BY_NAME["spend-ceiling"]
    assert rule.check_stack is not None
    settings = rule.defaults if ceiling is None else rule.defaults | {"maxUsdPerHour": ceiling}
    return list(
        rule.check_stack([Resource(kind, "x", "urn", props) for kind, props in resources], RuleContext(settings, TODAY))
    )


def usd(machine: str, region: str, market: str) -> float:
    found = price(machine, region, market)
    assert found is not None
    return found.usd_per_hour


def nodes(most: Any, **given: Any) -> tuple[str, dict[str, Any]]:
    props = {"instanceTypes": ["g5.2xlarge", "g5.8xlarge"], "region": "us-east-1", "capacityType": "SPOT"}
    return NODES, {**props, "scalingConfig": {"maxSize": most}, **given}


def test_a_group_of_nodes_costs_its_most_at_the_most_expensive_type() -> None:
    most = 2 * usd("g5.8xlarge", "us-east-1", "spot")
    assert spend(most - 0.01, nodes(2)) == [
        f"the stack may cost at least {most:.2f} USD an hour, and maxUsdPerHour is {most - 0.01:.2f}"
    ]
    assert spend(most, nodes(2)) == []


def test_on_demand_is_dearer_than_spot() -> None:
    spot, standard = (usd("g5.8xlarge", "us-east-1", market) for market in ("spot", "standard"))
    ceiling = (spot + standard) / 2
    assert len(spend(ceiling, nodes(1, capacityType="ON_DEMAND"))) == 1
    assert spend(ceiling, nodes(1)) == []


def test_machines_add_up() -> None:
    machines = [
        (MACHINE, {"instanceType": "g5.2xlarge", "region": "us-east-1"}),
        (GCE, {"machineType": "g2-standard-8", "zone": "us-central1-a", "scheduling": {"provisioningModel": "SPOT"}}),
    ]
    both = usd("g5.2xlarge", "us-east-1", "standard") + usd("g2-standard-8", "us-central1", "spot")
    assert len(spend(both - 0.01, *machines)) == 1
    assert spend(both, *machines) == []


def test_the_programs_own_cost_counts_if_it_is_higher() -> None:
    stack = (STACK, {"cost": {"usdPerHourAtMax": 4.6, "atLeast": True}})
    assert spend(3, stack) == ["the stack may cost at least 4.60 USD an hour, and maxUsdPerHour is 3.00"]
    assert spend(4.6, stack) == []
    low = (STACK, {"cost": {"usdPerHourAtMax": 0.1}})
    assert len(spend(0.5, low, nodes(2))) == 1, "a program is not believed that says less than its resources show"


@pytest.mark.parametrize(
    "resources",
    [
        [nodes(UNKNOWN)],
        [nodes(2, instanceTypes=UNKNOWN)],
        [nodes(2, instanceTypes=[UNKNOWN, "m5.large"])],
        [nodes(2, region=UNKNOWN)],
        [(STACK, {"cost": UNKNOWN})],
        [(STACK, {"cost": {"usdPerHourAtMax": "unknown"}})],
        [(GCE, {"machineType": UNKNOWN, "zone": UNKNOWN})],
        [("gcp:compute/reservation:Reservation", {"machineType": "g2-standard-8", "zone": "us-central1-a"})],
    ],
)
def test_a_resource_that_is_unknown_or_has_no_price_counts_as_free(resources: list[tuple[str, dict[str, Any]]]) -> None:
    assert spend(0, *resources) == []


def test_without_a_ceiling_the_rule_reports_nothing() -> None:
    assert spend(None, nodes(100)) == []
