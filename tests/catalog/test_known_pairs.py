"""Setups known not to work, each refused by its rule and put right by its fix; and setups known to work."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from gpu_catalog import queries, solver
from gpu_catalog.solver import Refused

HERE = Path(__file__).parent
# An issue, a commit, or a document, and when.
SOURCE = re.compile(r".+(#\d+|@[0-9a-f]{7}|[./ ]).*, \d{4}(-\d{2})?(-\d{2})?|the .* rows above|the catalog's rows?")


def rows(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(HERE.joinpath(name).read_text(encoding="utf-8"))
    return found


def name_of(row: dict[str, Any]) -> str:
    return " ".join(str(value) for value in choices(row).values())


def choices(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in ("rules", "fix", "why", "source")}


def with_machine(change: dict[str, Any]) -> dict[str, Any]:
    return {k: queries.machine(v) if k == "machine" and isinstance(v, str) else v for k, v in change.items()}


BAD, GOOD = rows("known_bad.yaml"), rows("known_good.yaml")


@pytest.mark.parametrize("row", BAD, ids=name_of)
def test_a_known_bad_setup_is_refused_by_its_rule_and_its_fix_is_accepted(row: dict[str, Any]) -> None:
    verdict = solver.check(**choices(row))
    assert isinstance(verdict, Refused), row["why"]
    assert [problem.rule for problem in verdict.problems] == row["rules"]
    after = solver.check(**{**choices(row), **with_machine(row["fix"])})
    assert after.works, after


@pytest.mark.parametrize("row", BAD, ids=name_of)
def test_each_problem_of_a_known_bad_setup_comes_with_a_fix_that_works(row: dict[str, Any]) -> None:
    verdict = solver.check(**choices(row))
    assert isinstance(verdict, Refused)
    for problem in verdict.problems:
        assert problem.fix, problem
        assert problem.source
        assert problem.text
        assert solver.check_setup(verdict.setup.changed(problem.fix)).works, problem.hint


@pytest.mark.parametrize("row", GOOD, ids=name_of)
def test_a_known_good_setup_is_accepted(row: dict[str, Any]) -> None:
    verdict = solver.check(**choices(row))
    assert not isinstance(verdict, Refused), verdict.reason if isinstance(verdict, Refused) else ""


def test_there_are_enough_of_both_and_none_twice() -> None:
    assert len(BAD) >= 60
    assert len(GOOD) >= 60
    for known in (BAD, GOOD):
        names = [name_of(row) for row in known]
        assert sorted({name for name in names if names.count(name) > 1}) == []


@pytest.mark.parametrize("row", [*BAD, *GOOD], ids=name_of)
def test_each_has_a_source_with_a_date(row: dict[str, Any]) -> None:
    assert SOURCE.fullmatch(row["source"]), row["source"]


def test_every_rule_has_a_known_bad_setup() -> None:
    """Rules of names and wrong clouds, which no issue is about, are in test_solver.py."""
    seen = {rule for row in BAD for rule in row["rules"]}
    from gpu_catalog import data_files

    assert {row["rule"] for row in data_files.rows("driver_rules")} - seen <= {"source.ami"}
