"""`gpu-smoke check` of a GPU and a driver that is older than it."""

from __future__ import annotations

import pytest
from gpu_catalog import data_files
from gpu_smoke.compat.data import CARDS

from .test_command import answer


@pytest.mark.parametrize(
    ("gpu", "driver", "why"),
    [
        ("l4", "450.80.02", "driver branch 450 does not know the L4: R525 is its first"),
        ("l40s", "450.80.02", "driver branch 450 does not know Ada (8.9): R520 is its first"),
        ("h100", "450.80.02", "driver branch 450 does not know the H100: R525 is its first"),
        ("l4", "520", "driver branch 520 does not know the L4: R525 is its first"),
        ("h200", "535", "driver branch 535 does not know the H200: R550 is its first"),
        ("rtx-pro-6000", "570", "driver branch 570 does not know the RTX PRO 6000: R575 is its first"),
    ],
)
def test_a_driver_older_than_the_gpu_is_refused_and_never_recommended(gpu: str, driver: str, why: str) -> None:
    found = answer("--gpu", gpu, "--driver", driver, "--torch", "2.7.0+cu128" if "rtx" in gpu else "2.7.0+cu118")
    assert [(problem["rule"], problem["text"]) for problem in found["problems"]] == [("driver.before-gpu", why)]
    assert [way["driver_branch"] for way in found["ways"]] == [580]


def test_a_first_branch_that_is_only_thought_to_be_one_refuses_nothing() -> None:
    found = answer("--gpu", "l40s", "--driver", "525", "--torch", "2.7.0+cu118")
    assert found["works"]
    assert found["unknown"] == ["whether driver branch 525 knows the L40S: R535 is thought to be its first"]
    # What two cards share is asked of both: the A100 of 40 GB is known to 450.
    assert answer("--gpu", "a100", "--driver", "470", "--torch", "2.7.0+cu118")["unknown"] == []


def test_the_first_branches_of_cards_are_those_of_the_catalog() -> None:
    rows = {row["key"]: row for row in data_files.rows("gpus")}
    own = {name: rows[card.name.lower().replace(" ", "-")] for name, card in CARDS.items()}
    assert {name: card.first_branch for name, card in CARDS.items()} == {
        name: row["first_driver_branch"] for name, row in own.items()
    }
    assert {name for name, card in CARDS.items() if card.sure} == {
        name for name, row in own.items() if row["sources"].get("first_driver_branch") != ["general"]
    }
