"""The whole refresh: sources are read, shown and saved, into a copy of the data."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from googleapiclient import discovery
from googleapiclient.http import HttpMockSequence
from gpu_catalog import data_files, queries
from gpu_catalog.upstream import plans
from gpu_catalog.upstream.changed_documents import text
from gpu_catalog.upstream.plans import Plan

from . import aged

TODAY = date(2026, 11, 21)
ANSWERS = Path(__file__).with_name("answers")


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the data with the regions of AWS's page, which the catalog reads in this test."""
    folder = tmp_path / "data"
    shutil.copytree(data_files.DATA, folder)
    (folder / "aws_machines.json").write_text(text(aged.aws_machines()))
    monkeypatch.setattr(data_files, "DATA", folder)
    forget()
    yield folder
    forget()


def forget() -> None:
    for cached in (
        data_files.document,
        data_files.sources,
        data_files.gpus,
        data_files.gpu_of_accelerator,
        data_files.machines,
        data_files.family,
        data_files.zones_and_regions,
        data_files.unlisted,
    ):
        cached.cache_clear()


def client(api: str, *names: str) -> Any:
    pages = [page for name in names for page in json.loads((ANSWERS / f"{name}.json").read_text())]
    http = HttpMockSequence([({"status": "200"}, json.dumps(page)) for page in pages])
    return discovery.build(api, "v1", http=http, static_discovery=True)


def all_plans(day: date = TODAY) -> list[Plan]:
    return [
        plans.aws(day),
        plans.google(day, "p", client("compute", "machine_types", "accelerator_types")),
        plans.google_prices(day, client("cloudbilling", "skus")),
    ]


def test_the_catalog_has_the_saved_facts_after_a_refresh(data: Path) -> None:
    before = {name: len(data_files.rows(name)) for name in ("aws_machines", "gcp_machines", "prices")}
    saved = plans.save(all_plans(), data)
    forget()
    assert sorted(path.name for path in saved) == [
        "aws_machines.json",
        "gcp_machines.json",
        "prices.json",
        "sources.json",
    ]
    assert {name: len(data_files.rows(name)) - rows for name, rows in before.items()} == {
        "aws_machines": 0,
        "gcp_machines": 0,
        "prices": 8,
    }
    assert "us-west-1" not in queries.machine("p5.4xlarge").regions
    [source] = queries.sources_of(queries.machine("p5.4xlarge"), "regions")
    assert (source.key, source.date, source.certain) == ("ec2_2026-11-21", "2026-11-21", True)
    assert "cfn-lint 1.58.0" in source.what


def test_all_sources_of_a_refresh_are_kept(data: Path) -> None:
    known = {row["key"] for row in data_files.rows("sources")}
    plans.save(all_plans(date(2026, 11, 22)), data)
    forget()
    assert {row["key"] for row in data_files.rows("sources")} - known == {
        "ec2_2026-11-22",
        "compute_2026-11-22",
        "billing_2026-11-22",
    }


def test_a_refresh_a_day_later_with_the_same_answers_saves_nothing(data: Path) -> None:
    plans.save(all_plans(), data)
    forget()
    later = all_plans(date(2026, 11, 22))
    assert [plan.documents for plan in later] == [{}, {}, {}]
    assert plans.save(later, data) == []


def test_zones_are_left_to_a_person() -> None:
    _, google, _ = all_plans()
    assert {line.split(": ")[1] for line in google.by_hand if ": zones: " in line} == {"zones"}
    assert [line for line in google.by_hand if line.startswith("gcp/n1+")] != []
