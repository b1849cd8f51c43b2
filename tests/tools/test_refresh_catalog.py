"""The refresh of prices from files of gpuhunt, on copies of the data files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gpu_catalog import data_files
from gpuhunt._internal import storage
from gpuhunt._internal.models import AcceleratorVendor, CatalogItem

from tools import refresh_catalog


def offer(name: str, location: str, price: float, **more: Any) -> CatalogItem:
    values = {"gpu_count": 1, "gpu_name": "L4", "spot": False, "cpu": 8, "memory": 32.0, "gpu_memory": 24.0} | more
    vendor = AcceleratorVendor.NVIDIA if values["gpu_count"] else None
    return CatalogItem("aws", name, location, price, disk_size=None, gpu_vendor=vendor, **values)


T4 = {"gpu_name": "T4", "cpu": 4, "memory": 15.0}
OFFERS = {
    "aws": [
        offer("g6.xlarge", "us-east-1", 0.9),
        offer("g6.xlarge", "us-east-1", 0.31, spot=True),
        offer("g6.xlarge", "moon-west-1", 0.9),
        offer("g99.xlarge", "us-east-1", 0.9),
        offer("m5.large", "us-east-1", 0.1, gpu_count=0, gpu_name=None),
    ],
    "gcp": [
        offer("g2-standard-8", "us-central1-a", 0.95),
        offer("g2-standard-8", "us-central1-b", 0.94),
        offer("a4-highgpu-8g", "us-central1-a", 50.0, gpu_name="B200", gpu_count=8),  # not sold on demand
        offer("g2-standard-8", "us-central1-a", 0.1, provider_data={"is_dws_calendar_mode": True}),
        offer("n1-standard-4", "us-central1-a", 0.55, **T4),
        offer("n1-standard-4", "us-central1-a", 0.91, **T4, gpu_count=2),
    ],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with files of gpuhunt. The data files are copies in its folder `data`."""
    (tmp_path / "data").mkdir()
    for name in ("prices", "sources"):
        (tmp_path / "data" / f"{name}.json").write_text((data_files.DATA / f"{name}.json").read_text())
    monkeypatch.setattr(refresh_catalog, "DATA", tmp_path / "data")
    for cloud, offers in OFFERS.items():
        storage.dump(offers, str(tmp_path / f"{cloud}.csv"))
    return tmp_path


def written(folder: Path) -> dict[tuple[str, str, str], tuple[float, str]]:
    """Return the price and the source by machine type or accelerator, region and market."""
    return {
        (row.get("machine_type") or row["accelerator"], region, market): (usd, row["source"])
        for row in json.loads((folder / "data" / "prices.json").read_text())["rows"]
        for region, markets in row["usd_per_hour"].items()
        for market, usd in markets.items()
    }


def test_prices_of_known_machines_are_written_with_their_day(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = written(folder)
    assert refresh_catalog.main(["--folder", str(folder), "--date", "2026-11-28", "--write"]) == 0
    new = {
        ("g6.xlarge", "us-east-1", "standard"): (0.9, "gpuhunt_aws"),
        ("g6.xlarge", "us-east-1", "spot"): (0.31, "gpuhunt_aws"),
        ("g2-standard-8", "us-central1", "standard"): (0.94, "gpuhunt_gcp"),
        ("nvidia-tesla-t4", "us-central1", "standard"): (0.36, "gpuhunt_gcp"),
        ("n1-standard-4", "us-central1", "standard"): (0.19, "gpuhunt_gcp"),
    }
    assert written(folder) == {**before, **new}
    rows = {row["key"]: row for row in json.loads((folder / "data" / "sources.json").read_text())["rows"]}
    assert {rows[f"gpuhunt_{cloud}"]["date"] for cloud in OFFERS} == {"2026-11-28"}
    lines = (folder / "data" / "prices.json").read_text().splitlines()
    assert all(json.loads(line.rstrip(",")) for line in lines if line.startswith("  {"))
    assert "  not in the catalog: g99.xlarge" in capsys.readouterr().out.splitlines()


def test_without_write_nothing_changes_and_the_exit_code_says_so(folder: Path) -> None:
    before = (folder / "data" / "prices.json").read_text()
    assert refresh_catalog.main(["--folder", str(folder), "--date", "2026-11-28"]) == 1
    assert (folder / "data" / "prices.json").read_text() == before


def test_an_answer_without_prices_and_a_wrong_date_are_errors(folder: Path) -> None:
    storage.dump([], str(folder / "aws.csv"))
    before = (folder / "data" / "prices.json").read_text()
    assert refresh_catalog.main(["--folder", str(folder), "--date", "2026-11-28", "--write"]) == 2
    with pytest.raises(SystemExit, match="no date"):
        refresh_catalog.main(["--folder", str(folder), "--date", "today"])
    assert (folder / "data" / "prices.json").read_text() == before
