"""Repositories, runs, jobs, runners and groups in the form of GitHub's REST API.

Source of fields and types: GitHub's OpenAPI description. Tests with tests/sandbox/providers/github/openapi check all
of them.
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any

from pulumi_sandbox.providers.github.actions.model import COMPLETED, DEFAULT_GROUP_ID
from pulumi_sandbox.providers.github.repositories import Repository, number
from pulumi_sandbox.providers.github.types import text_of
from pulumi_sandbox.providers.github.world import DEFAULT_GROUP
from pulumi_sandbox.world.store import Record

Json = dict[str, Any]
WEB = "https://github.com"
_REPOSITORY_LINKS = {
    "archive": "/{archive_format}{/ref}", "assignees": "/assignees{/user}", "blobs": "/git/blobs{/sha}",
    "branches": "/branches{/branch}", "collaborators": "/collaborators{/collaborator}",
    "comments": "/comments{/number}", "commits": "/commits{/sha}", "compare": "/compare/{base}...{head}",
    "contents": "/contents/{+path}", "contributors": "/contributors", "deployments": "/deployments",
    "downloads": "/downloads", "events": "/events", "forks": "/forks", "git_commits": "/git/commits{/sha}",
    "git_refs": "/git/refs{/sha}", "git_tags": "/git/tags{/sha}", "hooks": "/hooks",
    "issue_comment": "/issues/comments{/number}", "issue_events": "/issues/events{/number}",
    "issues": "/issues{/number}", "keys": "/keys{/key_id}", "labels": "/labels{/name}", "languages": "/languages",
    "merges": "/merges", "milestones": "/milestones{/number}",
    "notifications": "/notifications{?since,all,participating}", "pulls": "/pulls{/number}",
    "releases": "/releases{/id}", "stargazers": "/stargazers", "statuses": "/statuses/{sha}",
    "subscribers": "/subscribers", "subscription": "/subscription", "tags": "/tags", "teams": "/teams",
    "trees": "/git/trees{/sha}",
}  # fmt: skip
_USER_LINKS = {
    "followers": "/followers", "following": "/following{/other_user}", "gists": "/gists{/gist_id}",
    "starred": "/starred{/owner}{/repo}", "subscriptions": "/subscriptions", "organizations": "/orgs",
    "repos": "/repos", "events": "/events{/privacy}", "received_events": "/received_events",
}  # fmt: skip
_NO_COUNTS = ("forks", "forks_count", "stargazers_count", "watchers", "watchers_count", "open_issues",
              "open_issues_count", "size")  # fmt: skip
# The time of all commits and repositories. The sandbox does not record their times.
_LONG_AGO = "2026-01-05T09:00:00Z"


def instant(unix: float | None) -> str | None:
    """Format a time in GitHub's form, with a resolution of one second."""
    return None if unix is None else datetime.fromtimestamp(int(unix), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def node(kind: str, number: int) -> str:
    return base64.b64encode(f"{kind}:{number}".encode()).decode().rstrip("=")


def account(base: str, login: str, kind: str = "Organization") -> Json:
    address, identity = f"{base}/users/{login}", number(login)
    return {
        "login": login,
        "id": identity,
        "node_id": node(kind, identity),
        "avatar_url": f"https://avatars.githubusercontent.com/u/{identity}?v=4",
        "gravatar_id": "",
        "url": address,
        "html_url": f"{WEB}/{login}",
        **{f"{name}_url": address + path for name, path in _USER_LINKS.items()},
        "type": kind,
        "site_admin": False,
    }


def repository(base: str, one: Repository) -> Json:
    """Return a repository in the form that the API embeds in other objects."""
    address, page = f"{base}/repos/{one.full_name}", f"{WEB}/{one.full_name}"
    yes_no = {f"has_{name}": name == "issues" for name in ("issues", "projects", "wiki", "pages", "downloads")}
    return {
        "id": one.id,
        "node_id": node("Repository", one.id),
        "name": one.name,
        "full_name": one.full_name,
        "private": one.private,
        "visibility": "private" if one.private else "public",
        "owner": account(base, one.owner),
        "html_url": page,
        "description": None,
        "fork": False,
        "url": address,
        **{f"{name}_url": address + path for name, path in _REPOSITORY_LINKS.items()},
        "git_url": f"git://github.com/{one.full_name}.git",
        "ssh_url": f"git@github.com:{one.full_name}.git",
        "clone_url": f"{page}.git",
        "svn_url": page,
        "mirror_url": None,
        "homepage": None,
        "language": "Python",
        "license": None,
        "default_branch": "main",
        "archived": False,
        "disabled": False,
        **yes_no,
        **dict.fromkeys(_NO_COUNTS, 0),
        **dict.fromkeys(("pushed_at", "created_at", "updated_at"), _LONG_AGO),
    }


def run(base: str, one: Json, home: Repository) -> Json:
    address = f"{base}/repos/{home.full_name}"
    own, shown = f"{address}/actions/runs/{one['id']}", repository(base, home)
    actor = account(base, "octocat", "User")
    author = {"name": "Octocat", "email": "octocat@example.com"}
    earlier = one["attempt"] - 1
    workflow = number(f"{home.full_name}/{one['workflow']}")
    return {
        "id": one["id"],
        "name": one["workflow"],
        "node_id": node("WorkflowRun", one["id"]),
        "check_suite_id": one["id"],
        "check_suite_node_id": node("CheckSuite", one["id"]),
        "head_branch": one["branch"],
        "head_sha": one["sha"],
        "path": f".github/workflows/{one['workflow'].lower().replace(' ', '-')}.yml",
        "display_title": f"Run {one['number']} of {one['workflow']}",
        "run_number": one["number"],
        "run_attempt": one["attempt"],
        "event": "push",
        "status": one["status"],
        "conclusion": one["conclusion"],
        "workflow_id": workflow,
        "url": own,
        "html_url": f"{WEB}/{home.full_name}/actions/runs/{one['id']}",
        "pull_requests": [],
        "created_at": instant(one["createdAt"]),
        "updated_at": instant(one["updatedAt"]),
        "run_started_at": instant(one["startedAt"]),
        "actor": actor,
        "triggering_actor": actor,
        "jobs_url": f"{own}/jobs",
        "logs_url": f"{own}/logs",
        "check_suite_url": f"{address}/check-suites/{one['id']}",
        "artifacts_url": f"{own}/artifacts",
        "cancel_url": f"{own}/cancel",
        "rerun_url": f"{own}/rerun",
        "previous_attempt_url": f"{own}/attempts/{earlier}" if earlier else None,
        "workflow_url": f"{address}/actions/workflows/{workflow}",
        "head_commit": {
            "id": one["sha"],
            "tree_id": one["sha"],
            "message": f"Change {one['number']}",
            "timestamp": instant(one["createdAt"]),
            "author": author,
            "committer": author,
        },
        "repository": shown,
        "head_repository": shown,
    }


def job(base: str, one: Json, parent: Json) -> Json:
    address = f"{base}/repos/{one['repository']}"
    runner = one["runner"] or dict.fromkeys(("id", "name", "groupId", "group"))
    return {
        "id": one["id"],
        "run_id": one["runId"],
        "run_url": f"{address}/actions/runs/{one['runId']}",
        "run_attempt": one["attempt"],
        "node_id": node("CheckRun", one["id"]),
        "head_sha": parent["sha"],
        "head_branch": parent["branch"],
        "url": f"{address}/actions/jobs/{one['id']}",
        "html_url": f"{WEB}/{one['repository']}/actions/runs/{one['runId']}/job/{one['id']}",
        "status": one["status"],
        "conclusion": one["conclusion"],
        "created_at": instant(one["createdAt"]),
        # Never null: for a job that has not started, this is the time of its creation.
        "started_at": instant(one["startedAt"] or one["createdAt"]),
        "completed_at": instant(one["completedAt"]),
        "name": one["name"],
        "steps": [{**step, "status": COMPLETED} for step in one["steps"]],
        "check_run_url": f"{address}/check-runs/{one['id']}",
        "labels": one["labels"],
        "runner_id": runner["id"],
        "runner_name": runner["name"],
        "runner_group_id": runner["groupId"],
        "runner_group_name": runner["group"],
        "workflow_name": parent["workflow"],
    }


def runner(one: Json) -> Json:
    return {
        "id": one["id"],
        "name": one["name"],
        "os": "unknown" if one["seenAt"] is None else "Linux",
        "status": "online" if one["online"] else "offline",
        "busy": one["busy"],
        "ephemeral": True,
        "runner_group_id": one["groupId"],
        "labels": [{"id": 0, "name": label, "type": "custom"} for label in one["labels"]],
    }


def group(base: str, owner: str, one: Record | None) -> Json:
    """Return a runner group that a stack created, or the organization's default group for None."""
    outputs = one.outputs if one else {"name": DEFAULT_GROUP, "visibility": "all"}
    number, visibility = int(one.id) if one else DEFAULT_GROUP_ID, text_of(outputs, "visibility")
    address = f"{base}/orgs/{owner}/actions/runner-groups/{number}"
    selected = {"selected_repositories_url": f"{address}/repositories"} if visibility == "selected" else {}
    return {
        "id": number,
        "name": text_of(outputs, "name"),
        "visibility": visibility,
        "default": one is None,
        **selected,
        "runners_url": f"{address}/runners",
        "inherited": False,
        "allows_public_repositories": outputs.get("allowsPublicRepositories") is True,
        "restricted_to_workflows": outputs.get("restrictedToWorkflows") is True,
        "selected_workflows": list(outputs.get("selectedWorkflows") or []),
        "workflow_restrictions_read_only": False,
    }


def status(base: str, one: Json, home: Repository) -> Json:
    """Return the status of a commit."""
    address = f"{base}/repos/{home.full_name}/statuses/{one['sha']}"
    creator = account(base, "gpu-ci[bot]", "Bot")
    return {
        "url": address,
        "avatar_url": creator["avatar_url"],
        "id": one["id"],
        "node_id": node("StatusContext", one["id"]),
        "state": one["state"],
        "description": one["description"],
        "target_url": one["targetUrl"],
        "context": one["context"],
        "created_at": instant(one["createdAt"]),
        "updated_at": instant(one["createdAt"]),
        "creator": creator,
    }
