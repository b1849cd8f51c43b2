"""Finds the pull request of a run, from the event of a `workflow_run` job."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from github.PullRequest import PullRequest
from github.Repository import Repository
from pydantic import BaseModel, Field, ValidationError

from .untrusted_report import plain

Text = Annotated[str, Field(min_length=1)]


class EventError(Exception):
    """The file has no event of `workflow_run`."""


class _Owner(BaseModel):
    login: Text


class _Repository(BaseModel):
    full_name: Text
    owner: _Owner


class _Workflow(BaseModel):
    path: Text


# The fields of `workflow_run` in the event's schema (octokit/webhooks, payload-schemas/api.github.com/workflow_run).
class _Run(BaseModel):
    event: Text
    head_sha: Text
    # Both are null for a deleted fork.
    head_branch: Text | None
    head_repository: _Repository | None
    html_url: str = ""
    path: str = ""
    referenced_workflows: list[_Workflow] | None = None


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

    @property
    def owner(self) -> str:
        return self.repository.partition("/")[0]

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
        path = each.path.partition("@")[0]
        if path.lower().startswith(f"{target.lower()}/"):
            yield path[len(target) + 1 :]


@dataclass(frozen=True)
class Search:
    """The result of the search for the pull request."""

    pull: PullRequest | None
    why_not: str = ""


def find(repository: Repository, head: Head, base: str | None) -> Search:
    """Return the open pull request whose newest commit is that of the run.

    The event's list of pull requests is empty for forks (github.com/actions/runner/issues/3444), so the search uses the
    branch and its repository. One branch can have several pull requests, each with its own base. Then the base in the
    report selects the pull request. An untrusted report cannot select a pull request with another commit.

    Args:
        repository: The repository with the pull request.
        head: The commit and branch of the run.
        base: The base of the report, such as `origin/main`, or None if the run left no report.
    """
    if not head.repository or not head.branch:
        return Search(None, "the fork that the run was for is deleted")
    of_branch = list(_of_branch(repository.get_pulls(state="open", head=f"{head.owner}:{head.branch}"), head))
    if not of_branch:
        return Search(None, f"no open pull request has the branch {plain(head.branch)} of {head.repository}")
    at_commit = [pull for pull in of_branch if pull.head.sha == head.commit]
    if not at_commit:
        newer = ", ".join(f"#{pull.number} is now at {pull.head.sha[:10]}" for pull in of_branch)
        return Search(None, f"the run was for {head.commit[:10]}, and {newer}; the run for that commit reports on it")
    branch = (base or "").removeprefix("origin/")
    into_base = [pull for pull in at_commit if pull.base.ref == branch]
    # A base that is not a branch, such as a commit, is chosen by the workflow. It does not identify a pull request.
    is_branch = (base or "").startswith("origin/")
    if into_base or (len(at_commit) == 1 and not is_branch):
        return Search((into_base or at_commit)[0])
    targets = ", ".join(f"the base of #{pull.number} is {plain(pull.base.ref)}" for pull in at_commit)
    report_base = f"the report compares with {plain(base)}" if base else "the run left no report"
    return Search(None, f"{report_base}, and {targets}")


def _of_branch(pulls: Iterable[PullRequest], head: Head) -> Iterable[PullRequest]:
    """Return the pull requests from the run's repository. An owner can have two forks; a deleted fork has none."""
    return (pull for pull in pulls if pull.head.repo is not None and pull.head.repo.full_name == head.repository)
