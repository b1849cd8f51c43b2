"""Checks if a pull request changes the workflow that made its report. Such a report is not trustworthy.

The check compares the workflow file in the pull request with the file in the merge base. A run of `on: pull_request`
uses the workflow in the merge commit of the pull request and its base
(docs.github.com/en/actions/reference/workflows-and-actions/events-that-trigger-workflows, pull_request: GITHUB_SHA).
The merge is a three-way merge: a file that the pull request did not change comes from the base.
"""

from __future__ import annotations

from collections.abc import Collection

from github.GithubException import GithubException
from github.PullRequest import PullRequest
from github.Repository import Repository

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
