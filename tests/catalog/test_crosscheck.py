"""The catalog compared with published data: facts that agree, that differ with a reason, and that no source has."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from gpu_catalog.upstream import crosscheck, disagreements
from gpu_catalog.upstream.comparison import Comparison, Difference
from gpu_catalog.upstream.crosscheck import comparisons


def test_every_comparison_has_facts_that_agree() -> None:
    """The numbers are on docs/reference/catalog-agreement.md, which a test keeps up to date."""
    assert len(comparisons()) == len({found.name for found in comparisons()}) == 9
    assert [found.name for found in comparisons() if not found.agreeing or found.whole < 10] == []


def test_every_difference_is_an_explained_one_and_every_explained_one_exists() -> None:
    found = {each.name: Counter(each.differ) for each in comparisons()}
    assert found == {each.name: Counter(disagreements.expected(each)) for each in comparisons()}


def test_no_explanation_is_left_over() -> None:
    unmatched = [
        (found.name, each.machines, pattern)
        for found in comparisons()
        for each in disagreements.explanations(found)
        for pattern in each.machines
        if not list(replace(each, machines=(pattern,)).differences(found.machines))
    ]
    assert unmatched == []


def test_every_explanation_belongs_to_a_comparison() -> None:
    names = {found.name for found in comparisons()}
    assert {name for each in disagreements.disagreements() for name in each.checks} <= names


def test_each_fact_that_could_not_be_compared_has_a_reason() -> None:
    reasons = {each.reason for found in comparisons() for each in found.uncompared}
    assert reasons == {
        "moto has no recorded answer for the instance type",
        "the catalog has only the name of the type, without regions",
        "the region is not in cfn-lint's table",
        "moto has no recorded answer for the region",
        "neither the catalog nor the source names a region",
        "gpuhunt does not list the card",
        "NVIDIA's pages do not list the card",
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
