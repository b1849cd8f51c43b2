"""Files and options that are wrong: each has its place, what it got, what is expected and a hint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.gpu_ci.cli.conftest import Ask
from tests.gpu_ci.cli.cost.test_report import line

ROW = {
    "day": "2026-10-05", "service": "Compute Engine", "instance_id": None, "disk_id": None, "disk_name": None,
    "begin_sec": "1791158400", "end_sec": "1791162000", "cost": "0.31", "discounts": "0", "promotions": "0",
}  # fmt: skip


def without(row: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != name}


def record(**changes: Any) -> dict[str, str]:
    return {"r.jsonl": json.dumps(line(1, **changes))}


def bill(*rows: Any) -> dict[str, str]:
    return {"b.json": json.dumps(rows)}


BILL, STACK = ["--bill", "b.json"], ["--stack", "Pulumi.s.yaml"]
CASES: dict[str, tuple[dict[str, Any], list[str], str]] = {
    "no file": ({"r.jsonl": None}, [], "r.jsonl: no such file"),
    "a folder": ({"b.json": None}, ["--bill", "."], ".: cannot be read"),
    "binary": ({"r.jsonl": b"{}\n\x1f\x8b\x08"}, [], "r.jsonl:2: is not text"),
    "text": ({"r.jsonl": "\nhello"}, [], "r.jsonl:2: is not JSON"),
    "a document on several lines": ({"r.jsonl": json.dumps(line(1), indent=1)}, [], "r.jsonl:1: is not JSON"),
    "endless lists": ({"r.jsonl": "[" * 100_000}, [], "r.jsonl:1: is not JSON"),
    "a list": ({"r.jsonl": "[1]"}, [], "r.jsonl:1: must be a map"),
    "a record of schema 2": (record(schema=2), [], "r.jsonl:1: schema: must be one of 1"),
    "a field that is missing": ({"r.jsonl": json.dumps(without(line(1), "pool"))}, [], "r.jsonl:1: pool: is missing"),
    "a negative price": (record(usdPerHour=-1), [], "r.jsonl:1: usdPerHour: must be at least 0"),
    "no number": (record(usdPerHour=float("nan")), [], "r.jsonl:1: usdPerHour: input should be a finite number"),
    "a price whose sums have no end": (record(usdPerHour=1e308), [], "r.jsonl:1: usdPerHour: must be at most 1000000"),
    "a time after the last year": (
        record(gone="9999-12-31T23:59:59-05:00"), [], "r.jsonl:1: gone: is not in the years 1 to 9999 in UTC",
    ),
    "text for a price": (record(usdPerHour="free"), [], "r.jsonl:1: usdPerHour: must be a number"),
    "a time without a zone": (record(gone="2026-11-10T11:00:00"), [], "r.jsonl:1: gone: input should have timezone"),
    "no time": (record(requested="soon"), [], "r.jsonl:1: requested: input should be a valid datetime"),
    "an interval that runs backwards": (
        record(on=[["2026-11-10T11:00:00Z", "2026-11-10T10:00:00Z"]]), [], "r.jsonl:1: on[0]: ends before it begins",
    ),
    "gone before it was on": (record(gone="2026-11-10T10:30:00Z"), [], "r.jsonl:1: requested, on and gone are not in"),
    "an interval of three": (record(on=[["2026-11-10T10:00:00Z"] * 3]), [], "r.jsonl:1: on[0]: "),
    "a use above 1": (record(gpuUse={"utilAvg": 40}), [], "r.jsonl:1: gpuUse.utilAvg: must be at most 1"),
    "a job without a start": (record(job={"started": None}), [], "r.jsonl:1: job.started: input should be a valid"),
    "an unknown column": ({}, ["--by", "repository,owner"], "gpu-ci cost report: --by: is not a column"),
    "no name of a column": ({}, ["--by", ""], "gpu-ci cost report: --by: is not a column"),
    "no column": ({}, ["--by", ","], "gpu-ci cost report: --by: is not a column"),
    "teams without a stack": ({}, ["--by", "team"], "gpu-ci cost report: --by: needs the teams"),
    "a time of no form": ({}, ["--since", "last week"], "gpu-ci cost report: --since: is not a time in the past"),
    "a time to come": ({}, ["--since", "2027-01-01"], "gpu-ci cost report: --since: is not a time in the past"),
    "a day there is not": ({}, ["--since", "2026-02-30"], "gpu-ci cost report: --since: is not a time in the past"),
    "two forms": ({}, ["--markdown"], "gpu-ci cost report: --markdown: is not possible with --json"),
    "no bill": ({}, BILL, "b.json: no such file"),
    "a bill that is no JSON": ({"b.json": "[\n{"}, BILL, "b.json:2: is not JSON"),
    "an empty bill": ({"b.json": ""}, BILL, "b.json:1: is not JSON"),
    "a bill without a name": ({}, ["--bill", ""], "'': cannot be read"),
    "a cost without an end": (bill(ROW | {"cost": "-1e308"}), BILL, "b.json: [0].cost: must be at least -1000000000"),
    "records and a bill from standard input": ({}, ["-", "--bill", "-"], "gpu-ci cost report: --bill: is read from"),
    "a bill that is no list": ({"b.json": "{}"}, BILL, "b.json:1: is not a list of rows"),
    "a row without a column": (bill(ROW, without(ROW, "cost")), BILL, "b.json: [1].cost: is missing"),
    "a row without a number": (bill(ROW | {"cost": "NaN"}), BILL, "b.json: [0].cost: input should be a finite number"),
    "a row that is none": (bill(7), BILL, "b.json: [0]: must be a map"),
    "no stack file": ({}, STACK, "Pulumi.s.yaml: no such file"),
    "a stack without a name": ({}, ["--stack", ""], ".: cannot be read"),
    "a stack that is no YAML": ({"Pulumi.s.yaml": "config: {"}, STACK, "Pulumi.s.yaml:1:10: is not valid YAML"),
    "a stack without teams": ({"Pulumi.s.yaml": "config: {}"}, STACK, "Pulumi.s.yaml: gpu-ci:teams: is missing"),
    "teams that overlap": (
        {"Pulumi.s.yaml": "config:\n  gpu-ci:teams:\n    a: {repositories: [x]}\n    b:\n      repositories: [X]\n"},
        STACK, "Pulumi.s.yaml:5: gpu-ci:teams.b.repositories[0]: is also a repository of a",
    ),
    "a secret in teams": (
        {"Pulumi.s.yaml": "config: {gpu-ci:teams: {secure: v1:abc}}"},
        STACK, "Pulumi.s.yaml:1: gpu-ci:teams: is a secret",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_it_has_a_place_and_what_is_expected(ask: Ask, tmp_path: Path, name: str) -> None:
    files, options, expected = CASES[name]
    for file, content in ({"r.jsonl": json.dumps(line(1))} | files).items():
        if content is not None:
            (tmp_path / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    answer = ask("cost", "report", "r.jsonl", *options, "--json")
    assert answer.code == 2
    assert answer.err.startswith(expected)
    assert "Traceback" not in answer.err
    for problem in answer.json["error"]["problems"]:
        assert {"file", "text", "got", "expected", "hint"} <= problem.keys()


def test_every_mistake_is_reported_at_once_and_the_list_is_bounded(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text("x\n" * 1000)
    (tmp_path / "b.json").write_text(json.dumps([{}] * 1000))
    answer = ask("cost", "report", "r.jsonl", "none.jsonl", "--by", "x", "--since", "y", *BILL, *STACK, "--json")
    assert answer.code == 2
    problems = answer.json["error"]["problems"]
    assert len(problems) == 31
    assert [each.get("path") for each in problems[:2]] == ["--by", "--since"]
    assert problems[2]["file"] == "r.jsonl:1"
    assert problems[-1]["text"] == "and 10,974 more"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--table", "bill"], "--table: is not a table"),
        (["--table", "acme-billing.export.bill` WHERE 1=1 --"], "--table: is not a table"),
        (["--table", "acme-billing.export.bill", "--project", "acme' OR 1"], "--project: is not the id of a project"),
        (["--table", "acme-billing.export.bill", "--since", "0w"], "--since: is not a time in the past"),
    ],
)
def test_a_query_is_made_of_names_only(ask: Ask, options: list[str], expected: str) -> None:
    answer = ask("cost", "query", "google", *options)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"gpu-ci cost query google: {expected}")


def test_a_word_like_a_subcommand_is_no_file(ask: Ask, tmp_path: Path) -> None:
    assert "did you mean report?" in ask("cost", "reprot", "r.jsonl").err
    (tmp_path / "reprot").write_text("config: {}")
    assert "reprot" in ask("cost", "reprot").err
    assert "no command" not in ask("cost", "reprot").err
