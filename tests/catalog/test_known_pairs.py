"""Setups that are known not to work, each refused by its rule and repaired by its fix; and setups that work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from gpu_catalog import data_files, queries, solver
from gpu_catalog.solver import Refused

HERE = Path(__file__).parent


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


def test_every_known_bad_setup_is_refused_by_its_rules_and_its_fix_is_accepted() -> None:
    wrong = {}
    for row in BAD:
        verdict = solver.check(**choices(row))
        rules = [problem.rule for problem in verdict.problems] if isinstance(verdict, Refused) else []
        after = solver.check(**{**choices(row), **with_machine(row["fix"])})
        if rules != row["rules"] or not after.works:
            wrong[name_of(row)] = (rules, after)
    assert wrong == {}


def test_each_problem_of_a_known_bad_setup_comes_with_a_text_a_source_and_a_fix_that_works() -> None:
    wrong = []
    for row in BAD:
        verdict = solver.check(**choices(row))
        assert isinstance(verdict, Refused), row["why"]
        for problem in verdict.problems:
            complete = problem.fix and problem.source and problem.text
            if not complete or not solver.check_setup(verdict.setup.changed(problem.fix or {})).works:
                wrong.append((name_of(row), problem))
    assert wrong == []


def test_every_known_good_setup_is_accepted() -> None:
    verdicts = {name_of(row): solver.check(**choices(row)) for row in GOOD}
    assert {name: each.reason for name, each in verdicts.items() if isinstance(each, Refused)} == {}


def test_every_rule_has_a_known_bad_setup() -> None:
    """Rules of names and wrong clouds, which no issue is about, are in test_solver.py."""
    seen = {rule for row in BAD for rule in row["rules"]}
    assert {row["rule"] for row in data_files.rows("driver_rules")} - seen <= {"source.ami"}
