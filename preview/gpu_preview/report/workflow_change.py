"""Compares the workflow that made a report, in the pull request and where the pull request left its base.

A run of `on: pull_request` takes the workflow from the merge of the pull request into its base, so a pull request can
change what makes its report (docs.github.com/en/actions/reference/workflows-and-actions/events-that-trigger-workflows,
pull_request: GITHUB_SHA is the merge commit). GitHub merges by three ways: a file that is in the pull request as it is
in the common commit comes from the base.
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
    """The line about these workflows; empty where the pull request changes none of them.

    Args:
        repository: the one the pull request is in; it has the commits of forks too.
        pull: the pull request.
        commit: its newest commit, which the run was for.
        paths: the files of the run's workflows in the repository; empty where GitHub did not name them.
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
    # A token that may not read gets 404 for every file of a private repository, as for a file that is missing.
    return UNKNOWN if any(before is None for before, _ in found) else ""


def _blob(repository: Repository, path: str, commit: str) -> str | None:
    """Git's name of the file's content; None where the file is missing."""
    try:
        content = repository.get_contents(path, ref=commit)
    except GithubException as error:
        if error.status == 404:
            return None
        raise
    return None if isinstance(content, list) else content.sha
