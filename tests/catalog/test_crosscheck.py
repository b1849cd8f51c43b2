"""The catalog against what others publish, counted: what agrees, what differs and why, what nobody else has."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from gpu_catalog.upstream import crosscheck, disagreements
from gpu_catalog.upstream.comparison import Comparison, Difference
from gpu_catalog.upstream.crosscheck import comparisons

COMPARISONS = {each.name: each for each in comparisons()}
every_comparison = pytest.mark.parametrize("found", COMPARISONS.values(), ids=COMPARISONS)

# Comparison -> machines compared, of these in full agreement; facts that agree, that differ, that nobody could compare.
# A figure that moves means that the catalog or a pinned package has changed: look at docs/catalog-agreement.md first.
COUNTED = {
    "EC2 instance types": (83, 83, 83, 0, 0),
    "EKS AMI types": (23, 23, 23, 0, 0),
    "Instance types in detail": (65, 50, 570, 15, 162),
    "Regions by price list": (68, 56, 928, 53, 159),
    "Regions by offering": (65, 65, 858, 0, 99),
    "Cards": (17, 15, 31, 3, 12),
    "GPU memory of machines": (97, 62, 62, 35, 20),
    "Compute capabilities": (19, 19, 19, 0, 4),
    "GPUs attached to N1": (13, 13, 42, 0, 0),
}


def test_nothing_is_left_uncounted() -> None:
    assert list(COMPARISONS) == list(COUNTED)


@every_comparison
def test_so_much_agrees_and_no_more(found: Comparison) -> None:
    counted = (len(found.machines), found.whole, found.agreeing, len(found.differ), len(found.uncompared))
    assert counted == COUNTED[found.name]


@every_comparison
def test_every_difference_is_a_known_one_and_every_known_one_is_there(found: Comparison) -> None:
    expected = disagreements.expected(found)
    assert Counter(expected) == Counter(found.differ)


@every_comparison
def test_no_explanation_is_left_over(found: Comparison) -> None:
    idle = [each for each in disagreements.explanations(found) if not list(each.differences(found.machines))]
    assert idle == []
    unmatched = [
        (each.machines, pattern)
        for each in disagreements.explanations(found)
        for pattern in each.machines
        if not list(replace(each, machines=(pattern,)).differences(found.machines))
    ]
    assert unmatched == []


def test_every_explanation_belongs_to_a_comparison() -> None:
    assert {name for each in disagreements.disagreements() for name in each.checks} <= set(COMPARISONS)


def test_what_could_not_be_compared_has_a_reason() -> None:
    reasons = Counter(each.reason for found in comparisons() for each in found.uncompared)
    assert reasons == {
        "moto recorded no such instance type": 162,
        "known by name only, the catalog gives it no regions": 164,
        "the region is not in cfn-lint's table": 8,
        "moto recorded no answer of the region": 84,
        "neither names a region": 2,
        "gpuhunt does not list the card": 32,
        "NVIDIA's pages do not list the card": 4,
    }


def test_every_aws_machine_of_the_catalog_is_compared_or_counted_as_missing() -> None:
    names = {machine.machine_type for machine in crosscheck.aws()}
    assert len(names) == 83
    for found in comparisons():
        if found.name in ("EC2 instance types", "Instance types in detail", "Regions by price list"):
            assert found.machines | {each.machine for each in found.uncompared} == names


def test_a_fact_that_differs_is_neither_counted_as_agreeing_nor_lost() -> None:
    found = Comparison("x", "y", "z")
    found.compare("g5.xlarge", "vCPUs", 4, 4)
    found.compare("g5.xlarge", "GPUs", 1, 2)
    found.compare("g6.xlarge", "us-east-1", True, True, "region")
    assert found.agree == {"vCPUs": 1, "GPUs": 0, "region": 1}
    assert found.differ == [Difference("g5.xlarge", "GPUs", 1, 2)]
    assert (found.agreeing, found.whole, found.machines) == (2, 1, {"g5.xlarge", "g6.xlarge"})
