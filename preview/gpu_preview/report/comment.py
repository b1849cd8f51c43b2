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
from .markdown import MARKER
from .pull_requests import Head, find
from .untrusted_report import plain
from .workflow_change import CHANGED, warning

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
    key: str = ""
    """Distinguishes this comment from others that the same account keeps on the pull request; a KEY."""


def post(report: Report | None, head: Head, account: Account, render: Callable[[Report, int], str]) -> Done:
    """Write it on the pull request that the run was for, if that is still at the run's commit.

    Nothing in the comment is the pull request's Markdown: `render` makes it here, from the report's data. A run without
    a report changes a comment that exists, which is about an older commit, and makes none.

    Raises:
        CommentError: GitHub refused, or could not be reached.
    """
    if head.event != "pull_request":
        return Done("left", f"the run was started by {plain(head.event)}, which has no pull request")
    # Before GitHub is asked anything: the longest text that there can be.
    body = _without_report(head, account) if report is None else written(report, head, account, render, CHANGED)
    try:
        with _client(account) as github:
            repository = github.get_repo(head.target)
            found = find(repository, head, report.base.ref if report else None)
            if found.pull is None:
                return Done("left", found.why_not)
            own = _own(found.pull, account)
            if report is None and own is None:
                return Done("left", "the run ended before it wrote a report, and there is no comment of an earlier one")
            if report is not None:
                line = warning(repository, found.pull, head.commit, head.workflows)
                body = written(report, head, account, render, line)
            if own is None:
                made = found.pull.create_issue_comment(body)
                return Done("created", made.html_url)
            own.edit(body)
            return Done("updated", own.html_url)
    except GithubException as error:
        raise CommentError(_refusal(error)) from None
    except RequestException as error:
        raise CommentError(f"GitHub at {account.api_url} gave no answer: {type(error).__name__}") from None


def marker(key: str) -> str:
    """The first line of the comment."""
    return f"<!-- gpu-ci-preview {key} -->" if key else MARKER


def written(
    report: Report, head: Head, account: Account, render: Callable[[Report, int], str], workflow: str = ""
) -> str:
    """The comment's text. CommentError where it is longer than GitHub takes.

    Args:
        report: what it says.
        head: the run.
        account: whose comment it is.
        render: makes the Markdown of a report, at most so many characters.
        workflow: the line on the workflow that made the report.
    """
    note = f"\n<sub>Made from {_run(head)}, which its code could have made say anything.</sub>\n"
    first = f"{marker(account.key)}\n" + (f"{workflow}\n\n" if workflow else "")
    rest = render(report, MOST_CHARACTERS - len(note) - len(first) + len(MARKER) + 1).removeprefix(f"{MARKER}\n")
    body = first + rest + note
    if len(body) > MOST_CHARACTERS:
        raise CommentError(f"the comment has {len(body):,} characters\n  expected: at most {MOST_CHARACTERS:,}")
    return body


def _without_report(head: Head, account: Account) -> str:
    """Instead of what an earlier run said of another commit, or of another base."""
    return f"{marker(account.key)}\nThe run for `{head.commit[:10]}` ended without a report: {_run(head)}.\n"


def _run(head: Head) -> str:
    return f"[the pull request's own run]({head.url})" if head.url else "the pull request's own run"


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


def _own(pull: PullRequest, account: Account) -> IssueComment | None:
    """The comment that was made before. Anybody may write the marker; only the account's own comment is changed."""
    for one in pull.get_issue_comments():
        first = (one.body or "").partition("\n")[0].rstrip("\r")
        if one.user is not None and one.user.login == account.author and first == marker(account.key):
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
