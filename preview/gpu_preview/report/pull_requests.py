"""Which pull request a run was for, from the event that a `workflow_run` job starts with."""

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
    """The file tells of no such event."""


class _Owner(BaseModel):
    login: Text


class _Repository(BaseModel):
    full_name: Text
    owner: _Owner


class _Run(BaseModel):
    event: Text
    head_sha: Text
    head_branch: Text
    head_repository: _Repository
    html_url: str = ""


class _Event(BaseModel):
    workflow_run: _Run
    repository: _Repository


@dataclass(frozen=True)
class Head:
    """What the run was started for. GitHub says it, not the run itself."""

    commit: str
    branch: str
    owner: str
    repository: str
    """Where the branch is, such as `somebody/gpu-ci`: for a fork another one than the pull request's."""
    target: str
    """The repository the run was in, which has the pull request."""
    event: str
    """What started the run: `pull_request`."""
    url: str
    """The page of the run."""

    @classmethod
    def read(cls, file: Path) -> Head:
        """From the file that GITHUB_EVENT_PATH names. EventError for another event's."""
        try:
            found = _Event.model_validate_json(file.read_bytes())
        except OSError as error:
            raise EventError(f"{file}: cannot be read: {error.strerror}") from None
        except ValidationError as error:
            names = ", ".join(".".join(map(str, one["loc"])) for one in error.errors())
            raise EventError(
                f"{file}: is not the event of a workflow_run\n  missing or wrong: {names or 'the JSON itself'}\n"
                "  hint: this belongs in a workflow that begins with on: workflow_run (docs/preview.md)"
            ) from None
        run = found.workflow_run
        return cls(
            commit=run.head_sha,
            branch=run.head_branch,
            owner=run.head_repository.owner.login,
            repository=run.head_repository.full_name,
            target=found.repository.full_name,
            event=run.event,
            url=run.html_url,
        )


@dataclass(frozen=True)
class Search:
    """What came of looking for it."""

    pull: PullRequest | None
    why_not: str = ""


def find(repository: Repository, head: Head, base: str) -> Search:
    """The open pull request whose newest commit the run was for.

    The event's own list of pull requests is empty for those from forks (github.com/actions/runner/issues/3444), so they
    are looked up by where the branch is. One branch may be asked into several others; then the base that the report
    names decides, which can lead to no other commit than this one.
    """
    there = list(_of_branch(repository.get_pulls(state="open", head=f"{head.owner}:{head.branch}"), head))
    if not there:
        return Search(None, f"no open pull request has the branch {plain(head.branch)} of {head.repository}")
    fresh = [pull for pull in there if pull.head.sha == head.commit]
    if not fresh:
        moved = ", ".join(f"#{pull.number} is at {pull.head.sha[:10]}" for pull in there)
        return Search(None, f"the run was for {head.commit[:10]}, and {moved} by now; its own run says what changes")
    named = [pull for pull in fresh if pull.base.ref == base.removeprefix("origin/")]
    return Search((named or fresh)[0])


def _of_branch(pulls: Iterable[PullRequest], head: Head) -> Iterable[PullRequest]:
    """An owner may have two forks of one repository. A fork that is deleted has no repository any more."""
    return (pull for pull in pulls if pull.head.repo is not None and pull.head.repo.full_name == head.repository)
