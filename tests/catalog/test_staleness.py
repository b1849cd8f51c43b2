"""Outdated prices, images and runners, on given days."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from gpu_catalog import staleness
from gpu_catalog.errors import UnknownName
from gpu_catalog.models import Price

TODAY = date(2026, 11, 21)
IMAGES = "projects/ubuntu-os-accelerator-images/global/images"
DLVM = "projects/deeplearning-platform-release/global/images/family"


def price(day: str | None) -> Price:
    return Price(1.0, "us-central1", "spot", day, ("kgcp",))


def test_prices_are_old_after_ninety_days_and_not_before() -> None:
    read = date(2026, 8, 3)
    assert staleness.prices({"l4": price("2026-08-03")}, read + timedelta(90)) == ""
    assert staleness.prices({"l4": price("2026-08-03")}, read + timedelta(91)) == (
        "prices older than 90 days: l4 (2026-08-03); compare them with the cloud's price list"
    )


def test_old_and_undated_prices_are_one_note_and_unknown_ones_are_not_in_it() -> None:
    found = staleness.prices({"a": price("2026-08-03"), "b": price(None), "c": price("2025-06-28"), "e": None}, TODAY)
    assert found == (
        "prices older than 90 days: a (2026-08-03), c (2025-06-28); without a date: b; "
        "compare them with the cloud's price list"
    )


def test_a_price_of_a_month_counts_from_its_last_day() -> None:
    assert staleness.prices({"a": price("2026-08")}, date(2026, 11, 29)) == ""
    assert staleness.prices({"a": price("2026-08")}, date(2026, 11, 30)) != ""


@pytest.mark.parametrize(
    ("image", "today", "text"),
    [
        ("projects/ubuntu-os-cloud/global/images/ubuntu-2004-focal-v20240101", TODAY, "Ubuntu 20.04 ended in 2025-05"),
        (f"{IMAGES}/ubuntu-accelerator-2204-amd64-with-nvidia-535-v20260101", TODAY, "driver 535 ended in 2026-06"),
        (f"{DLVM}/common-cu124-ubuntu-2204", TODAY, "CUDA 12.4 ended in 2026-04, Google has deprecated it"),
        (f"{DLVM}/common-cu113", TODAY, "CUDA 11.3 ended in 2026-06"),
        (f"{IMAGES}/family/ubuntu-accelerator-2404-amd64-with-nvidia-580", date(2028, 7, 1), "580 ended in 2028-06"),
        (f"{IMAGES}/family/ubuntu-accelerator-2404-amd64-with-nvidia-580", date(2028, 6, 30), "580 ends in 2028-06"),
    ],
)
def test_an_image_past_its_end_is_reported_with_what_to_take_instead(image: str, today: date, text: str) -> None:
    [found] = staleness.image(image, today)
    assert found.subject == f"the image {image.rpartition('/')[2]}"
    assert text in found.text
    assert found.hint.startswith("take ")


@pytest.mark.parametrize(
    "image",
    [
        f"{IMAGES}/ubuntu-accelerator-2404-amd64-with-nvidia-580-v20260820",
        "projects/acme-ci/global/images/our-own-image",
        "projects/acme-ci/global/images/tools-cu124",
        "our-own-image",
    ],
)
def test_an_image_that_is_supported_or_unknown_is_not_reported(image: str) -> None:
    assert staleness.image(image, TODAY) == ()


@pytest.mark.parametrize(("days", "found"), [(91, 0), (90, 1), (1, 1), (0, 1)])
def test_an_image_that_ends_within_ninety_days_is_reported_and_not_before(days: int, found: int) -> None:
    image, last = f"{IMAGES}/family/ubuntu-accelerator-2404-amd64-with-nvidia-580", date(2028, 6, 30)
    reported = staleness.image(image, last - timedelta(days))
    assert ["580 ends in 2028-06" in each.text for each in reported] == [True] * found


def test_one_image_can_have_several_ends() -> None:
    found = staleness.image("ubuntu-2004-with-nvidia-535", TODAY)
    assert [each.hint for each in found] == ["take an image of Ubuntu 24.04", "take an image with driver 580"]


def test_a_retired_ami_type_is_reported_with_its_successor() -> None:
    [found] = staleness.ami_type("AL2_x86_64_GPU", date(2025, 11, 26))
    assert (found.text, found.hint) == ("has had no new image since 2025-11-26", "take AL2023_x86_64_NVIDIA")
    assert staleness.ami_type("AL2_x86_64_GPU", date(2025, 11, 25)) == ()
    assert staleness.ami_type("AL2023_x86_64_NVIDIA", TODAY) == ()
    with pytest.raises(UnknownName, match="AL2_x86_64_GPU"):
        staleness.ami_type("AL2_x86_64_GPUS", TODAY)


def test_a_runner_below_the_floor_is_not_registered() -> None:
    [found] = staleness.runner("2.328.0", TODAY)
    assert found.text == "is too old: GitHub registers 2.329.0 or later"
    assert found.hint.startswith("take 2.338.0, or a newer release from")
    [before] = staleness.runner("v2.311.0", date(2026, 9, 24))
    assert before.text.startswith("is too old from 2026-09-25 on")


def test_the_floor_is_reported_to_versions_below_it_alone() -> None:
    assert staleness.runner_floor("2.328.0") == staleness.runner_floor("v2.311.0") == "2.329.0"
    assert staleness.runner_floor("2.329.0") == staleness.runner_floor("2.1000.0") == ""
    with pytest.raises(ValueError, match="'latest' is not a version of the runner"):
        staleness.runner_floor("latest")


@pytest.mark.parametrize(("version", "since"), [("2.329.0", "2026-01-20"), ("2.331.0", "2026-04-29")])
def test_a_runner_github_was_seen_to_refuse_is_reported_with_the_day(version: str, since: str) -> None:
    [found] = staleness.runner(version, date.fromisoformat(since))
    assert found.text == f"gets no jobs from GitHub since {since}"
    assert (staleness.runner_refused(version), staleness.runner_refused("2.338.0")) == (since, "")


def test_a_runner_is_due_thirty_days_after_the_next_release() -> None:
    """Version 2.333.0 followed 2.332.0 on 2026-03-19."""
    assert staleness.runner("2.332.0", date(2026, 4, 7)) == ()
    [soon] = staleness.runner("2.332.0", date(2026, 4, 8))
    assert soon.text == (
        "may get no jobs after 2026-04-18: 2.333.0 was out on 2026-03-19, and an update is due within 30 days"
    )
    [still] = staleness.runner("2.332.0", date(2026, 4, 18))
    assert still.text.startswith("may get no jobs after")
    [late] = staleness.runner("2.332.0", date(2026, 4, 19))
    assert late.text.startswith("may get no jobs since 2026-04-18: ")


def test_the_newest_runner_known_is_doubted_once_the_list_itself_is_old() -> None:
    assert staleness.runner("2.338.0", date(2027, 1, 5)) == ()
    [found] = staleness.runner("2.338.0", date(2027, 1, 6))
    assert found.text == "may be too old: no release after 2026-10-07 is known here"
    assert len(staleness.runner("2.340.0", date(2027, 1, 6))) == 1


def test_releases_that_were_looked_up_count() -> None:
    released = {"2.338.0": date(2026, 11, 10), "v2.339.0": date(2026, 11, 20)}
    assert staleness.runner("2.338.0", TODAY, released) == ()
    assert staleness.runner("2.339.0", TODAY, released) == ()
    [due] = staleness.runner("2.337.0", date(2026, 12, 11), released)
    assert due.text.startswith("may get no jobs since 2026-12-10: 2.338.0 was out on 2026-11-10")
    assert due.hint.startswith("take 2.339.0")


@pytest.mark.parametrize("version", ["latest", "2.337", "", "2.337.0-rc1"])
def test_an_invalid_runner_version_is_an_error(version: str) -> None:
    with pytest.raises(ValueError, match=r"is not a version of the runner, such as 2\.337\.0"):
        staleness.runner(version, TODAY)
