"""A refresh from the pinned packages and from Google's answers, and the documents that it writes."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from gpu_catalog import data_files
from gpu_catalog.refresh import GONE, Diff, Rows, diff
from gpu_catalog.upstream import aws_rows, google_compute, google_rows, moto
from gpu_catalog.upstream.changed_documents import ChangedDocuments, apply_diff, text

from . import aged

TODAY = date(2026, 11, 21)
ANSWERS = Path(__file__).with_name("answers")


def aws(upstream: Rows) -> Diff:
    return diff(aws_rows.current(), upstream, source="AWS", today=TODAY, covers=aws_rows.covers)


def google(**more: Any) -> Diff:
    answers = {
        each: json.loads((ANSWERS / f"{each}.json").read_text()) for each in ("machine_types", "accelerator_types")
    }
    for machine in answers["machine_types"][0]["items"]["zones/us-central1-a"]["machineTypes"]:
        machine.update(more if machine["name"] == "a3-highgpu-8g" else {})
    upstream = google_rows.upstream(
        google_compute.machine_types(answers["machine_types"]),
        google_compute.accelerator_types(answers["accelerator_types"]),
    )
    return diff(google_rows.current(), upstream, source="Google", today=TODAY, covers=google_rows.covers)


@pytest.fixture
def aged_regions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalog with the regions of AWS's page, as before the refresh from the packages."""
    document, old = data_files.document, aged.aws_machines()
    monkeypatch.setattr(data_files, "document", lambda name: old if name == "aws_machines" else document(name))


def row(result: ChangedDocuments, file: str, machine_type: str) -> data_files.Json:
    [found] = [each for each in result.documents[file]["rows"] if each["machine_type"] == machine_type]
    return dict(found)


def test_the_catalog_has_what_the_pinned_packages_say() -> None:
    found = aws(aws_rows.upstream(aws_rows.current()))
    assert (len(found.added), len(found.gone), len(found.changed), found.same) == (0, 0, 0, 715)


def test_four_regions_are_known_by_a_price_alone() -> None:
    """Neither AWS's page nor an answer of EC2 has these regions. docs/operate/catalog-refresh.md names them."""
    found = {
        (row["machine_type"], region)
        for row, page in zip(data_files.rows("aws_machines"), aged.aws_machines()["rows"], strict=True)
        for region in {*row.get("regions", ())} - {*aged.regions(page)}
        if row["machine_type"] not in moto.offerings().get(region, ())
    }
    assert found == {
        ("p4d.24xlarge", "cn-northwest-1"),
        ("p6-b200.48xlarge", "us-gov-east-1"),
        ("p6-b200.48xlarge", "us-gov-west-1"),
        ("p6-b300.48xlarge", "us-gov-east-1"),
    }


@pytest.mark.usefixtures("aged_regions")
def test_the_pinned_packages_change_regions_and_nothing_else() -> None:
    found = aws(aws_rows.upstream(aws_rows.current()))
    assert (len(found.added), len(found.gone), len(found.changed), found.same) == (0, 0, 30, 685)
    assert {change.field for change in found.changed} == {"regions"}
    assert len(found.rows) == len(aws_rows.current()) == 83


@pytest.mark.usefixtures("aged_regions")
def test_of_two_sources_about_regions_what_is_offered_counts_before_what_has_a_price() -> None:
    regions = {change.machine: str(change) for change in aws(aws_rows.upstream(aws_rows.current())).changed}
    assert "aws/p5e.48xlarge" not in regions, "offered without a price"
    assert "aws/p3.2xlarge" not in regions, "priced, and no longer described"
    assert regions["aws/p5.4xlarge"] == "aws/p5.4xlarge: regions: -ap-northeast-2 -ca-central-1 -us-west-1"
    assert regions["aws/p4d.24xlarge"] == "aws/p4d.24xlarge: regions: +cn-northwest-1"


@pytest.mark.usefixtures("aged_regions")
def test_a_region_that_no_source_covers_stays() -> None:
    known = aws_rows.current()["aws/g6.xlarge"]["regions"]
    wanted = aws_rows.upstream(aws_rows.current())["aws/g6.xlarge"]["regions"]
    assert isinstance(known, tuple)
    assert isinstance(wanted, tuple)
    assert "eusc-de-east-1" in known
    assert set(wanted) - set(known) == {"ap-south-2"}
    assert set(known) - set(wanted) == set()


def test_the_files_have_the_form_that_a_refresh_writes() -> None:
    for file in ("aws_machines", "gcp_machines", "prices", "sources"):
        assert text(data_files.document(file)) == (data_files.DATA / f"{file}.json").read_text(), file


@pytest.mark.usefixtures("aged_regions")
def test_changed_regions_are_written_to_the_machine_with_their_source() -> None:
    result = apply_diff(aws(aws_rows.upstream(aws_rows.current())), "moto")
    found = row(result, "aws_machines", "p5.4xlarge")
    assert "us-west-1" not in found["regions"]
    assert found["sources"]["regions"] == ["moto"]
    assert result.by_hand == ()
    assert list(result.documents) == ["aws_machines"]
    assert len(result.documents["aws_machines"]["rows"]) == 83


@pytest.mark.usefixtures("aged_regions")
def test_a_second_refresh_of_what_was_written_finds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    result = apply_diff(aws(aws_rows.upstream(aws_rows.current())), "moto")
    document = data_files.document
    monkeypatch.setattr(data_files, "document", lambda name: result.documents.get(name) or document(name))
    assert aws(aws_rows.upstream(aws_rows.current())).empty


def test_nothing_to_write_leaves_the_files_alone() -> None:
    result = apply_diff(aws(aws_rows.current()), "moto")
    assert (result.documents, result.by_hand) == ({}, ())


def test_a_machine_that_is_gone_is_marked_in_the_file_and_one_that_is_back_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fewer = {name: known for name, known in aws_rows.current().items() if name != "aws/g6.xlarge"}
    gone = apply_diff(aws(fewer), "moto")
    assert row(gone, "aws_machines", "g6.xlarge")[GONE] == "2026-11-21"
    assert len(gone.documents["aws_machines"]["rows"]) == 83
    document = data_files.document
    monkeypatch.setattr(data_files, "document", lambda name: gone.documents.get(name) or document(name))
    back = apply_diff(aws({**fewer, "aws/g6.xlarge": {}}), "moto")
    assert GONE not in row(back, "aws_machines", "g6.xlarge")


def test_a_new_size_of_a_known_family_becomes_a_row() -> None:
    known = aws_rows.current()["aws/g6.xlarge"]
    result = apply_diff(aws({**aws_rows.current(), "aws/g6.3xlarge": {**known, "vcpus": 12}}), "moto")
    found = row(result, "aws_machines", "g6.3xlarge")
    assert (found["family"], found["vcpus"], found["network_mbps"]) == ("g6", 12, None)
    assert set(found) >= set(data_files.rows("aws_machines")[0])
    assert found["sources"]["vcpus"] == ["moto"]


@pytest.mark.parametrize(
    "machine", [{"family": "g9", "gpu": "l4"}, {"family": "g6", "gpu": "L5"}, {"family": "g6", "gpu": "l4"}],
    ids=["an unknown family", "an unknown card", "too little known"],
)  # fmt: skip
def test_a_machine_that_would_have_to_be_invented_is_left_to_a_person(machine: dict[str, str]) -> None:
    known = aws_rows.current()["aws/g6.xlarge"] if machine != {"family": "g6", "gpu": "l4"} else {}
    result = apply_diff(aws({**aws_rows.current(), "aws/g9.xlarge": {**known, **machine}}), "moto")
    assert result.documents == {}
    assert result.by_hand == (
        "aws/g9.xlarge: add its family, its GPU and other facts that the source lacks, then the machine",
    )


def test_google_lists_are_held_against_the_catalogs_machines() -> None:
    found = google()
    assert [each for each in found.changed if each.field != "zones"] == []
    assert (len(found.added), len(found.gone), len(found.rows)) == (0, 35, 38), "three are in the answers"
    assert str(found.changed[0]).startswith("gcp/a3-highgpu-8g: zones: -asia-east1-c")


def test_facts_of_google_are_written_and_zones_are_left_to_a_maintainer() -> None:
    result = apply_diff(google(guestCpus=216), "gapi")
    found = row(result, "gcp_machines", "a3-highgpu-8g")
    assert (found["vcpus"], found["sources"]["vcpus"]) == (216, ["gapi"])
    assert row(result, "gcp_machines", "a2-highgpu-1g")[GONE] == "2026-11-21"
    assert [line.split(":")[1] for line in result.by_hand[:2]] == [" zones", " zones"]
    assert result.by_hand[-1] == "gcp/n1+nvidia-tesla-p100: gone upstream since 2026-11-21"
