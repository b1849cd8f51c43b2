"""Tests of reading a report from an untrusted job: accepted if valid, refused with a short message if not."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from gpu_preview.model import Report, Side
from gpu_preview.report.comment import MAX_BYTES, CommentError, load_untrusted

COMMIT = "1f" * 20


def document(**changes: Any) -> dict[str, Any]:
    """Return a report without stacks."""
    side = {"ref": "main", "commit": COMMIT}
    whole = {"version": 1, "madeBy": "gpu-ci 0.1.0", "how": "base", "base": side, "head": side, "stacks": []}
    return whole | changes


def stack(**changes: Any) -> dict[str, Any]:
    return {"stack": "prod", "file": "Pulumi.prod.yaml", "status": "previewed"} | changes


def refused(path: Path, content: str | bytes, commit: str = COMMIT) -> str:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(CommentError) as error:
        load_untrusted(path, commit)
    text = str(error.value)
    assert text.isascii()
    assert len(text) < 1_500
    assert not any(line.startswith("::") for line in text.splitlines())
    return text.replace(str(path), "report.json")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "report.json"


def test_a_report_of_the_runs_commit_is_taken(path: Path) -> None:
    path.write_text(json.dumps(document()))
    side = Side(ref="main", commit=COMMIT)
    assert load_untrusted(path, COMMIT) == Report(made_by="gpu-ci 0.1.0", how="base", base=side, head=side, stacks=())


def test_a_report_of_another_commit_is_refused(path: Path) -> None:
    assert refused(path, json.dumps(document()), "2e" * 20) == (
        f"report.json: head.commit: the report and the run have different commits\n  expected: {'2e' * 20}\n"
        "  hint: check out github.event.pull_request.head.sha, not the merge commit that GitHub creates"
    )


def test_a_report_on_drift_is_refused_for_a_pull_request(path: Path) -> None:
    text = refused(path, json.dumps(document(how="drift")))
    assert text == "report.json: how: a report on drift has no commit\n  expected: base or state, for a pull request"
    assert load_untrusted(path).how == "drift"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"version": 2}, "  version: Input should be 1"),
        ({"madeBy": ["x"]}, "  madeBy: Input should be a valid string"),
        ({"stacks": {"a": 1}}, "  stacks: Input should be a valid array"),
        ({"stacks": [stack(counts={"create": "many"})]}, "  stacks.0.counts.create: Input should be a valid integer,"),
        ({"stacks": [stack(status="merged")]}, "  stacks.0.status: Input should be 'previewed', 'failed',"),
        ({"stacks": [stack(seconds=float("nan"))]}, "  stacks.0.seconds: Input should be a finite number"),
        ({"stacks": [stack(cost={"before": None, "after": {"worstMonthUsd": float("inf")}})]}, "a finite number"),
        ({"stacks": [stack(counts={"create": 10**4299, "delete": 10**4299})]}, "  stacks.0.counts.create: "),
        ({"stacks": [stack(counts={"create": -1})]}, "  stacks.0.counts.create: Input should be greater than or equal"),
        ({"stacks": [stack(counts={"same": 10**9 + 1})]}, "  stacks.0.counts.same: Input should be less than or equal"),
        ({"stacks": [stack(cost={"before": None, "after": {"worstMonthUsd": 1e308}})]}, "Input should be less than or"),
        (
            {"stacks": [stack(cost={"before": {"atMaxUsdPerHour": -0.1}, "after": None})]},
            "Input should be greater than",
        ),
        ({"stacks": [stack(seconds=-1)]}, "  stacks.0.seconds: Input should be greater than or equal to 0"),
        ({"markdown": "# Merge it"}, "  markdown: Extra inputs are not permitted"),
        ({"\u202e::error::x\n": 1}, "  \\u202e::error::x\\n: Extra inputs are not permitted"),
        ({"x" * 10_000: 1}, "  " + "x" * 200 + ": Extra inputs are not permitted"),
    ],
)
def test_an_invalid_report_is_refused_with_the_name_of_the_field(
    path: Path, changes: dict[str, Any], problem: str
) -> None:
    text = refused(path, json.dumps(document(**changes)))
    assert text.startswith("report.json: is no report of version 1\n")
    assert problem in text


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no JSON",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"[" * 1_000_000,
        b'{"a":' * 200_000 + b"1" + b"}" * 200_000,
        b'{"version": 1' + b"0" * 100_000 + b"}",
        b'{"madeBy": "\\ud800"}',
    ],
    ids=["empty", "text", "list", "null", "no UTF-8", "deep lists", "deep maps", "a long number", "half a character"],
)
def test_a_text_that_is_no_json_is_refused(path: Path, content: bytes) -> None:
    assert refused(path, content).startswith("report.json: is no report of version 1\n")


def test_five_of_a_thousand_problems_are_reported(path: Path) -> None:
    text = refused(path, json.dumps(document(stacks=[1] * 1_000)))
    assert text.splitlines()[1:] == [
        *(f"  stacks.{at}: Input should be an object" for at in range(5)),
        "  and 995 more",
    ]


@pytest.mark.parametrize("made_by", ["", "terraform 1.0", "gpu-ci 0.1.0\n::error::x", "gpu-ci 1 @everybody"])
def test_a_report_of_another_program_is_refused(path: Path, made_by: str) -> None:
    text = refused(path, json.dumps(document(madeBy=made_by)))
    assert text == "report.json: madeBy: is no version of gpu-ci\n  expected: for example `gpu-ci 0.1.0`"


def test_a_report_that_is_too_large_is_not_parsed(path: Path) -> None:
    assert refused(path, b" " * (MAX_BYTES + 1)) == "report.json: is larger than 16 MiB"


def test_a_link_is_not_followed(path: Path, tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text(json.dumps(document()))
    path.symlink_to(tmp_path / "other.json")
    with pytest.raises(CommentError, match="cannot be read: Too many levels of symbolic links"):
        load_untrusted(path, COMMIT)


def test_a_folder_and_a_pipe_are_no_report(path: Path, tmp_path: Path) -> None:
    with pytest.raises(CommentError, match="cannot be read"):
        load_untrusted(tmp_path)
    os.mkfifo(path)
    with pytest.raises(CommentError, match="cannot be read"):
        load_untrusted(path)
