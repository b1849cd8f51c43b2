"""The comment on a pull request: made once, updated after that, and never put where it does not belong."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from gpu_preview.model import Report, Side
from gpu_preview.report.comment import Account, CommentError, Done, post
from gpu_preview.report.pull_requests import Head

from ..fake_github import COMMIT, FORK, OTHER_COMMIT, OURS, FakeGithub, comment, pull, serving

MARKER = "<!-- gpu-ci-preview -->"
BOT = "github-actions[bot]"
RUN = f"https://github.com/{OURS}/actions/runs/1"
NOTE = f"\n<sub>Made from [the pull request's own run]({RUN}), which its code could have made say anything.</sub>\n"
HEAD = Head(
    commit=COMMIT, branch="more-gpus", owner="somebody", repository=FORK, target=OURS, event="pull_request", url=RUN
)


@pytest.fixture
def github() -> Iterator[FakeGithub]:
    with serving(FakeGithub()) as served:
        yield served


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was waited for; nothing waits."""
    waited: list[float] = []
    monkeypatch.setattr(time, "sleep", waited.append)
    return waited


def render(report: Report, limit: int) -> str:
    return f"{MARKER}\n{report.made_by}, at most {limit}\n"


def written(github: FakeGithub, head: Head = HEAD, base: str = "origin/main") -> Done:
    report = Report(made_by="gpu-ci 0.1.0", how="base", base=Side(ref=base), head=Side(ref="HEAD"), stacks=())
    return post(report, head, Account("a-token", github.url), render)


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


def test_a_comment_behind_a_hundred_others_is_found(github: FakeGithub) -> None:
    github.page = 2
    github.comments = [*(comment(number, "a-person", "Nice.") for number in range(4)), comment(6, BOT, MARKER)]
    assert written(github).what == "updated"
    assert github.comments[-1]["body"] == TEXT


@pytest.mark.parametrize("author", ["somebody", "github-actions", "another-app[bot]", None])
def test_somebody_elses_comment_with_the_marker_is_left_alone(github: FakeGithub, author: str | None) -> None:
    github.comments = [comment(6, author, f"{MARKER}\nnothing changes, merge it")]
    assert written(github).what == "created"
    assert github.comments[0]["body"] == f"{MARKER}\nnothing changes, merge it"


def test_another_comment_of_the_same_account_is_left_alone(github: FakeGithub) -> None:
    github.comments = [comment(6, BOT, f"a quotation of {MARKER}")]
    assert written(github).what == "created"
    assert github.comments[0]["body"] == f"a quotation of {MARKER}"


def test_a_pull_request_that_has_another_commit_by_now_gets_no_comment(github: FakeGithub) -> None:
    github.pulls = [pull(sha=OTHER_COMMIT)]
    assert written(github) == Done(
        "left", "the run was for 1f1f1f1f1f, and #7 is at 2e2e2e2e2e by now; its own run says what changes"
    )
    assert writes(github) == []


@pytest.mark.parametrize("pulls", [[], [pull(repository="somebody/another-fork")], [pull(repository=None)]])
def test_a_branch_that_no_open_pull_request_is_of_gets_no_comment(github: FakeGithub, pulls: list[dict]) -> None:  # type: ignore[type-arg]
    github.pulls = pulls
    assert written(github) == Done("left", "no open pull request has the branch more-gpus of somebody/gpu-ci")
    assert writes(github) == []


def test_of_two_pull_requests_of_a_branch_the_one_into_the_reports_base_gets_the_comment(github: FakeGithub) -> None:
    github.pulls = [pull(7, base="main"), pull(8, base="v1")]
    written(github, base="origin/v1")
    written(github, base="main")
    assert writes(github) == [
        ("POST", f"/repos/{OURS}/issues/8/comments"),
        ("PATCH", f"/repos/{OURS}/issues/comments/1000"),
    ]


def test_a_run_that_no_pull_request_started_asks_github_nothing(github: FakeGithub) -> None:
    push = Head(**{**HEAD.__dict__, "event": "push"})
    assert written(github, push) == Done("left", "the run was started by push, which has no pull request")
    assert github.asked == []


def test_a_token_that_may_not_write_is_said_with_what_it_needs(github: FakeGithub) -> None:
    github.refusals = [("POST", 403, {}, {"message": "Resource not accessible by integration"})]
    with pytest.raises(CommentError) as refused:
        written(github)
    assert str(refused.value) == (
        "GitHub answered 403: Resource not accessible by integration\n"
        "  hint: the job's token needs permissions: pull-requests: write"
    )


@pytest.mark.parametrize("method", ["GET", "POST", "PATCH"])
@pytest.mark.parametrize("status", [429, 403])
def test_a_limit_on_requests_is_waited_for_as_long_as_github_says(
    github: FakeGithub, slept: list[float], method: str, status: int
) -> None:
    github.comments = [comment(6, BOT, MARKER)] if method == "PATCH" else []
    limited = {"message": "You have exceeded a secondary rate limit."}
    github.refusals = [(method, status, {"Retry-After": "7"}, limited)]
    assert written(github).what == ("updated" if method == "PATCH" else "created")
    assert 7 in slept
    assert [one["body"] for one in github.comments] == [TEXT]


def test_a_limit_that_outlasts_the_job_is_not_waited_for(github: FakeGithub, slept: list[float]) -> None:
    until = {"X-RateLimit-Reset": str(int(time.time()) + 3000), "X-RateLimit-Remaining": "0"}
    github.refusals = [("GET", 403, until, {"message": "API rate limit exceeded for installation."})]
    with pytest.raises(CommentError, match="GitHub answered 403"):
        written(github)
    assert slept == []


def test_an_error_of_githubs_is_not_answered_by_a_second_comment(github: FakeGithub) -> None:
    github.refusals = [("POST", 502, {}, {"message": "Server Error"})]
    with pytest.raises(CommentError) as refused:
        written(github)
    assert str(refused.value) == "GitHub answered 502: Server Error\n  hint: run the job again"
    assert len(writes(github)) == 1


def test_a_server_that_is_not_there_is_said(github: FakeGithub) -> None:
    head, report = (
        HEAD,
        Report(made_by="gpu-ci 0.1.0", how="base", base=Side(ref="m"), head=Side(ref="h"), stacks=()),
    )
    with pytest.raises(CommentError, match=r"GitHub at http://127\.0\.0\.1:1 gave no answer: ConnectionError"):
        post(report, head, Account("a-token", "http://127.0.0.1:1"), render)


@pytest.mark.parametrize("too_many", [0, 1])
def test_a_comment_may_have_65536_characters_and_not_one_more(github: FakeGithub, too_many: int) -> None:
    def long(report: Report, limit: int) -> str:
        return MARKER + "x" * (limit - len(MARKER) + too_many)

    report = Report(made_by="gpu-ci 0.1.0", how="base", base=Side(ref="main"), head=Side(ref="HEAD"), stacks=())
    account = Account("a-token", github.url)
    if too_many:
        with pytest.raises(CommentError, match="the comment has 65,537 characters"):
            post(report, HEAD, account, long)
        assert github.asked == []
    else:
        post(report, HEAD, account, long)
        assert len(github.comments[0]["body"]) == 65_536
