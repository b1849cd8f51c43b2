"""Setups known from issue trackers, as pools of a stack file: the bad ones are refused in the preview, with the fix."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

import pytest
from gpu_catalog import solver
from gpu_ci.gcp.runner_pool import RunnerPoolArgs

from tests.catalog.test_known_pairs import BAD, GOOD, choices, name_of, with_machine
from tests.gpu_ci.gcp.as_pool import as_pool

# The solver's choices, and where a pool's stack file has what is wrong with them.
FIELDS = {
    "machine": ("machineType", "driver"),
    "market": ("market",),
    "zone": ("zones",),
    "boot_disk": ("diskType",),
    "nic": ("nicType",),
    "driver_source": ("driver", "image"),
    "driver_branch": ("driver", "image", "torch"),
    "torch": ("torch",),
}
# What a rule is about, by the beginning of its name.
CHOICES = {
    "torch": "torch",
    "driver": "driver_branch",
    "source": "driver_source",
    "market": "market",
    "zone": "zone",
    "boot-disk": "boot_disk",
    "nic": "nic",
    "machine": "machine",
}

Pools: TypeAlias = list[tuple[dict[str, Any], dict[str, Any]]]

# A thread of an issue tracker, as a row's source names it: owner/repository#number.
THREAD = re.compile(r"[\w.-]+/[\w.-]+#\d+")


@pytest.fixture(scope="module")
def bad_pools() -> Pools:
    """Each bad row that can be written as a pool, and the pool."""
    return [(row, pool) for row in BAD if (pool := as_pool(row))]


@pytest.fixture(scope="module")
def good_pools() -> Pools:
    return [(row, pool) for row in GOOD if (pool := as_pool(row))]


def rendered(pool: dict[str, Any] | None) -> list[str]:
    return [problem.render("pool") for problem in RunnerPoolArgs.choice_problems(pool or {})]


def test_enough_of_each_can_be_written_as_a_pool_and_come_from_issue_trackers(
    bad_pools: Pools, good_pools: Pools
) -> None:
    assert len([row for row, _ in bad_pools if THREAD.search(row["source"])]) >= 60
    assert len(good_pools) >= 60


def test_known_bad_pools_are_refused_where_they_are_wrong_with_what_would_work(bad_pools: Pools) -> None:
    assert {name_of(row): fault for row, pool in bad_pools if (fault := _fault(row, pool))} == {}


def _fault(row: dict[str, Any], pool: dict[str, Any]) -> str:
    """Return the differences of the report on a bad pool from the expected one; empty without differences."""
    found = RunnerPoolArgs.choice_problems(pool)
    report = "\n".join(problem.render("pool") for problem in found)
    fields = {problem.path.split(".")[0].split("[")[0] for problem in found}
    for rule in row["rules"]:
        if not fields & {*FIELDS[CHOICES[rule.split(".")[0]]]}:
            return f"{rule} has no problem at its field\n{report}"
    descriptions = {field.description for field in RunnerPoolArgs.model_fields.values()}
    for problem in found:
        # The description of the field is in every problem; what would work is more than that.
        if not problem.hint and (not problem.expected or problem.expected in descriptions):
            return f"{problem.path} does not say what would work\n{report}"
    if {"torch", "driver"} & {rule.split(".")[0] for rule in row["rules"]}:
        text = " ".join(problem.text for problem in found)
        answer = solver.check(**choices(row))
        if not isinstance(answer, solver.Refused):
            return "the catalog accepts it"
        if "fraction" not in text and not any(problem.text in text for problem in answer.problems):
            return f"the text is not the catalog's\n{report}"
    return ""


def test_the_fix_of_a_known_bad_pool_is_accepted(bad_pools: Pools) -> None:
    wrong = {}
    for row, pool in bad_pools:
        fixed = as_pool({**row, **with_machine(row["fix"])})
        if fixed is None or fixed == pool or rendered(fixed):
            wrong[name_of(row)] = rendered(fixed)
    assert wrong == {}


def test_known_good_pools_are_accepted(good_pools: Pools) -> None:
    assert {name_of(row): problems for row, pool in good_pools if (problems := rendered(pool))} == {}
