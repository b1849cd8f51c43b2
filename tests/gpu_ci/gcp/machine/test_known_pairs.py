"""Setups known from issue trackers, as pools of a stack file: the bad ones are refused in the preview, with the fix."""

from __future__ import annotations

import re
from typing import Any

import pytest
from gpu_catalog import solver
from gpu_ci.errors import Problem
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

# A thread of an issue tracker, as a row's source names it: owner/repository#number.
THREAD = re.compile(r"[\w.-]+/[\w.-]+#\d+")

BAD_POOLS = [(row, pool) for row in BAD if (pool := as_pool(row))]
GOOD_POOLS = [(row, pool) for row in GOOD if (pool := as_pool(row))]


def problems(pool: dict[str, Any]) -> list[Problem]:
    return RunnerPoolArgs.choice_problems(pool)


def test_enough_of_each_can_be_written_as_a_pool() -> None:
    assert len(BAD_POOLS) >= 60
    assert len(GOOD_POOLS) >= 60


def test_enough_of_the_bad_pools_come_from_issue_trackers() -> None:
    cited = [row for row, _ in BAD_POOLS if THREAD.search(row["source"])]
    assert len(cited) >= 60


@pytest.mark.parametrize(("row", "pool"), BAD_POOLS, ids=[name_of(row) for row, _ in BAD_POOLS])
def test_a_known_bad_pool_is_refused_where_it_is_wrong_and_told_what_would_do(
    row: dict[str, Any], pool: dict[str, Any]
) -> None:
    found = problems(pool)
    at = {problem.path.split(".")[0].split("[")[0] for problem in found}
    for rule in row["rules"]:
        assert at & {*FIELDS[CHOICES[rule.split(".")[0]]]}, (rule, [problem.render("pool") for problem in found])
    for problem in found:
        field = next(
            f for f in RunnerPoolArgs.model_fields.values() if f.alias == problem.path.split(".")[0].split("[")[0]
        )
        # What the field is for is told with any mistake; what would do is more than that.
        own = problem.expected if problem.expected != field.description else ""
        assert problem.hint or own, problem.render("pool")
    if {"torch", "driver"} & {rule.split(".")[0] for rule in row["rules"]}:
        said = " ".join(problem.text for problem in found)
        answer = solver.check(**choices(row))
        assert isinstance(answer, solver.Refused)
        assert "fraction" in said or any(problem.text in said for problem in answer.problems), said


@pytest.mark.parametrize(("row", "pool"), BAD_POOLS, ids=[name_of(row) for row, _ in BAD_POOLS])
def test_its_fix_makes_a_pool_that_is_accepted(row: dict[str, Any], pool: dict[str, Any]) -> None:
    mended = as_pool({**row, **with_machine(row["fix"])})
    assert mended is not None
    assert mended != pool
    assert [problem.render("pool") for problem in problems(mended)] == []


@pytest.mark.parametrize(("row", "pool"), GOOD_POOLS, ids=[name_of(row) for row, _ in GOOD_POOLS])
def test_a_known_good_pool_is_accepted(row: dict[str, Any], pool: dict[str, Any]) -> None:
    assert [problem.render("pool") for problem in problems(pool)] == []
