"""The numbers that are kept in bench/results, and that docs/how-it-works/runner-manager.md cites."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.manager import compare, report

ROOT = Path(__file__).resolve().parents[2]
KEPT = ["runner-manager-synthetic.json", "runner-manager-recorded.json", "runner-manager-depth-2.json"]


def kept(name: str) -> list[report.Total]:
    content = json.loads((ROOT / "bench/results" / name).read_text())
    return [report.Total(**row) for row in content["rows"]]


@pytest.mark.parametrize("name", KEPT)
def test_the_kept_numbers_are_of_the_policies_that_the_simulation_has(name: str) -> None:
    assert [(total.row, total.markets, total.ours, total.keeps_machines) for total in kept(name)] == [
        (row.name, row.markets, row.ours, row.keeps_machines) for row in compare.rows()
    ]


def test_with_standby_a_job_waits_half_as_long_as_with_runs_on_at_no_more_cost() -> None:
    totals = {total.row: total for total in kept("runner-manager-synthetic.json") if total.markets == "spot, standard"}
    peer, pool = totals["RunsOn"], totals[f"RunsOn, pool of {compare.STANDBY} stopped"]
    for name in (f"gpu-ci, three regions, standby {compare.STANDBY}{hint}" for hint in ("", ", hint")):
        assert totals[name].median_sec <= 0.5 * peer.median_sec
        assert totals[name].usd_per_job_hour <= peer.usd_per_job_hour
        assert totals[name].median_sec > pool.median_sec
        assert totals[name].usd_per_job_hour < 0.7 * pool.usd_per_job_hour
