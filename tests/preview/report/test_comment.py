"""Tests of the comment on a pull request: created once, then updated, and only on the right pull request."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gpu_preview.model import Report, Side
from gpu_preview.report.comment import MAX_BYTES, Account, CommentError, Done, Head, load_untrusted, post
from hypothesis import given
from jsonschema import Draft202012Validator

from tests.preview import hostile, reports
from tools.docs import tables

from ..fake_github import COMMIT, FORK, OTHER_COMMIT, OURS, WORKFLOW, FakeGithub, comment, pull, serving

MARKER = "<!-- gpu-ci-preview -->"
BOT = "github-actions[bot]"
RUN = f"https://github.com/{OURS}/actions/runs/1"
NOTE = (
    f"\n<sub>This report comes from [the pull request's own run]({RUN}). "
    "The code of the pull request could have changed it.</sub>\n"
)
HEAD = Head(
    commit=COMMIT,
    branch="more-gpus",
    repository=FORK,
    target=OURS,
    event="pull_request",
    url=RUN,
    workflows=(WORKFLOW,),
)


@pytest.fixture
def github() -> Iterator[FakeGithub]:
    with serving(FakeGithub()) as served:
        yield served


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Replace time.sleep, and return the list of the requested seconds."""
    waited: list[float] = []
    monkeypatch.setattr(time, "sleep", waited.append)
    return waited


def render(report: Report, limit: int) -> str:
    return f"{MARKER}\n{report.made_by}, at most {limit}\n"


def written(github: FakeGithub, head: Head = HEAD, base: str = "origin/main", key: str = "") -> Done:
    report = Report(made_by="gpu-ci 0.1.0", how="base", base=Side(ref=base), head=Side(ref="HEAD"), stacks=())
    return post(report, head, Account("a-token", github.url, key=key), render)


def ended_without(github: FakeGithub, head: Head = HEAD, key: str = "") -> Done:
    return post(None, head, Account("a-token", github.url, key=key), render)


def writes(github: FakeGithub) -> list[tuple[str, str]]:
    return [one for one in github.asked if one[0] != "GET"]


TEXT = f"{MARKER}\ngpu-ci 0.1.0, at most {65_536 - len(NOTE)}\n{NOTE}"


def test_the_first_report_on_a_pull_request_makes_a_comment(github: FakeGithub) -> None:
    assert written(github) == Done("created", f"https://github.com/{OURS}/pull/7#made")
    assert [one["body"] for one in github.comments] == [TEXT]
    assert writes(github) == [("POST", f"/repos/{OURS}/issues/7/comments")]
    assert github.tokens == {"token a-token"}


def test_the_next_report_replaces_the_text_of_that_comment(github: FakeGithub) -> None:
    github.comments = [comment(5, "a-person", "Nice."), comment(6, BOT, f"{MARKER}\nthe report before")]
    assert written(github) == Done("updated", f"https://github.com/{OURS}/pull/7#issuecomment-6")
    assert [one["body"] for one in github.comments] == ["Nice.", TEXT]
    assert writes(github) == [("PATCH", f"/repos/{OURS}/issues/comments/6")]


@pytest.mark.parametrize("author", ["somebody", "github-actions", "another-app[bot]", None])
def test_a_comment_of_another_account_with_the_marker_is_not_changed(github: FakeGithub, author: str | None) -> None:
    github.comments = [comment(6, author, f"{MARKER}\nnothing changes, merge it")]
    assert written(github).action == "created"
    assert github.comments[0]["body"] == f"{MARKER}\nnothing changes, merge it"


def test_a_pull_request_that_has_another_commit_by_now_gets_no_comment(github: FakeGithub) -> None:
    github.pulls = [pull(sha=OTHER_COMMIT)]
    assert written(github) == Done(
        "left", "the run was for 1f1f1f1f1f, and #7 is now at 2e2e2e2e2e; the run for that commit reports on it"
    )
    assert writes(github) == []


@pytest.mark.parametrize("pulls", [[], [pull(repository="somebody/another-fork")], [pull(repository=None)]])
def test_a_branch_that_no_open_pull_request_is_of_gets_no_comment(github: FakeGithub, pulls: list[dict]) -> None:  # type: ignore[type-arg]
    github.pulls = pulls
    assert written(github) == Done("left", "no open pull request has the branch more-gpus of somebody/gpu-ci")
    assert writes(github) == []


def test_the_pull_request_into_the_reports_base_gets_the_comment(github: FakeGithub) -> None:
    github.pulls = [pull(7, base="main"), pull(8, base="v1")]
    written(github, base="origin/v1")
    written(github, base="main")
    assert writes(github) == [
        ("POST", f"/repos/{OURS}/issues/8/comments"),
        ("PATCH", f"/repos/{OURS}/issues/comments/1000"),
    ]


@pytest.mark.parametrize("method", ["GET", "POST", "PATCH"])
@pytest.mark.parametrize("status", [429, 403])
def test_a_limit_on_requests_is_waited_for_as_long_as_github_says(
    github: FakeGithub, slept: list[float], method: str, status: int
) -> None:
    github.comments = [comment(6, BOT, MARKER)] if method == "PATCH" else []
    limited = {"message": "You have exceeded a secondary rate limit."}
    github.refusals = [(method, status, {"Retry-After": "7"}, limited)]
    assert written(github).action == ("updated" if method == "PATCH" else "created")
    assert 7 in slept
    assert [one["body"] for one in github.comments] == [TEXT]


def test_an_error_of_githubs_is_not_answered_by_a_second_comment(github: FakeGithub) -> None:
    github.refusals = [("POST", 502, {}, {"message": "Server Error"})]
    with pytest.raises(CommentError) as refused:
        written(github)
    assert str(refused.value) == "GitHub answered 502: Server Error\n  hint: run the job again"
    assert len(writes(github)) == 1


@pytest.mark.parametrize("too_many", [0, 1])
def test_a_comment_may_have_65536_characters_and_not_one_more(github: FakeGithub, too_many: int) -> None:
    def long(report: Report, limit: int) -> str:
        return f"{MARKER}\n" + "x" * (limit - len(MARKER) - 1 + too_many)

    report = Report(made_by="gpu-ci 0.1.0", how="base", base=Side(ref="main"), head=Side(ref="HEAD"), stacks=())
    account = Account("a-token", github.url)
    if too_many:
        with pytest.raises(CommentError, match="the comment has 65,537 characters"):
            post(report, HEAD, account, long)
        assert github.asked == []
        return
    post(report, HEAD, account, long)
    assert len(github.comments[0]["body"]) == 65_536
    github.files[COMMIT] = {WORKFLOW: "changed"}
    post(report, HEAD, account, long)
    assert len(github.comments[0]["body"]) == 65_536


# -- a workflow that the pull request changes ---------------------------------

LINE = "**This pull request changes the workflow that made this report.** Read that change before the report."
UNKNOWN = (
    "Whether this pull request changes the workflow that made this report is not known: the job could not read the "
    "workflow. Its token needs `contents: read`."
)


def second_line(github: FakeGithub) -> str:
    return str(github.comments[-1]["body"]).split("\n")[1]


@pytest.mark.parametrize("files", [{WORKFLOW: "cc"}, {}])
def test_a_changed_or_removed_workflow_is_reported(github: FakeGithub, files: dict[str, str]) -> None:
    github.files[COMMIT] = files
    written(github)
    assert second_line(github) == LINE


def test_a_workflow_that_the_base_alone_has_changed_since_is_no_change_of_the_pull_request(github: FakeGithub) -> None:
    assert github.files[OTHER_COMMIT] != github.files[COMMIT]
    written(github)
    assert github.comments[0]["body"] == TEXT


@pytest.mark.parametrize("status", [403, 404])
def test_a_token_that_may_not_read_the_workflow_leaves_it_unknown_and_comments(github: FakeGithub, status: int) -> None:
    github.is_readable, github.unreadable = False, status
    written(github)
    assert second_line(github) == UNKNOWN


def test_a_workflow_that_is_in_neither_commit_is_not_known_to_be_unchanged(github: FakeGithub) -> None:
    for files in github.files.values():
        files.pop(WORKFLOW, None)
    written(github)
    assert second_line(github) == UNKNOWN


def test_a_run_without_a_report_replaces_an_earlier_comment(github: FakeGithub) -> None:
    github.comments = [comment(6, BOT, f"{MARKER}\nnothing changes, at an older commit")]
    assert ended_without(github).action == "updated"
    assert github.comments[0]["body"] == (
        f"{MARKER}\nThe run for `1f1f1f1f1f` ended without a report: [the pull request's own run]({RUN}).\n"
    )


def test_a_run_without_a_report_makes_no_comment(github: FakeGithub) -> None:
    github.comments = [comment(6, "somebody", f"{MARKER}\nmine")]
    assert ended_without(github) == Done(
        "left", "the run ended before it wrote a report, and there is no comment of an earlier one"
    )
    assert writes(github) == []


def test_a_report_for_one_base_is_not_put_on_a_pull_request_into_another(github: FakeGithub) -> None:
    github.pulls = [pull(7, base="v1")]
    github.comments = [comment(6, BOT, f"{MARKER}\nof v1")]
    assert written(github, base="origin/main") == Done(
        "left", "the report compares with origin/main, and the base of #7 is v1"
    )
    assert github.comments[0]["body"] == f"{MARKER}\nof v1"


@pytest.mark.parametrize("base", [OTHER_COMMIT, "v1.2.0"])
def test_a_base_that_is_no_branch_leaves_the_one_pull_request_there_is(github: FakeGithub, base: str) -> None:
    assert written(github, base=base).action == "created"
    github.pulls.append(pull(8, base="v1"))
    assert (
        written(github, base=base).text
        == f"the report compares with {base}, and the base of #7 is main, the base of #8 is v1"
    )


def test_each_key_has_a_comment_of_its_own(github: FakeGithub) -> None:
    for key in ("", "network", "network", ""):
        written(github, key=key)
    first = [one["body"].partition("\n")[0] for one in github.comments]
    assert first == [MARKER, "<!-- gpu-ci-preview network -->"]
    assert ended_without(github, key="other").action == "left"


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
    assert text == "report.json: how: a report on drift has no commit\n  expected: base, for a pull request"
    assert load_untrusted(path).how == "drift"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"version": 2}, "  version: Input should be 1"),
        ({"madeBy": ["x"]}, "  madeBy: Input should be a valid string"),
        ({"stacks": [stack(status="merged")]}, "  stacks.0.status: Input should be 'previewed', 'failed',"),
        ({"stacks": [stack(seconds=float("nan"))]}, "  stacks.0.seconds: Input should be a finite number"),
        ({"stacks": [stack(cost={"before": None, "after": {"worstMonthUsd": float("inf")}})]}, "a finite number"),
        ({"stacks": [stack(counts={"create": 10**4299, "delete": 10**4299})]}, "  stacks.0.counts.create: "),
        ({"stacks": [stack(counts={"create": -1})]}, "  stacks.0.counts.create: Input should be greater than or equal"),
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


@pytest.mark.parametrize("content", [b"", b"null", b"\xff\xfe", b"[" * 1_000_000, b'{"madeBy": "\\ud800"}'])
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


SCHEMA = json.loads(tables.preview_report())
VALIDATOR = Draft202012Validator(SCHEMA)


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@given(hostile.reports)
def test_every_report_is_as_the_schema_says_and_is_read_back_the_same(report: Report) -> None:
    text = report.model_dump_json(by_alias=True)
    assert [error.message for error in VALIDATOR.iter_errors(json.loads(text))] == []
    assert Report.model_validate_json(text) == report


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "1 was expected"),
        ({"how": "guess"}, "'guess' is not one of ['base', 'drift']"),
        ({"extra": 1}, "Additional properties are not allowed ('extra' was unexpected)"),
    ],
)
def test_an_invalid_report_is_refused(change: dict[str, object], words: str) -> None:
    whole = json.loads(reports.REPLACEMENT.model_dump_json(by_alias=True)) | change
    assert [error.message for error in VALIDATOR.iter_errors(whole)] == [words]
