"""Tests of the comment on a pull request: created once, then updated, and only on the right pull request."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from gpu_preview.model import Report, Side
from gpu_preview.report.comment import Account, CommentError, Done, Head, post

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


# -- stale comments -----------------------------------------------------------


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
