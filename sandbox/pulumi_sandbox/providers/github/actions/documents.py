"""Repositories, runs, jobs, runners and groups in the form of GitHub's REST API.

Source of fields and types: GitHub's OpenAPI description. Tests with tests/sandbox/providers/github/openapi check all
of them.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
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


def app(base: str, number_text: str, owner: str, permissions: Mapping[str, str]) -> Json:
    """Return a GitHub App."""
    identity, slug = int(number_text), app_slug(number_text)
    return {
        "id": identity,
        "slug": slug,
        "node_id": node("App", identity),
        "owner": account(base, owner),
        "name": slug,
        "description": "",
        "external_url": WEB,
        "html_url": f"{WEB}/apps/{slug}",
        "created_at": _LONG_AGO,
        "updated_at": _LONG_AGO,
        "permissions": dict(permissions),
        "events": [],
        "installations_count": 1,
    }


def app_slug(number_text: str) -> str:
    return f"sandbox-app-{number_text}"


def installation(
    base: str, app_number: str, number_text: str, owner: str, permissions: Mapping[str, str], is_suspended: bool
) -> Json:
    """Return an installation of a GitHub App."""
    holder = account(base, owner)
    return {
        "id": int(number_text),
        "account": holder,
        "repository_selection": "all",
        "access_tokens_url": f"{base}/app/installations/{number_text}/access_tokens",
        "repositories_url": f"{base}/installation/repositories",
        "html_url": f"{WEB}/organizations/{owner}/settings/installations/{number_text}",
        "app_id": int(app_number),
        "app_slug": app_slug(app_number),
        "target_id": holder["id"],
        "target_type": holder["type"],
        "permissions": dict(permissions),
        "events": [],
        "created_at": _LONG_AGO,
        "updated_at": _LONG_AGO,
        "single_file_name": None,
        "suspended_by": account(base, "octocat", "User") if is_suspended else None,
        "suspended_at": _LONG_AGO if is_suspended else None,
    }


def runner_release(base: str, version: str, published: str) -> Json:
    """Return a release of actions/runner. Its files are not emulated."""
    address, page, tag = f"{base}/repos/actions/runner", f"{WEB}/actions/runner", f"v{version}"
    identity = number(f"actions/runner/{tag}")
    return {
        "url": f"{address}/releases/{identity}",
        "html_url": f"{page}/releases/tag/{tag}",
        "assets_url": f"{address}/releases/{identity}/assets",
        "upload_url": f"{address}/releases/{identity}/assets{{?name,label}}",
        "tarball_url": f"{address}/tarball/{tag}",
        "zipball_url": f"{address}/zipball/{tag}",
        "id": identity,
        "node_id": node("Release", identity),
        "tag_name": tag,
        "target_commitish": "main",
        "name": tag,
        "body": "",
        "draft": False,
        "prerelease": False,
        "created_at": f"{published}T09:00:00Z",
        "published_at": f"{published}T09:00:00Z",
        "author": account(base, "octocat", "User"),
        "assets": [],
    }


def repository(base: str, row: Repository) -> Json:
    """Return a repository in the form that the API embeds in other objects."""
    address, page = f"{base}/repos/{row.full_name}", f"{WEB}/{row.full_name}"
    yes_no = {f"has_{name}": name == "issues" for name in ("issues", "projects", "wiki", "pages", "downloads")}
    return {
        "id": row.id,
        "node_id": node("Repository", row.id),
        "name": row.name,
        "full_name": row.full_name,
        "private": row.private,
        "visibility": "private" if row.private else "public",
        "owner": account(base, row.owner),
        "html_url": page,
        "description": None,
        "fork": False,
        "url": address,
        **{f"{name}_url": address + path for name, path in _REPOSITORY_LINKS.items()},
        "git_url": f"git://github.com/{row.full_name}.git",
        "ssh_url": f"git@github.com:{row.full_name}.git",
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


def run(base: str, row: Json, repository_row: Repository) -> Json:
    address = f"{base}/repos/{repository_row.full_name}"
    run_url, repository_document = f"{address}/actions/runs/{row['id']}", repository(base, repository_row)
    actor = account(base, "octocat", "User")
    author = {"name": "Octocat", "email": "octocat@example.com"}
    previous_attempt = row["attempt"] - 1
    workflow = number(f"{repository_row.full_name}/{row['workflow']}")
    return {
        "id": row["id"],
        "name": row["workflow"],
        "node_id": node("WorkflowRun", row["id"]),
        "check_suite_id": row["id"],
        "check_suite_node_id": node("CheckSuite", row["id"]),
        "head_branch": row["branch"],
        "head_sha": row["sha"],
        "path": f".github/workflows/{row['workflow'].lower().replace(' ', '-')}.yml",
        "display_title": f"Run {row['number']} of {row['workflow']}",
        "run_number": row["number"],
        "run_attempt": row["attempt"],
        "event": "push",
        "status": row["status"],
        "conclusion": row["conclusion"],
        "workflow_id": workflow,
        "url": run_url,
        "html_url": f"{WEB}/{repository_row.full_name}/actions/runs/{row['id']}",
        "pull_requests": [],
        "created_at": instant(row["createdAt"]),
        "updated_at": instant(row["updatedAt"]),
        "run_started_at": instant(row["startedAt"]),
        "actor": actor,
        "triggering_actor": actor,
        "jobs_url": f"{run_url}/jobs",
        "logs_url": f"{run_url}/logs",
        "check_suite_url": f"{address}/check-suites/{row['id']}",
        "artifacts_url": f"{run_url}/artifacts",
        "cancel_url": f"{run_url}/cancel",
        "rerun_url": f"{run_url}/rerun",
        "previous_attempt_url": f"{run_url}/attempts/{previous_attempt}" if previous_attempt else None,
        "workflow_url": f"{address}/actions/workflows/{workflow}",
        "head_commit": {
            "id": row["sha"],
            "tree_id": row["sha"],
            "message": f"Change {row['number']}",
            "timestamp": instant(row["createdAt"]),
            "author": author,
            "committer": author,
        },
        "repository": repository_document,
        "head_repository": repository_document,
    }


def job(base: str, row: Json, parent: Json) -> Json:
    address = f"{base}/repos/{row['repository']}"
    runner = row["runner"] or dict.fromkeys(("id", "name", "groupId", "group"))
    return {
        "id": row["id"],
        "run_id": row["runId"],
        "run_url": f"{address}/actions/runs/{row['runId']}",
        "run_attempt": row["attempt"],
        "node_id": node("CheckRun", row["id"]),
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
        "check_run_url": f"{address}/check-runs/{row['id']}",
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


def group(base: str, owner: str, row: Record | None) -> Json:
    """Return a runner group that a stack created, or the organization's default group for None."""
    outputs = row.outputs if row else {"name": DEFAULT_GROUP, "visibility": "all"}
    number, visibility = int(row.id) if row else DEFAULT_GROUP_ID, text_of(outputs, "visibility")
    address = f"{base}/orgs/{owner}/actions/runner-groups/{number}"
    selected = {"selected_repositories_url": f"{address}/repositories"} if visibility == "selected" else {}
    return {
        "id": number,
        "name": text_of(outputs, "name"),
        "visibility": visibility,
        "default": row is None,
        **selected,
        "runners_url": f"{address}/runners",
        "inherited": False,
        "allows_public_repositories": outputs.get("allowsPublicRepositories") is True,
        "restricted_to_workflows": outputs.get("restrictedToWorkflows") is True,
        "selected_workflows": list(outputs.get("selectedWorkflows") or []),
        "workflow_restrictions_read_only": False,
    }


def status(base: str, row: Json, repository_row: Repository) -> Json:
    """Return the status of a commit."""
    address = f"{base}/repos/{repository_row.full_name}/statuses/{row['sha']}"
    creator = account(base, "gpu-ci[bot]", "Bot")
    return {
        "url": address,
        "avatar_url": creator["avatar_url"],
        "id": row["id"],
        "node_id": node("StatusContext", row["id"]),
        "state": row["state"],
        "description": row["description"],
        "target_url": row["targetUrl"],
        "context": row["context"],
        "created_at": instant(row["createdAt"]),
        "updated_at": instant(row["createdAt"]),
        "creator": creator,
    }
