"""The bill of four simulated weeks, with the query in DuckDB, and the records of the same machines."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from gpu_ci.cli.cost.bill import divide, sql
from gpu_ci.cli.cost.inputs import BillRow, read_bill
from gpu_ci.cli.mistakes import Mistakes
from gpu_ci.machine_records import MachineRecord

from tests.gpu_ci.cli.conftest import Ask
from tests.gpu_ci.cli.cost.google_bill import Bill, run, write
from tests.gpu_ci.cli.cost.simulated import machines, records
from tests.gpu_ci.cli.cost.test_bad_inputs import ROW
from tests.gpu_ci.cli.cost.test_report import line

SQL = sql("acme-billing.export.bill", "2026-10-01", "acme-ci")


@cache
def world() -> tuple[list[MachineRecord], Bill]:
    made = machines()
    return list(records(made)), write(made)


@pytest.fixture
def report(ask: Ask, tmp_path: Path) -> Any:
    """Writes the records and the result of the query, and returns the report in JSON."""

    def call(since: str, bill: Bill | None = None, but: int = 0) -> Any:
        own, billed = world()
        Path("records.jsonl").write_text("".join(f"{each.line()}\n" for each in own[but:]))
        Path("bill.json").write_text(json.dumps(run(SQL, (bill or billed).rows, tmp_path)))
        return ask("cost", "report", "records.jsonl", "--bill", "bill.json", "--since", since, "--json").json

    return call


def test_attributed_money_and_promotions_and_shared_money_are_the_bill(report: Any) -> None:
    _, bill = world()
    found = report("2026-10-05")
    assert sum(row["usd"] for row in found["rows"]) == pytest.approx(sum(bill.machines.values()), abs=1e-9)
    assert found["promotionsUsd"] == pytest.approx(-10, abs=1e-9)
    assert sum(found["sharedUsd"].values()) == pytest.approx(bill.shared, abs=1e-9)
    assert found["usd"] + found["promotionsUsd"] == pytest.approx(bill.total, abs=1e-9)
    assert list(found["sharedUsd"]) == ["Cloud Run", "Networking", "Cloud Logging", "Invoice"]
    parts = [row[f"{part}Usd"] for row in found["rows"] for part in ("job", "overhead", "lost", "idle")]
    assert min(parts) >= 0
    assert sum(parts) == pytest.approx(sum(bill.machines.values()), abs=1e-9)


def test_each_machine_has_its_own_bill_also_the_second_of_a_name(tmp_path: Path) -> None:
    own, bill = world()
    found = divide([BillRow.model_validate(row) for row in run(SQL, bill.rows, tmp_path)], own)
    of_machines = {each.key: bill.machines[each.id] for each in own}
    assert dict(found.usd) == pytest.approx(of_machines, abs=1e-9)
    assert len(of_machines) == 402


def test_a_build_that_names_a_machine_of_a_manager_does_not_get_its_bill() -> None:
    row = BillRow.model_validate(ROW | {"instance_id": "7", "cost": "5"})
    own = MachineRecord.model_validate(line(7))
    lies = [
        MachineRecord.model_validate(line(1, id="7", supplier=each)) for each in ("google-cloud-build", "kubernetes")
    ]
    for found in ([own, *lies], [*lies, own]):
        assert divide([row], found).usd == {own.key: 5.0}
    assert divide([row], lies).usd == {lies[0].key: 5.0}


def test_a_price_that_rose_in_one_region_is_warned_about(report: Any) -> None:
    found = report("2026-10-19")
    assert sum(found["sharedUsd"].values()) == pytest.approx(14 * 3 + 3.5 + 0.004 - 1.25), "of these days"
    begins = "the first record is of 2026-10-05: "
    [warning] = [each for each in found["warnings"] if not each.startswith(begins)]
    assert warning.startswith("spot machines in us-west1: the bill has 10.77 USD and the catalog 9.59 USD (+12.2%);")
    same_price = report("2026-10-19", write(machines(), dearer=1))["warnings"]
    assert [each for each in same_price if not each.startswith(begins)] == []


def test_money_of_machines_without_a_record_is_shared(report: Any) -> None:
    own, bill = world()
    found = report("2026-10-05", but=20)
    missing = sum(bill.machines[each.id] for each in own[:20])
    disks = found["sharedUsd"]["Compute Engine"]
    assert found["sharedUsd"]["machines without a record"] + disks == pytest.approx(missing, abs=1e-9)
    assert found["usd"] + found["promotionsUsd"] == pytest.approx(bill.total, abs=1e-9)


def test_a_machine_that_is_not_on_the_bill_yet_counts_with_the_catalogs_price(report: Any) -> None:
    own, bill = world()
    late = own[3]
    rows = [row for row in bill.rows if row["resource"]["name"] != late.machine]
    found = report("2026-10-05", Bill(rows=rows))
    expected = sum(bill.machines.values()) - bill.machines[late.id] + (late.usd or 0)
    assert found["total"]["usd"] == pytest.approx(expected, abs=1e-9)
    assert f"1 machine not on the bill: counted with the catalog's {late.usd:.2f} USD" in found["warnings"]


def test_the_query_reads_one_project_from_a_day_on_and_converts_to_usd(tmp_path: Path) -> None:
    [tax] = [row for row in world()[1].rows if row["cost_type"] == "tax"]
    rows = [
        tax,
        tax | {"project": {"id": "other", "number": "2"}},
        tax | {"usage_start_time": "2026-09-30 23:00:00+00:00"},
        tax | {"currency": "EUR", "currency_conversion_rate": 0.5, "cost": 1.0},
    ]
    [row] = run(SQL, rows, tmp_path)
    assert (row["service"], row["cost_type"], row["cost"]) == ("Invoice", "tax", "5.5")
    [row] = run(sql("acme-billing.export.bill", "2026-10-01"), rows, tmp_path)
    assert row["cost"] == "9.0", "the whole billing account"


def test_a_disk_has_two_forms_of_name_and_a_rate_of_zero_is_none(tmp_path: Path) -> None:
    disk = next(row for row in world()[1].rows if "/disk/" in (row["resource"]["global_name"] or ""))
    name = disk["resource"]["global_name"].replace("/disk/", "/disks/")
    resource = disk["resource"] | {"global_name": name}
    [row] = run(SQL, [disk | {"resource": resource, "cost": 2.0, "currency_conversion_rate": 0.0}], tmp_path)
    assert (row["disk_id"], row["disk_name"], row["cost"]) == (name.rpartition("/")[2], resource["name"], "2.0")


@pytest.mark.parametrize(("cost", "warns"), [(0.94, True), (0.96, False), (1.04, False), (1.06, True)])
def test_a_bill_that_differs_by_more_than_a_twentieth_is_warned_about(
    ask: Ask, tmp_path: Path, cost: float, warns: bool
) -> None:
    (tmp_path / "r.jsonl").write_text(json.dumps(line(1)))
    rows = [
        ROW | {"day": "2026-11-10", "instance_id": "1", "cost": cost},
        ROW | {"day": "2026-11-12", "cost": 7},
    ]
    (tmp_path / "b.json").write_text(json.dumps(rows))
    found = ask("cost", "report", "r.jsonl", "--bill", "b.json", "--json").json
    assert any("compare usdPerHour" in each for each in found["warnings"]) == warns
    assert found["forecast"]["spentUsd"] == pytest.approx(cost + 7), "with what is shared"
    assert found["usdByWeek"] == {"2026-11-09": cost}


def test_the_query_is_printed_for_a_table_and_as_json(ask: Ask) -> None:
    words = ("cost", "query", "google", "--table", "acme-billing.export.bill")
    answer = ask(*words, "--project", "acme-ci", "--since", "2026-10-01")
    assert (answer.code, answer.out, answer.err) == (0, SQL, "")
    assert "FROM `acme-billing.export.bill` AS bill" in SQL
    assert "TIMESTAMP('2026-09-12 00:00:00+00')\n" in ask(*words, "--json").json["sql"]


@pytest.mark.parametrize("count", [99, 100, 101])
def test_a_bill_with_as_many_rows_as_bq_prints_by_default_is_noted(
    count: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bill.json").write_text(json.dumps([ROW] * count))
    read_bill(str(tmp_path / "bill.json"), Mistakes())
    assert ("is what bq prints without --max_rows" in capsys.readouterr().err) == (count == 100)
