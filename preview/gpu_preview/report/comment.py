"""Puts a report on its pull request: one comment, made the first time and kept up to date after that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from github import Auth, Github, GithubRetry
from github.GithubException import GithubException
from github.IssueComment import IssueComment
from github.PullRequest import PullRequest
from requests.exceptions import RequestException

from ..model import Report
from .pull_requests import Head, find
from .untrusted_report import plain

# What GitHub takes: "body is too long (maximum is 65536 characters)".
MOST_CHARACTERS = 65_536
# The account whose comments a job writes with the token that GitHub gives it.
AUTHOR = "github-actions[bot]"
_TIMEOUT_SEC = 30
_TRIES = 5
# Longer than a secondary limit lasts as a rule, and shorter than a job may take.
_MOST_WAIT_SEC = 300


class CommentError(Exception):
    """The comment is not there; the text says why."""


@dataclass(frozen=True)
class Done:
    """What became of it."""

    what: str
    """`created`, `updated`, or `left`."""
    text: str


@dataclass(frozen=True)
class Account:
    """Who writes, and where."""

    token: str
    api_url: str = "https://api.github.com"
    author: str = AUTHOR


def post(report: Report, head: Head, account: Account, render: Callable[[Report, int], str]) -> Done:
    """Write it on the pull request that the run was for, if that is still at the run's commit.

    Nothing in the comment is the pull request's Markdown: `render` makes it here, from the report's data.

    Raises:
        CommentError: GitHub refused, or could not be reached.
    """
    if head.event != "pull_request":
        return Done("left", f"the run was started by {plain(head.event)}, which has no pull request")
    body = written(report, head, render)
    try:
        with _client(account) as github:
            found = find(github.get_repo(head.target), head, report.base.ref)
            if found.pull is None:
                return Done("left", found.why_not)
            own = _own(found.pull, account.author, body.partition("\n")[0])
            if own is None:
                made = found.pull.create_issue_comment(body)
                return Done("created", made.html_url)
            own.edit(body)
            return Done("updated", own.html_url)
    except GithubException as error:
        raise CommentError(_refusal(error)) from None
    except RequestException as error:
        raise CommentError(f"GitHub at {account.api_url} gave no answer: {type(error).__name__}") from None


def written(report: Report, head: Head, render: Callable[[Report, int], str]) -> str:
    """The comment's text. CommentError where it is longer than GitHub takes."""
    run = f"[the pull request's own run]({head.url})" if head.url else "the pull request's own run"
    note = f"\n<sub>Made from {run}, which its code could have made say anything.</sub>\n"
    body = render(report, MOST_CHARACTERS - len(note)) + note
    if len(body) > MOST_CHARACTERS:
        raise CommentError(f"the comment has {len(body):,} characters\n  expected: at most {MOST_CHARACTERS:,}")
    return body


def _client(account: Account) -> Github:
    # A limit on requests is waited for. An error of GitHub's is not answered by another try: the comment may be there,
    # and would be made twice.
    retry = GithubRetry(
        total=_TRIES,
        read=0,
        status_forcelist=[429],
        allowed_methods={"GET", "POST", "PATCH"},
        backoff_factor=1,
        max_rate_limit_wait=_MOST_WAIT_SEC,
    )
    return Github(
        auth=Auth.Token(account.token),
        base_url=account.api_url,
        timeout=_TIMEOUT_SEC,
        per_page=100,
        retry=retry,
        lazy=True,
    )


def _own(pull: PullRequest, author: str, marker: str) -> IssueComment | None:
    """The comment that was made before. Anybody may write the marker; only the account's own comment is changed."""
    for one in pull.get_issue_comments():
        if one.user is not None and one.user.login == author and (one.body or "").startswith(marker):
            return one
    return None


def _refusal(error: GithubException) -> str:
    message = error.data.get("message") if isinstance(error.data, dict) else None
    lines = [f"GitHub answered {error.status}: {plain(str(message or 'without a reason'))}"]
    if error.status in (401, 403, 404):
        lines.append("  hint: the job's token needs permissions: pull-requests: write")
    elif error.status >= 500:
        lines.append("  hint: run the job again")
    return "\n".join(lines)
