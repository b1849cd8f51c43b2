"""The list of what the emulation enforces names files and tests that exist."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from tools.docs.emulation_page import Enforced, areas

ROOT = Path(__file__).resolve().parents[2]


@cache
def names_of_tests(file: Path) -> set[str]:
    if not file.is_file():
        return set()
    return {node.name for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef)}


def rows() -> list[tuple[str, Enforced]]:
    return [(area, row) for area, content in areas().items() for row in content.enforced]


def test_every_behaviour_is_enforced_by_a_file_that_exists() -> None:
    assert rows(), "no area lists an enforced behaviour"
    assert [f"{area}: {row.where}" for area, row in rows() if not (ROOT / row.where).is_file()] == []


def test_every_behaviour_names_tests_that_exist() -> None:
    missing = []
    for area, row in rows():
        for test in row.tests:
            file, _, name = test.partition("::")
            if name.partition("[")[0] not in names_of_tests(ROOT / file):
                missing.append(f"{area}: {test}")
    assert missing == []
