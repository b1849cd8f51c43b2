"""Writes a report on its pull request, as one comment that is created once and then updated."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from github import Auth, Github, GithubRetry
from github.GithubException import GithubException
from github.IssueComment import IssueComment
from github.PullRequest import PullRequest
from github.Repository import Repository
from pydantic import BaseModel, Field, ValidationError
from requests.exceptions import RequestException

from ..isolation import files
from ..model import Report
from .markdown import MARKER

# GitHub's limit: "body is too long (maximum is 65536 characters)".
MAX_CHARACTERS = 65_536
# The account that writes comments with the token of a GitHub job.
AUTHOR = "github-actions[bot]"
_TIMEOUT_SEC = 30
_TRIES = 5
# Longer than most secondary rate limits last, and shorter than the time limit of a job.
_MAX_WAIT_SEC = 300


class CommentError(Exception):
    """The comment was not written, or the report cannot be shown. The text has no workflow commands."""


class EventError(Exception):
    """The file has no event of `workflow_run`."""


class NoPullRequestError(Exception):
    """No open pull request has the commit of the run. The text says why."""


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
            pull = find(repository, head, report.base.ref if report else None)
            own = _own(pull, account)
            if report is None and own is None:
                return Done("left", "the run ended before it wrote a report, and there is no comment of an earlier one")
            if report is not None:
                line = warning(repository, pull, head.commit, head.workflows)
                body = written(report, head, account, render, line)
            if own is None:
                made = pull.create_issue_comment(body)
                return Done("created", made.html_url)
            own.edit(body)
            return Done("updated", own.html_url)
    except NoPullRequestError as error:
        return Done("left", str(error))
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


Text = Annotated[str, Field(min_length=1)]


class _Repository(BaseModel):
    full_name: Text


# The fields of `workflow_run` in the event's schema (octokit/webhooks, payload-schemas/api.github.com/workflow_run).
class _Run(BaseModel):
    event: Text
    head_sha: Text
    # Both are null for a deleted fork.
    head_branch: Text | None
    head_repository: _Repository | None
    html_url: str = ""
    path: str = ""
    referenced_workflows: list[dict[str, Any]] | None = None


class _Event(BaseModel):
    workflow_run: _Run
    repository: _Repository


@dataclass(frozen=True)
class Head:
    """The commit and branch of the run. They come from GitHub, not from the run itself."""

    commit: str
    branch: str
    repository: str
    """The repository of the branch, such as `somebody/gpu-ci`. For a fork it differs from that of the pull request.
    Empty if the fork is deleted."""
    target: str
    """The repository of the run, which has the pull request."""
    event: str
    """The event that started the run: `pull_request`."""
    url: str
    """The page of the run."""
    workflows: tuple[str, ...] = ()
    """The workflow files of the run in the target repository: its own file, and the files that it calls."""

    @classmethod
    def read(cls, file: Path) -> Head:
        """Read the event from the file in GITHUB_EVENT_PATH. EventError for another event."""
        try:
            found = _Event.model_validate_json(file.read_bytes())
        except OSError as error:
            raise EventError(f"{file}: cannot be read: {error.strerror}") from None
        except ValidationError as error:
            names = ", ".join(".".join(map(str, one["loc"])) for one in error.errors())
            raise EventError(
                f"{file}: is not the event of a workflow_run\n  missing or wrong: {names or 'the JSON itself'}\n"
                "  hint: this belongs in a workflow that begins with on: workflow_run\n"
                "    (docs/guides/preview-on-github.md)"
            ) from None
        run = found.workflow_run
        return cls(
            commit=run.head_sha,
            branch=run.head_branch or "",
            repository=run.head_repository.full_name if run.head_repository else "",
            target=found.repository.full_name,
            event=run.event,
            url=run.html_url,
            workflows=tuple(_files(run, found.repository.full_name)),
        )


def _files(run: _Run, target: str) -> Iterable[str]:
    """Return the workflow files of a run that are in its repository. A called file is named `owner/repo/path@ref`."""
    if run.path:
        yield run.path.partition("@")[0]
    for each in run.referenced_workflows or ():
        path = str(each.get("path")).partition("@")[0]
        if path.lower().startswith(f"{target.lower()}/"):
            yield path[len(target) + 1 :]


def find(repository: Repository, head: Head, base: str | None) -> PullRequest:
    """Return the open pull request whose newest commit is that of the run.

    The event's list of pull requests is empty for forks (github.com/actions/runner/issues/3444), so the search uses the
    branch and its repository. One branch can have several pull requests, each with its own base. Then the base in the
    report selects the pull request. An untrusted report cannot select a pull request with another commit.

    Args:
        repository: The repository with the pull request.
        head: The commit and branch of the run.
        base: The base of the report, such as `origin/main`, or None if the run left no report.

    Raises:
        NoPullRequestError: no pull request has the commit.
    """
    if not head.repository or not head.branch:
        raise NoPullRequestError("the fork that the run was for is deleted")
    owner = head.repository.partition("/")[0]
    # An owner can have two forks; a deleted fork has no repository.
    pulls = repository.get_pulls(state="open", head=f"{owner}:{head.branch}")
    of_branch = [each for each in pulls if each.head.repo and each.head.repo.full_name == head.repository]
    if not of_branch:
        raise NoPullRequestError(f"no open pull request has the branch {plain(head.branch)} of {head.repository}")
    at_commit = [pull for pull in of_branch if pull.head.sha == head.commit]
    if not at_commit:
        newer = ", ".join(f"#{pull.number} is now at {pull.head.sha[:10]}" for pull in of_branch)
        raise NoPullRequestError(
            f"the run was for {head.commit[:10]}, and {newer}; the run for that commit reports on it"
        )
    branch = (base or "").removeprefix("origin/")
    into_base = [pull for pull in at_commit if pull.base.ref == branch]
    # A base that is not a branch, such as a commit, is chosen by the workflow. It does not identify a pull request.
    is_branch = (base or "").startswith("origin/")
    if into_base or (len(at_commit) == 1 and not is_branch):
        return (into_base or at_commit)[0]
    targets = ", ".join(f"the base of #{pull.number} is {plain(pull.base.ref)}" for pull in at_commit)
    report_base = f"the report compares with {plain(base)}" if base else "the run left no report"
    raise NoPullRequestError(f"{report_base}, and {targets}")


CHANGED = "**This pull request changes the workflow that made this report.** Read that change before the report."
UNKNOWN = (
    "Whether this pull request changes the workflow that made this report is not known: the job could not read the "
    "workflow. Its token needs `contents: read`."
)


def warning(repository: Repository, pull: PullRequest, commit: str, paths: Collection[str]) -> str:
    """Return the line about changed workflows, or an empty text if the pull request changes none.

    Args:
        repository: The repository of the pull request. It also has the commits of forks.
        pull: The pull request.
        commit: The commit of the run, which is the newest of the pull request.
        paths: The workflow files of the run in the repository, or none if GitHub did not name them.
    """
    if not paths:
        return UNKNOWN
    try:
        common = repository.compare(pull.base.sha, commit).merge_base_commit.sha
        found = [(_blob(repository, path, common), _blob(repository, path, commit)) for path in paths]
    except GithubException as error:
        if error.status in (403, 404):
            return UNKNOWN
        raise
    if any(before != after for before, after in found):
        return CHANGED
    # A token without read access gets 404 for every file of a private repository, as for a missing file.
    return UNKNOWN if any(before is None for before, _ in found) else ""


def _blob(repository: Repository, path: str, commit: str) -> str | None:
    """Return Git's hash of the file's content, or None if the file is missing."""
    try:
        content = repository.get_contents(path, ref=commit)
    except GithubException as error:
        if error.status == 404:
            return None
        raise
    return None if isinstance(content, list) else content.sha


# A report on 1,000 resources, each with ten properties that differ, is about 4 MiB.
MAX_BYTES = 16 * 1024**2
_MADE_BY = re.compile(r"gpu-ci \d[0-9A-Za-z.+-]{0,60}")
_PROBLEMS = 5
_CHARACTERS = 200


def load_untrusted(path: Path, commit: str = "") -> Report:
    """Return the report.

    Args:
        path: The report file, such as report.json in the folder of the artifact.
        commit: The commit of the run. A report of another commit or without a commit is refused. Reports on drift
            have no commit.

    Raises:
        FileNotFoundError: the report is missing.
        CommentError: the file is not a valid report.
    """
    try:
        report = Report.model_validate_json(_bytes(path))
    except ValidationError as error:
        raise CommentError(_explained(path, error)) from None
    if not _MADE_BY.fullmatch(report.made_by):
        raise CommentError(f"{path}: madeBy: is no version of gpu-ci\n  expected: for example `gpu-ci 0.1.0`")
    if commit and report.how == "drift":
        raise CommentError(f"{path}: how: a report on drift has no commit\n  expected: base, for a pull request")
    if commit and report.head.commit != commit:
        raise CommentError(
            f"{path}: head.commit: the report and the run have different commits\n  expected: {commit}\n"
            "  hint: check out github.event.pull_request.head.sha, not the merge commit that GitHub creates"
        )
    return report


def _bytes(path: Path) -> bytes:
    try:
        with files.open_regular(path) as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CommentError(f"{path}: cannot be read: {error.strerror}\n  expected: a plain file") from None
    if len(content) > MAX_BYTES:
        raise CommentError(f"{path}: is larger than {MAX_BYTES // 1024**2} MiB")
    return content


def _explained(path: Path, error: ValidationError) -> str:
    """Return the problems without the values."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    lines = [f"  {plain('.'.join(map(str, one['loc'])))}: {plain(one['msg'])}" for one in found]
    more = [f"  and {len(lines) - _PROBLEMS} more"] if len(lines) > _PROBLEMS else []
    return "\n".join([f"{path}: is no report of version 1", *lines[:_PROBLEMS], *more])


def plain(text: str) -> str:
    """Return an untrusted text for a log: one short line of ASCII."""
    return ascii(text)[1:-1][:_CHARACTERS]
