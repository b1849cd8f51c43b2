"""Writes a report on its pull request, as one comment that is created once and then updated."""

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

# GitHub's limit: "body is too long (maximum is 65536 characters)".
MAX_CHARACTERS = 65_536
# The account that writes comments with the token of a GitHub job.
AUTHOR = "github-actions[bot]"
_TIMEOUT_SEC = 30
_TRIES = 5
# Longer than most secondary rate limits last, and shorter than the time limit of a job.
_MAX_WAIT_SEC = 300


class CommentError(Exception):
    """The comment was not written. The text says why."""


@dataclass(frozen=True)
class Done:
    """The result of posting the comment."""

    action: str
    """`created`, `updated`, or `left`."""
    text: str


@dataclass(frozen=True)
class Account:
    """The account and the place of the comment."""

    token: str
    api_url: str = "https://api.github.com"
    author: str = AUTHOR
    key: str = ""
    """A text that distinguishes this comment from other comments of the same account on the pull request."""


def post(report: Report | None, head: Head, account: Account, render: Callable[[Report, int], str]) -> Done:
    """Write the comment on the pull request of the run, if the run's commit is still its newest.

    The Markdown is not taken from the pull request: `render` creates it here, from the report's data. A run without a
    report updates an existing comment, which is about an older commit, and creates no new one.

    Raises:
        CommentError: GitHub refused the comment or could not be reached.
    """
    if head.event != "pull_request":
        return Done("left", f"the run was started by {plain(head.event)}, which has no pull request")
    # `written` raises an error for a text that is too long. This first call checks the longest possible text before any
    # request to GitHub: CHANGED is the longest line about the workflow.
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
    """Return the comment's text.

    Args:
        report: The report.
        head: The run.
        account: The account that writes the comment.
        render: Renders a report as Markdown with at most the given number of characters.
        workflow: The line on the workflow that made the report.

    Raises:
        CommentError: the text is longer than GitHub accepts.
    """
    note = f"\n<sub>This report comes from {_run(head)}. The code of the pull request could have changed it.</sub>\n"
    first = f"{marker(account.key)}\n" + (f"{workflow}\n\n" if workflow else "")
    rest = render(report, MAX_CHARACTERS - len(note) - len(first) + len(MARKER) + 1).removeprefix(f"{MARKER}\n")
    body = first + rest + note
    if len(body) > MAX_CHARACTERS:
        raise CommentError(f"the comment has {len(body):,} characters\n  expected: at most {MAX_CHARACTERS:,}")
    return body


def _without_report(head: Head, account: Account) -> str:
    """Return the text that replaces the report of an earlier commit or of another base."""
    return f"{marker(account.key)}\nThe run for `{head.commit[:10]}` ended without a report: {_run(head)}.\n"


def _run(head: Head) -> str:
    return f"[the pull request's own run]({head.url})" if head.url else "the pull request's own run"


def _client(account: Account) -> Github:
    # Wait for rate limits. Do not retry after another error of GitHub: the comment may already exist, and would then
    # be created twice.
    retry = GithubRetry(
        total=_TRIES,
        read=0,
        status_forcelist=[429],
        allowed_methods={"GET", "POST", "PATCH"},
        backoff_factor=1,
        max_rate_limit_wait=_MAX_WAIT_SEC,
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
    """Return the earlier comment. Any user can write the marker, so only the account's own comment counts."""
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
