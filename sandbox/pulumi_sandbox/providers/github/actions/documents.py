"""Repositories, runs, jobs, runners and groups in the form of GitHub's REST API.

Only the fields are emulated that the runner manager, the boot agent, `gpu-ci doctor` or a user of the API reads. Source
of the fields and their types: GitHub's OpenAPI description (`@octokit/openapi` 23.0.2).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from pulumi_sandbox.providers.github.actions.state import COMPLETED, DEFAULT_GROUP_ID
from pulumi_sandbox.providers.github.repositories import Repository, number
from pulumi_sandbox.providers.github.world import DEFAULT_GROUP
from pulumi_sandbox.providers.inputs import text_of
from pulumi_sandbox.world.store import Record

Json = dict[str, Any]
WEB = "https://github.com"


def instant(unix: float | None) -> str | None:
    """Format a time in GitHub's form, with a resolution of one second."""
    return None if unix is None else datetime.fromtimestamp(int(unix), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def account(login: str, kind: str = "Organization") -> Json:
    return {"login": login, "id": number(login), "type": kind, "html_url": f"{WEB}/{login}"}


def repository(base: str, row: Repository) -> Json:
    """Return a repository in the form that the API embeds in other objects."""
    return {
        "id": row.id,
        "name": row.name,
        "full_name": row.full_name,
        "private": row.private,
        "visibility": "private" if row.private else "public",
        "owner": account(row.owner),
        "html_url": f"{WEB}/{row.full_name}",
        "url": f"{base}/repos/{row.full_name}",
        "archived": False,
        "disabled": False,
    }


def run(base: str, row: Json, repository_row: Repository) -> Json:
    run_url = f"{base}/repos/{repository_row.full_name}/actions/runs/{row['id']}"
    return {
        "id": row["id"],
        "name": row["workflow"],
        "head_branch": row["branch"],
        "head_sha": row["sha"],
        "run_number": row["number"],
        "run_attempt": row["attempt"],
        "event": row.get("event", "push"),
        "path": row.get("path", ""),
        "referenced_workflows": [],
        "status": row["status"],
        "conclusion": row["conclusion"],
        "url": run_url,
        "html_url": f"{WEB}/{repository_row.full_name}/actions/runs/{row['id']}",
        "created_at": instant(row["createdAt"]),
        "updated_at": instant(row["updatedAt"]),
        "repository": repository(base, repository_row),
    }


def job(base: str, row: Json, parent: Json) -> Json:
    address = f"{base}/repos/{row['repository']}"
    runner = row["runner"] or dict.fromkeys(("id", "name", "groupId", "group"))
    return {
        "id": row["id"],
        "run_id": row["runId"],
        "run_attempt": row["attempt"],
        "head_sha": parent["sha"],
        "head_branch": parent["branch"],
        "url": f"{address}/actions/jobs/{row['id']}",
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
        "runner_group_id": runner["groupId"],
        "runner_group_name": runner["group"],
        "workflow_name": parent["workflow"],
    }


def runner(row: Json) -> Json:
    return {
        "id": row["id"],
        "name": row["name"],
        "os": "unknown" if row["seenAt"] is None else "Linux",
        "status": "online" if row["online"] else "offline",
        "busy": row["busy"],
        "ephemeral": True,
        "runner_group_id": row["groupId"],
        "labels": [{"id": 0, "name": label, "type": "custom"} for label in row["labels"]],
    }


def group(row: Record | None) -> Json:
    """Return a runner group that a stack created, or the organization's default group for None."""
    outputs = row.outputs if row else {"name": DEFAULT_GROUP, "visibility": "all"}
    number, visibility = int(row.id) if row else DEFAULT_GROUP_ID, text_of(outputs, "visibility")
    return {
        "id": number,
        "name": text_of(outputs, "name"),
        "visibility": visibility,
        "default": row is None,
        "inherited": False,
        "allows_public_repositories": outputs.get("allowsPublicRepositories") is True,
        "restricted_to_workflows": outputs.get("restrictedToWorkflows") is True,
        "selected_workflows": list(outputs.get("selectedWorkflows") or []),
    }
