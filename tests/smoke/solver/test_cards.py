"""`gpu-smoke check` with a driver that is older than the GPU."""

from __future__ import annotations

import pytest
from gpu_catalog import data_files
from gpu_smoke.compat.data import CARDS

from .test_command import answer


@pytest.mark.parametrize(
    ("gpu", "driver", "why"),
    [
        ("l4", "450.80.02", "driver branch 450 does not support the L4: the first branch that does is 525"),
        ("l40s", "450.80.02", "driver branch 450 does not support Ada (8.9): the first branch that does is 520"),
        ("h100", "450.80.02", "driver branch 450 does not support the H100: the first branch that does is 525"),
        ("l4", "520", "driver branch 520 does not support the L4: the first branch that does is 525"),
        ("h200", "535", "driver branch 535 does not support the H200: the first branch that does is 550"),
        (
            "rtx-pro-6000",
            "570",
            "driver branch 570 does not support the RTX PRO 6000: the first branch that does is 575",
        ),
    ],
)
def test_a_driver_older_than_the_gpu_is_refused_and_never_recommended(gpu: str, driver: str, why: str) -> None:
    found = answer("--gpu", gpu, "--driver", driver, "--torch", "2.7.0+cu128" if "rtx" in gpu else "2.7.0+cu118")
    assert [(problem["rule"], problem["text"]) for problem in found["problems"]] == [("driver.before-gpu", why)]
    assert [way["driver_branch"] for way in found["ways"]] == [580]


def test_a_first_branch_without_a_source_refuses_nothing() -> None:
    found = answer("--gpu", "l40s", "--driver", "525", "--torch", "2.7.0+cu118")
    assert found["works"]
    assert found["unknown"] == [
        "support of driver branch 525 for the L40S: its first branch is probably 535, without a source"
    ]
    # `a100` matches two models. Branch 450 supports the A100 of 40 GB, so the name alone does not settle it.
    assert answer("--gpu", "a100", "--driver", "470", "--torch", "2.7.0+cu118")["unknown"] == []


def test_the_first_branches_of_cards_are_those_of_the_catalog() -> None:
    rows = {row["key"]: row for row in data_files.rows("gpus")}
    own = {name: rows[card.name.lower().replace(" ", "-")] for name, card in CARDS.items()}
    assert {name: card.first_branch for name, card in CARDS.items()} == {
        name: row["first_driver_branch"] for name, row in own.items()
    }
    assert {name for name, card in CARDS.items() if card.published} == {
        name for name, row in own.items() if row["sources"].get("first_driver_branch") != ["general"]
    }
