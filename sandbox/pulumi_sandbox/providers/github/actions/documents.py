"""Repositories, runs, jobs, runners and groups in the form of GitHub's REST API.

Only the fields are emulated that the runner manager, the boot agent, `gpu-ci doctor` or a user of the API reads. Source
of the fields and their types: GitHub's OpenAPI description (`@octokit/openapi` 23.0.2).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from pulumi_sandbox.providers.github.actions.state import BRANCH, COMPLETED, DEFAULT_GROUP_ID, EVENT
from pulumi_sandbox.providers.github.repositories import Repository, number
from pulumi_sandbox.providers.github.world import DEFAULT_GROUP
from pulumi_sandbox.providers.inputs import text_of
from pulumi_sandbox.world.store import Record

Json = dict[str, Any]
WEB = "https://github.com"


def instant(unix: float | None) -> str | None:
    """Format a time in GitHub's form, with a resolution of one second."""
    return None if unix is None else datetime.fromtimestamp(int(unix), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def repository(row: Repository) -> Json:
    return {"id": row.id, "name": row.name, "full_name": row.full_name, "private": row.private}


def fork(row: Json) -> Json:
    """Return the repository of a run's commit. Its number depends on its name alone."""
    name = f"{row['fork']}/{row['repository'].partition('/')[2]}" if row.get("fork") else row["repository"]
    return {"id": number(name), "full_name": name}


def run(row: Json) -> Json:
    return {
        "id": row["id"],
        "head_branch": BRANCH,
        "head_sha": row["sha"],
        "html_url": f"{WEB}/{row['repository']}/actions/runs/{row['id']}",
        "head_repository": fork(row),
        "repository": fork({**row, "fork": ""}),
        "run_attempt": row["attempt"],
        "event": row.get("event", EVENT),  # a run of an earlier version has none
        "path": row["path"],
        "status": row["status"],
        "conclusion": row["conclusion"],
        "created_at": instant(row["createdAt"]),
    }


def pull(row: Json) -> Json:
    """Return the pull request of a fork's run."""
    head = {"sha": row["sha"], "ref": BRANCH, "repo": fork(row)}
    return {"number": row["id"], "state": "open", "head": head, "base": {"repo": fork({**row, "fork": ""})}}


def comment(row: Json) -> Json:
    at = instant(row["at"])
    return {"body": row["body"], "created_at": at, "updated_at": at, "user": user(row["login"])}


def user(login: str) -> Json:
    return {"login": login, "id": number(login), "type": "User"}


def job(row: Json, parent: Json) -> Json:
    runner = row["runner"] or dict.fromkeys(("id", "name", "group"))
    return {
        "id": row["id"],
        "run_id": row["runId"],
        "run_attempt": row["attempt"],
        "html_url": f"{WEB}/{row['repository']}/actions/runs/{row['runId']}/job/{row['id']}",
        "status": row["status"],
        "conclusion": row["conclusion"],
        "created_at": instant(row["createdAt"]),
        # Never null: for a job that has not started, this is the time of its creation.
        "started_at": instant(row["startedAt"] or row["createdAt"]),
        "completed_at": instant(row["completedAt"]),
        "name": row["name"],
        "steps": [{**step, "status": COMPLETED} for step in row["steps"]],
        "labels": row["labels"],
        "runner_id": runner["id"],
        "runner_name": runner["name"],
        "runner_group_name": runner["group"],
        "workflow_name": parent["workflow"],
    }


def runner(row: Json) -> Json:
    return {
        "id": row["id"],
        "name": row["name"],
        "status": "online" if row["online"] else "offline",
        "busy": row["busy"],
        "labels": [{"name": label} for label in row["labels"]],
    }


def group(row: Record | None) -> Json:
    """Return a runner group that a stack created, or the organization's default group for None."""
    outputs = row.outputs if row else {"name": DEFAULT_GROUP, "visibility": "all"}
    visibility = text_of(outputs, "visibility")
    return {
        "id": int(row.id) if row else DEFAULT_GROUP_ID,
        "name": text_of(outputs, "name"),
        "visibility": visibility,
        "allows_public_repositories": outputs.get("allowsPublicRepositories") is True,
        "restricted_to_workflows": outputs.get("restrictedToWorkflows") is True,
        "selected_workflows": list(outputs.get("selectedWorkflows") or []),
    }
