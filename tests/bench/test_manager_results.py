"""docs/runner-manager-simulation.md shows the numbers that are kept in bench/results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.manager import compare, report

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/runner-manager-simulation.md").read_text()


def kept(name: str) -> list[report.Total]:
    content = json.loads((ROOT / "bench/results" / name).read_text())
    return [report.Total(**row) for row in content["rows"]]


@pytest.mark.parametrize("name", ["runner-manager-synthetic.json", "runner-manager-recorded.json"])
def test_the_page_has_the_table_of_the_kept_numbers(name: str) -> None:
    totals = kept(name)
    assert report.markdown(totals) in PAGE
    for line in report.against_peers(totals):
        assert f"- {line}\n" in PAGE


@pytest.mark.parametrize("name", ["runner-manager-synthetic.json", "runner-manager-recorded.json"])
def test_the_kept_numbers_are_of_the_policies_that_the_simulation_has(name: str) -> None:
    assert [(total.row, total.markets, total.ours) for total in kept(name)] == [
        (row.name, row.markets, row.ours) for row in compare.rows()
    ]
