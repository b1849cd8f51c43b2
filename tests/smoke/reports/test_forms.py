"""Every form of a receipt with hostile texts: a reader of the form reads these texts, and nothing else."""

from __future__ import annotations

import io
import json
import re
from html import unescape
from typing import Any
from xml.etree import ElementTree

import pytest
from gpu_smoke import checks as judged
from gpu_smoke.output import escape_commands
from gpu_smoke.reports.guest_attribute import guest_attribute
from gpu_smoke.reports.junit import junit
from gpu_smoke.reports.message import message
from gpu_smoke.reports.prometheus import prometheus
from gpu_smoke.reports.record import SEVERITIES, STATUSES, advice, cut, limits, number, safe_line, title
from gpu_smoke.reports.step_summary import SUMMARY_BYTES, step_summary
from gpu_smoke.reports.terminal import table
from gpu_smoke.reports.workflow_commands import workflow_commands
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from prometheus_client.parser import text_string_to_metric_families

from ..receipt_schema import PUBLISHED
from ..runner import command_of

HOSTILE = [
    "\n::error::forged",
    "\r\n::stop-commands::x", "::add-mask::a", "##[error]forged", "%0A::error::", "%25", "]]>",
    "<img src=x>", "&amp;", "|", "`", "\\|", "\n\n# heading", "[a](b)", "**b**", "\x1b[31mred", "\x00", "\x85",
    "\u2028", "\ud800", "\udfff", "\uffff", "\u202e", 'a"b', "\\", "{", "}", "é", "漢", "🎉", "x" * 300, "- a", "1. b",
    "---", "_c_", ", title=x", ":",
]  # fmt: skip
texts = st.lists(st.sampled_from(HOSTILE) | st.text(st.characters(exclude_categories=()), max_size=20), max_size=6).map(
    "".join
)
numbers = st.one_of(st.floats(), st.integers(), st.booleans(), st.just(10**400))
checks = st.fixed_dictionaries(
    {"id": texts, "status": st.sampled_from(["pass", "warn", "fail", "skip", "error"]), "message": texts},
    optional={
        "gpu": st.integers(0, 3) | texts, "dtype": texts, "severity": texts | st.sampled_from(["env", "gpu", "perf"]),
        "hint": texts, "value": numbers, "fail_below": numbers, "fail_above": numbers, "unit": texts,
        "seconds": numbers, "a field of tomorrow": texts,
    },
)  # fmt: skip
records = st.fixed_dictionaries(
    {
        "schema": st.just("smoke/1"), "verdict": st.sampled_from(["fail", "incomplete"]), "summary": texts,
        "checks": st.lists(checks, max_size=15),
    },
    optional={
        "device": st.sampled_from(["cpu", "cuda"]), "exit_code": st.integers(0, 4) | st.none(), "started": texts,
        "seconds": numbers, "pool": st.fixed_dictionaries({"name": texts}),
        "torch": st.dictionaries(st.just("version"), texts),
        "gpus": st.lists(st.fixed_dictionaries({"index": st.integers(0, 3), "name": texts}), max_size=3),
    },
)  # fmt: skip


def record(*found: dict[str, Any], verdict: str = "fail", summary: str = "1 GPU found", **more: Any) -> dict[str, Any]:
    defaults = {"id": "gpu.count", "status": "fail", "message": "1 GPU found"}
    return {"verdict": verdict, "summary": summary, "checks": [{**defaults, **each} for each in found], **more}


def suite_of(found: dict[str, Any]) -> ElementTree.Element:
    [suite] = ElementTree.fromstring(junit(found))  # noqa: S314 - we wrote it
    return suite


@given(records)
def test_junit_is_xml_with_a_test_of_its_own_name_for_each_check(found: dict[str, Any]) -> None:
    suite = suite_of(found)
    cases = suite.findall("testcase")
    silent = not any(check["status"] in ("fail", "error") for check in found["checks"])
    assert len(cases) == len(found["checks"]) + silent == int(suite.attrib["tests"])
    assert len({case.attrib["name"] for case in cases}) == len(cases)
    bad = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    assert len(bad) == int(suite.attrib["failures"]) + int(suite.attrib["errors"]) >= 1
    for case, check in zip(cases, found["checks"], strict=False):
        [outcome] = case
        expected = {"pass": "system-out", "warn": "system-out", "skip": "skipped", "fail": "failure", "error": "error"}
        assert outcome.tag == expected[check["status"]]
        if outcome.tag != "system-out":
            assert outcome.attrib["message"] == safe_line(check["message"], 300)
        if outcome.tag != "skipped":
            assert (outcome.text or "").removeprefix("warning: ") == advice(check).removeprefix("warning: ")


@given(records)
def test_prometheus_reads_its_metrics_and_no_series_twice(found: dict[str, Any]) -> None:
    text = prometheus(found)
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    assert len(samples) == len([line for line in text.splitlines() if not line.startswith("#")])
    assert len({(sample.name, *sorted(sample.labels.items())) for sample in samples}) == len(samples)
    assert {sample.name: sample.value for sample in samples}["gpu_smoke_ok"] == 0
    assert all(sample.timestamp is None for sample in samples)
    ids = {safe_line(check["id"], 200) for check in found["checks"]}
    assert {sample.labels["check"] for sample in samples if sample.name == "gpu_smoke_check"} == ids


@given(records)
def test_no_text_of_a_receipt_is_a_command_to_a_runner_but_the_annotations(found: dict[str, Any]) -> None:
    lines = workflow_commands(found).split("\n")[:-1]
    commands = [command_of(line) for line in lines]
    assert all(command is not None and command.name in ("error", "warning") for command in commands)
    assert 1 <= len([c for c in commands if c and c.name == "error"]) <= 10
    assert len([c for c in commands if c and c.name == "warning"]) <= 10
    warned = [check for check in found["checks"] if check["status"] == "warn"]
    if len(warned) <= 10:
        said = [(c.properties, c.data) for c in commands if c and c.name == "warning"]
        assert said == [({"title": f"gpu-smoke {title(found, c)}".rstrip()}, advice(c)) for c in warned]


@given(texts)
def test_a_text_in_a_log_is_no_workflow_command(text: str) -> None:
    assert [command_of(line) for line in re.split(r"[\r\n]", escape_commands(text))].count(None) == len(
        re.split(r"[\r\n]", escape_commands(text))
    )


@given(records)
def test_in_a_steps_summary_every_text_is_text(found: dict[str, Any]) -> None:
    tokens = MarkdownIt("commonmark").enable("table").parse(step_summary(found))
    kinds = [token.type for token in tokens]
    assert (kinds.count("heading_open"), kinds.count("table_open")) == (1, 1)
    assert kinds.count("tr_open") == 1 + len(found["checks"])
    assert kinds.count("td_open") == 5 * len(found["checks"])
    assert set(kinds) - {"inline"} <= {
        f"{kind}_{end}" for end in ("open", "close")
        for kind in ("heading", "paragraph", "table", "thead", "tbody", "tr", "th", "td", "bullet_list", "list_item")
    }  # fmt: skip
    inside = [child for token in tokens for child in token.children or ()]
    assert {child.type for child in inside} <= {"text"}
    messages = {safe_line(check["message"], 300) for check in found["checks"]}
    cells = {"".join(child.content for child in token.children or ()) for token in tokens if token.type == "inline"}
    assert messages - {""} <= cells


@given(records)
def test_the_message_and_the_table_are_printable_lines(found: dict[str, Any]) -> None:
    said = message(found)
    assert len(said.encode()) <= 4000
    assert said.split("\n")[0] == safe_line(found["summary"])
    lines = table(found, io.StringIO()).split("\n")
    assert all(line.isprintable() for line in [*said.split("\n"), *lines])
    hints = {safe_line(check["hint"]) for check in found["checks"] if check.get("hint")}
    assert len(lines) == 1 + len(found["checks"]) + len(hints) + 1
    assert lines[-1] == f"gpu-smoke: {safe_line(found['summary'])}"


@given(records)
def test_the_guest_attribute_is_small_json(found: dict[str, Any]) -> None:
    value = guest_attribute(found)
    assert len(value.encode()) < 1000
    said = json.loads(value)
    assert said.keys() == {"verdict", "exit_code", "summary"}
    assert safe_line(found["summary"]).startswith(said["summary"])


@given(texts, st.integers(0, 50))
def test_cut_returns_the_longest_prefix_that_fits(text: str, limit: int) -> None:
    clean = text.encode("utf-8", "replace").decode()
    kept = cut(clean, limit)
    assert clean.startswith(kept)
    assert len(kept.encode()) <= limit
    assert kept == clean or len(clean[: len(kept) + 1].encode()) > limit


@pytest.mark.slow
def test_ten_thousand_checks_and_texts_of_a_megabyte_stay_within_every_limit() -> None:
    many = record(*[{"message": "é|" * 500, "gpu": at, "hint": "h"} for at in range(10_000)], summary="s" * 1_000_000)
    many["checks"][0]["message"] = "m\x1b" * 500_000
    assert len(message(many).encode()) in (3999, 4000)
    assert len(guest_attribute(many)) < 1000
    assert len(guest_attribute({**many, "summary": "é" * 1000})) < 1000  # six bytes each, as JSON writes it
    assert workflow_commands(many).count("\n") == 10
    assert "::error title=gpu-smoke 9991 more::9991 more of this kind are in the log" in workflow_commands(many)
    for written in (0, 1_000_000, SUMMARY_BYTES - 10):
        text = step_summary(many, written)
        assert written + len(text.encode()) <= SUMMARY_BYTES
        assert text == "" or re.search(r"\n\d+ more checks do not fit here\.\n\n$", text)
    assert step_summary(many, SUMMARY_BYTES - 10) == ""
    assert len(step_summary(many).encode()) > SUMMARY_BYTES - 10_000
    # GitLab reads files of less than 30 MB.
    assert len(junit(many).encode()) < 30_000_000
    assert len(suite_of(many).findall("testcase")) == 10_000
    assert len(prometheus(many).splitlines()) == 10_000 + 8
    assert len(table(many, io.StringIO()).splitlines()) == 10_003


@pytest.mark.parametrize(
    ("check", "text"),
    [
        ({"fail_below": 18, "warn_below": 21.6, "unit": "TFLOPS"}, ">= 18 TFLOPS"),
        ({"warn_below": 21.6}, ">= 21.6"),
        ({"fail_above": 1e-05, "unit": "\x1b"}, "<= 1e-05"),
        ({"fail_above": "much"}, ""),
        ({"fail_above": float("nan")}, ""),
        ({}, ""),
    ],
)
def test_a_limit_is_the_bound_that_fails_with_its_unit(check: dict[str, Any], text: str) -> None:
    assert limits(check) == text


@pytest.mark.parametrize("value", [True, "1", None, float("inf"), float("nan"), 10**400, []])
def test_a_value_that_is_not_a_finite_number_becomes_none(value: Any) -> None:
    assert number(value) is None


def test_the_worst_of_two_checks_of_one_place_is_the_metric() -> None:
    text = prometheus(record({"status": "pass", "value": 1}, {"status": "fail", "value": 2}, {"status": "warn"}))
    assert [line for line in text.splitlines() if line.startswith("gpu_smoke_check")] == [
        'gpu_smoke_check{check="gpu.count",gpu="",dtype="",status="fail"} 1',
        'gpu_smoke_check_value{check="gpu.count",gpu="",dtype="",unit=""} 2',
    ]


def test_metrics_of_a_pass_with_a_floor() -> None:
    speed = {"id": "gemm.speed", "status": "pass", "gpu": 0, "dtype": "float16", "value": 24.25, "unit": "TFLOPS"}
    found = record(
        {**speed, "fail_below": 18},
        verdict="pass", exit_code=0, started="2026-01-02T03:04:05Z", seconds=31.4, pool={"name": 'a "b\\'},
        tool="0.1.0", gpus=[{"index": 0, "name": "Tesla T4", "uuid": "GPU-1", "cc": "7.5"}],
    )  # fmt: skip
    pool, place = 'pool="a \\"b\\\\"', 'check="gemm.speed",gpu="0",dtype="float16"'
    assert [line for line in prometheus(found).splitlines() if not line.startswith("#")] == [
        f"gpu_smoke_ok{{{pool}}} 1",
        f"gpu_smoke_exit_code{{{pool}}} 0",
        f"gpu_smoke_timestamp_seconds{{{pool}}} 1767323045",
        f"gpu_smoke_duration_seconds{{{pool}}} 31.4",
        f'gpu_smoke_info{{{pool},tool="0.1.0",torch="",driver=""}} 1',
        f'gpu_smoke_gpu_info{{{pool},gpu="0",name="Tesla T4",uuid="GPU-1",compute_capability="7.5"}} 1',
        f'gpu_smoke_check{{{pool},{place},status="pass"}} 1',
        f'gpu_smoke_check_value{{{pool},{place},unit="TFLOPS"}} 24.25',
        f'gpu_smoke_check_limit{{{pool},{place},limit="fail_below",unit="TFLOPS"}} 18',
    ]


def test_junit_of_each_status() -> None:
    found = record(
        {"status": "pass"}, {"status": "warn"}, {"status": "skip"}, {"severity": "env", "hint": "look"},
        {"status": "error"}, pool={"name": "l4"}, seconds=1.5, started="2026-01-02T03:04:05Z", exit_code=2,
    )  # fmt: skip
    suite = suite_of(found)
    assert suite.attrib == {
        "name": "l4", "tests": "5", "failures": "1", "errors": "1", "skipped": "1", "time": "1.500",
        "timestamp": "2026-01-02T03:04:05",
    }  # fmt: skip
    properties, *cases = suite
    assert [tuple(each.attrib.values()) for each in properties] == [("verdict", "fail"), ("exit_code", "2")]
    assert [case.attrib["name"] for case in cases] == ["gpu.count", *(f"gpu.count ({n})" for n in (2, 3, 4, 5))]
    assert [(case[0].tag, case[0].attrib, case[0].text) for case in cases] == [
        ("system-out", {}, "1 GPU found"),
        ("system-out", {}, "warning: 1 GPU found"),
        ("skipped", {"message": "1 GPU found"}, None),
        ("failure", {"message": "1 GPU found", "type": "env"}, "1 GPU found; hint: look"),
        ("error", {"message": "1 GPU found", "type": "error"}, "1 GPU found"),
    ]


def test_a_run_that_was_killed_is_no_pass_in_any_form() -> None:
    found = record({"status": "pass"}, verdict="incomplete", summary="the check has not ended", exit_code=None)
    assert 'errors="1"' in junit(found)
    assert "gpu_smoke_ok 0\n" in prometheus(found)
    assert workflow_commands(found) == "::error title=gpu-smoke incomplete::the check has not ended\n"
    assert step_summary(found).startswith("### gpu-smoke: incomplete\n\nthe check has not ended\n")
    assert json.loads(guest_attribute(found))["verdict"] == "incomplete"


def test_a_pass_needs_no_annotation() -> None:
    assert workflow_commands(record({"status": "pass"}, {"status": "skip"}, verdict="pass")) == ""


def test_the_worst_comes_first_in_the_message_and_in_a_steps_summary() -> None:
    found = record({"severity": "env", "message": "a", "hint": "b"}, {"severity": "gpu", "message": "c", "hint": "d"})
    assert message(found) == "1 GPU found\nhint: d\ngpu.count: c\ngpu.count: a\n"
    cells = [unescape(line) for line in step_summary(record({"status": "pass"}, {"status": "warn"}, {})).splitlines()]
    assert [line.split(" | ")[2] for line in cells[-4:-1]] == ["fail", "warn", "pass"]


def test_the_forms_rank_as_the_verdict_does_and_know_every_status() -> None:
    assert [severity for severity in SEVERITIES if severity in judged.EXIT_CODES] == list(judged.EXIT_CODES)
    statuses = PUBLISHED["properties"]["checks"]["items"]["properties"]["status"]["enum"]
    assert set(STATUSES) == set(statuses)
