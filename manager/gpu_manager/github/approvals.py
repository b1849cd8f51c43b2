"""Decides which workflow runs may use a runner group that public repositories may use.

The workflow file of a pull request comes from its author, so nothing in it protects the machines. A run that only a
person with write access can cause needs no further approval. A run of a fork's pull request needs a comment on the pull
request by such a person, with nothing but `/ok to test` and the full SHA of the run's commit.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote

from ..model import Reason, RunKey, printable
from ..ports import Refused
from .payloads import ListedRun, Payload, read
from .rest_client import FailedAnswer, RestClient

COMMAND = "/ok to test"
_APPROVAL = re.compile(rf"{COMMAND} ([0-9a-f]{{40}})", re.ASCII)
# Only a person with write access causes these events in the repository itself
# (docs.github.com/en/actions/reference/workflows-and-actions/events-that-trigger-workflows). pull_request_target,
# workflow_run and issue_comment run with the repository's secrets, and others can cause them.
_EVENTS = ("push", "merge_group", "schedule", "workflow_dispatch", "pull_request")
# The permission is `write` for the role maintain too, and `read` for triage
# (docs.github.com/en/rest/collaborators/collaborators).
_WRITE = ("admin", "maintain", "write")


class Pull(NamedTuple):
    """An open pull request, with the repository and the SHA of its newest commit."""

    number: int
    base: str
    head: str
    sha: str


class Comment(NamedTuple):
    """A comment on a pull request that approves a commit, if its author has write access."""

    sha: str
    login: str
    user_id: int
    is_person: bool
    edited: bool


def refusal(client: RestClient, key: RunKey, run: ListedRun) -> Reason | None:
    """Return why no machine may run the jobs of a run, or None. A question without an answer is a reason.

    Raises Unavailable if GitHub cannot be asked at all.
    """
    if run.event not in _EVENTS:
        detail = f"the event {run.event} may run the code of a fork with the rights of the repository"
        return Reason("no-pool", f"{detail}; the runner group takes runs of {', '.join(_EVENTS)}")
    if run.is_own:
        return None
    if run.event != "pull_request" or not run.head_repository:
        return Reason("no-pool", "the repository of its commit is unknown or deleted, so no comment can approve it")
    try:
        return _of_fork(client, key, run)
    except (FailedAnswer, Refused) as error:
        return Reason("no-answer", f"the approval of {run.head_sha} could not be read: {error}")


def _of_fork(client: RestClient, key: RunKey, run: ListedRun) -> Reason | None:
    """Return why the run of a fork's pull request is not approved, or None."""
    repository = f"/repos/{quote(key.repository)}"
    # A run of a fork does not name its pull request (github/docs#22501).
    owner = run.head_repository.partition("/")[0]
    pulls = client.array(f"{repository}/pulls", _pull, state="open", head=f"{owner}:{run.head_branch}")
    commit = (run.repository.lower(), run.head_repository.lower(), run.head_sha)
    numbers = [pull.number for pull in pulls if pull[1:] == commit]
    if not numbers:
        text = "no open pull request has this commit as its newest one; a new commit needs its own run and approval"
        return Reason("approval-pending", f"{run.head_sha}: {text}")
    ignored = []
    for number in numbers:
        path = f"{repository}/issues/{number}/comments"
        # Anyone may repeat a comment, and each author costs a request.
        for comment in dict.fromkeys(client.array(path, _comment)):
            if comment is None or comment.sha != run.head_sha:
                continue
            if not (problem := _problem(client, repository, comment)):
                return None
            ignored.append(f"the comment of {printable(comment.login)} does not count: {problem}")
    wanted = (
        f"someone with write access to {key.repository} must read the commit, and then comment on the pull request "
        f"{numbers[0]}, with nothing else: {COMMAND} {run.head_sha}"
    )
    return Reason("approval-pending", "; ".join([wanted, *ignored[-3:]]))


def _problem(client: RestClient, repository: str, comment: Comment) -> str:
    """Return why a comment approves nothing, or ""."""
    if comment.edited:
        return "it was edited"
    if not comment.is_person:
        return "its author is not a person"
    found = client.find(f"{repository}/collaborators/{quote(comment.login, safe='')}/permission") or {}
    # A login can be given to another account later.
    same = read("a permission", lambda: (found.get("user") or {}).get("id")) == comment.user_id
    return "" if same and found.get("permission") in _WRITE else "its author has no write access"


# The client keeps what these functions return for later runs, so they must not depend on a run.
def _pull(payload: Payload) -> Pull:
    head, base = payload["head"], payload["base"]
    names = (str(base["repo"]["full_name"]).lower(), str((head["repo"] or {}).get("full_name")).lower())
    return Pull(int(payload["number"]), *names, str(head["sha"]))


def _comment(payload: Payload) -> Comment | None:
    """Return a comment that approves a commit, or None for any other text."""
    approval = _APPROVAL.fullmatch((payload["body"] or "").strip())
    if approval is None:
        return None
    user = payload["user"] or {"login": "a deleted account", "id": 0, "type": ""}
    edited = payload["created_at"] != payload["updated_at"]
    return Comment(approval[1], str(user["login"]), int(user["id"]), user["type"] == "User", edited)
