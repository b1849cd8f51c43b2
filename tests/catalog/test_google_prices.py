"""Prices computed from the components in Cloud Billing, compared with those of the catalog."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from gpu_catalog import data_files
from gpu_catalog.refresh import Diff, Rows, diff
from gpu_catalog.upstream import google_billing, google_prices
from gpu_catalog.upstream.google_prices import (
    billed_quantities,
    changed_documents,
    covers,
    current,
    price_row,
    upstream,
)

TODAY, LATER = date(2026, 11, 21), date(2026, 12, 1)
SKUS = json.loads(Path(__file__).with_name("answers").joinpath("skus.json").read_text())


def refreshed() -> tuple[Diff, Rows]:
    prices = upstream(google_billing.skus(SKUS).values())
    return diff(current(), prices, source="Cloud Billing", today=TODAY, covers=covers), prices


def test_only_machines_whose_every_part_has_a_name_are_priced() -> None:
    series = {name.split("-")[0] for name in billed_quantities()}
    assert series == {"a2", "g2", "n1", "nvidia"}
    assert {name for name in billed_quantities() if name.startswith("nvidia")} == {"nvidia-tesla-t4"}
    assert not {"a2-ultragpu-1g", "a3-highgpu-1g", "g4-standard-48"} & set(billed_quantities()), (
        "local SSDs, or unseen SKUs"
    )
    assert billed_quantities()["a2-highgpu-2g"] == {
        ("a2", "core"): 24,
        ("a2", "ram"): 170,
        ("nvidia-tesla-a100", "gpu"): 2,
    }


def test_every_g2_machine_adds_up_to_the_price_the_catalog_has() -> None:
    ours, theirs = current(), upstream(google_billing.skus(SKUS).values())
    assert len(theirs) == 8
    for name, prices in theirs.items():
        mine = ours[name]["us-central1 standard"]
        assert isinstance(mine, float)
        assert prices["us-central1 standard"] == pytest.approx(mine, rel=0.0001), name


def test_a_refresh_lists_what_moved_and_no_other_machine() -> None:
    found, _ = refreshed()
    spot = [str(change) for change in found.changed if change.machine == "gcp/g2-standard-8"]
    assert "gcp/g2-standard-8: us-central1 spot: 0.5121 -> 0.4732" in spot
    assert "gcp/a3-highgpu-8g" in found.outside


def test_new_prices_are_added_next_to_the_old_ones_with_a_source_of_today() -> None:
    found, prices = refreshed()
    documents = changed_documents(found, prices, TODAY)
    before, after = data_files.rows("prices"), documents["prices"]["rows"]
    assert after[: len(before)] == before
    assert len(after) == len(before) + 8
    assert documents["sources"]["rows"][-1] == {
        "key": "billing_2026-11-21",
        "what": google_prices.SOURCE_DESCRIPTION,
        "date": "2026-11-21",
        "certain": True,
    }


def test_an_accelerator_is_priced_as_one() -> None:
    host, card = (
        price_row(f"gcp/{name}", {"us-east1 spot": 0.1}, "x") for name in ("n1-standard-8", "nvidia-tesla-t4")
    )
    assert host["machine_type"] == "n1-standard-8"
    assert card["accelerator"] == "nvidia-tesla-t4"
    assert card["usd_per_hour"] == {"us-east1": {"spot": 0.1}}


@pytest.fixture
def after_a_refresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, data_files.Json]]:
    """The catalog after the first refresh."""
    documents = changed_documents(*refreshed(), TODAY)
    document = data_files.document
    monkeypatch.setattr(data_files, "document", lambda name: documents.get(name) or document(name))
    data_files.sources.cache_clear()
    yield documents
    data_files.sources.cache_clear()


def test_a_second_refresh_with_the_same_prices_writes_nothing(after_a_refresh: dict[str, data_files.Json]) -> None:
    found, prices = refreshed()
    assert (found.changed, changed_documents(found, prices, LATER)) == ((), {})


def test_of_an_earlier_refresh_stays_what_a_later_one_has_no_price_for(
    after_a_refresh: dict[str, data_files.Json],
) -> None:
    prices: Rows = {"gcp/g2-standard-8": {"us-central1 spot": 0.5}}
    found = diff(current(), prices, source="Cloud Billing", today=LATER, covers=covers)
    documents = changed_documents(found, prices, LATER)
    rows = [row for row in documents["prices"]["rows"] if row.get("machine_type") == "g2-standard-8"]
    first, second = rows[-2:]
    assert (first["source"], second["source"]) == ("billing_2026-11-21", "billing_2026-12-01")
    assert first["usd_per_hour"]["us-central1"] == {"standard": 0.853608}
    assert second["usd_per_hour"] == {"us-central1": {"spot": 0.5}}
    assert len(documents["prices"]["rows"]) == len(after_a_refresh["prices"]["rows"]) + 1
    assert [row["key"] for row in documents["sources"]["rows"][-2:]] == ["billing_2026-11-21", "billing_2026-12-01"]
