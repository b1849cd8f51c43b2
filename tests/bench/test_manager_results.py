"""The pages of the simulation show the numbers that are kept in bench/results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.manager import compare, report, standby, sweep

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs/how-it-works"
PAGE = (FOLDER / "runner-manager-simulation.md").read_text()
TABLES = (FOLDER / "runner-manager-simulation-data.md").read_text()
LOAD = (FOLDER / "runner-manager-load.md").read_text()
KEPT = ["runner-manager-synthetic.json", "runner-manager-recorded.json", "runner-manager-depth-2.json"]


def kept(name: str) -> list[report.Total]:
    content = json.loads((ROOT / "bench/results" / name).read_text())
    return [report.Total(**row) for row in content["rows"]]


@pytest.mark.parametrize("name", KEPT)
def test_the_page_has_the_table_of_the_kept_numbers(name: str) -> None:
    totals = kept(name)
    assert report.markdown(totals) in TABLES
    for line in report.against_peers(totals):
        assert f"- {line}\n" in TABLES


@pytest.mark.parametrize("name", KEPT)
def test_the_kept_numbers_are_of_the_policies_that_the_simulation_has(name: str) -> None:
    assert [(total.row, total.markets, total.ours, total.keeps_machines) for total in kept(name)] == [
        (row.name, row.markets, row.ours, row.keeps_machines) for row in compare.rows()
    ]


def test_the_page_has_the_table_of_the_numbers_of_stopped_machines() -> None:
    found = standby.read(ROOT / "bench/results/runner-manager-standby.json")
    assert [each.setting for each in found] == list(standby.SETTINGS)
    assert standby.markdown(found) in PAGE


def test_with_standby_a_job_waits_half_as_long_as_with_runs_on_at_no_more_cost() -> None:
    """The page states the goal, and which goals are not reached."""
    totals = {total.row: total for total in kept("runner-manager-synthetic.json") if total.markets == "spot, standard"}
    peer, pool = totals["RunsOn"], totals[f"RunsOn, pool of {compare.STANDBY} stopped"]
    for name in (f"gpu-ci, three regions, standby {compare.STANDBY}{hint}" for hint in ("", ", hint")):
        assert totals[name].median_sec <= 0.5 * peer.median_sec
        assert totals[name].usd_per_job_hour <= peer.usd_per_job_hour
        assert totals[name].median_sec > pool.median_sec
        assert totals[name].usd_per_job_hour < 0.7 * pool.usd_per_job_hour


def test_the_page_has_the_measured_passes() -> None:
    rows = json.loads((ROOT / "bench/results/runner-manager-sweep.json").read_text())
    found = [sweep.Measured(**{**row, "size": sweep.Size(**row["size"])}) for row in rows]
    assert sweep.markdown(found) in LOAD
    assert found[0].size == sweep.SIZES[0]
    assert max(found[0].first_cpu_sec, found[0].cpu_sec) < sweep.GOAL_CPU_SEC
    assert all(each.counted_an_hour < 5000 for each in found)


def test_the_short_table_has_the_numbers_of_the_complete_one() -> None:
    complete = [row.strip("| ").split(" | ") for row in report.markdown(kept(KEPT[0])).splitlines()[2:]]
    numbers = {(cells[0], cells[1]): (cells[2], cells[3], cells[-1]) for cells in complete}
    short = PAGE.partition("| policy | median wait | 95th percentile |")[2].partition("\n\n")[0].splitlines()[2:]
    rows = [row.strip("| ").split(" | ") for row in short]
    assert len(rows) == 9
    for name, median, p95, cost, _ in rows:
        policy, standard, _ = name.partition(", standard VMs")
        assert numbers[policy, "standard" if standard else "spot, standard"] == (median, p95, cost)
