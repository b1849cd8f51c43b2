"""40 jobs on GitHub, as the claims of their tokens, and which of the identities below each may use.

The claims are those of docs.github.com/en/actions/reference/security/oidc. Every value is text, as in GitHub's tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

OWNER, REPOSITORY = "9919", "1296269"
OTHER_OWNER, OTHER_REPOSITORY = "666", "777"
WORKFLOW = "acme/ci/.github/workflows/deploy.yaml@refs/heads/main"

Claims = dict[str, str]

TRUSTED: dict[str, dict[str, Any]] = {
    "deploy": {"environment": "production"},
    "main": {"ref": "refs/heads/main"},
    "both": {"environment": "production", "ref": "refs/heads/main"},
    "reusable": {"environment": "production", "job_workflow_ref": WORKFLOW},
    "preview": {"purpose": "preview", "environment": "preview"},
    "tag": {"ref": "refs/tags/v1.0.0", "events": ["release", "push"]},
    "organization": {"allow_organization": True, "repository_id": None, "environment": "production"},
}
"""The identities: what differs from purpose deploy and one repository."""


def trust(name: str) -> dict[str, Any]:
    return {"purpose": "deploy", "owner_id": OWNER, "repository_id": REPOSITORY, **TRUSTED[name]}


@dataclass(frozen=True)
class Job:
    """One job: the claims that differ from those of a push to main, and the identities that it may use."""

    changes: dict[str, str | None] = field(default_factory=dict)
    may: frozenset[str] = frozenset()

    def claims(self) -> Claims:
        made = {
            "actor": "octocat",
            "actor_id": "1",
            "event_name": "push",
            "job_workflow_ref": "acme/kernels/.github/workflows/ci.yaml@refs/heads/main",
            "ref": "refs/heads/main",
            "ref_type": "branch",
            "repository": "acme/kernels",
            "repository_id": REPOSITORY,
            "repository_owner": "acme",
            "repository_owner_id": OWNER,
            "repository_visibility": "private",
            "run_id": "8675309",
            "runner_environment": "github-hosted",
            **self.changes,
        }
        return {name: value for name, value in made.items() if value is not None}


def job(*may: str, **changes: str | None) -> Job:
    return Job(changes, frozenset(may))


PULL = {"ref": "refs/pull/7/merge", "event_name": "pull_request"}
PROD = {"environment": "production"}
FORK = {
    "repository": "mallory/kernels",
    "repository_id": OTHER_REPOSITORY,
    "repository_owner": "mallory",
    "repository_owner_id": OTHER_OWNER,
}
TAG = {"ref": "refs/tags/v1.0.0", "ref_type": "tag"}

JOBS: dict[str, Job] = {
    # Pushes and environments.
    "a push to main": job("main"),
    "a push to main, in production": job("deploy", "main", "both", "organization", **PROD),
    "a push to another branch": job(ref="refs/heads/topic"),
    "a push to another branch, in production": job("deploy", "organization", ref="refs/heads/topic", **PROD),
    "a branch whose name begins like main": job(ref="refs/heads/main2"),
    "a branch named refs/heads/main": job(ref="refs/heads/refs/heads/main"),
    "a branch in other case": job(ref="refs/heads/Main"),
    "another environment": job("main", environment="staging"),
    "an environment in other case": job("main", environment="Production"),
    "an environment that begins like production": job("main", environment="production-eu"),
    "an environment that hides another subject": job("main", environment="x:environment:production"),
    "an environment with an event in its name": job("main", environment="production:event_name:push"),
    "the environment preview": job("main", "preview", environment="preview"),
    # Tags and releases.
    "a tag": job("tag", **TAG),
    "a tag, in production": job("tag", "deploy", "organization", **TAG, **PROD),
    "a branch with the name of the tag": job(ref="refs/heads/v1.0.0"),
    "another tag": job(ref="refs/tags/v1.0.1", ref_type="tag"),
    "a tag named main": job(ref="refs/tags/main", ref_type="tag"),
    "a release": job("tag", **TAG, event_name="release"),
    # Pull requests.
    "a pull request": job(**PULL),
    "a pull request, in preview": job("preview", **PULL, environment="preview"),
    "a pull request, in production": job(**PULL, **PROD),
    "a pull request that targets main": job(event_name="pull_request_target"),
    "a pull request target, in production": job(event_name="pull_request_target", **PROD),
    "a pull request target, in preview": job(event_name="pull_request_target", environment="preview"),
    "the merge queue, in preview": job(
        "preview", ref="refs/heads/gh-readonly-queue/main/pr-7", event_name="merge_group", environment="preview"
    ),
    # Other events.
    "a dispatch on main, in production": job(
        "deploy", "main", "both", "organization", event_name="workflow_dispatch", **PROD
    ),
    "the nightly run": job("main", event_name="schedule"),
    "a comment on an issue, in production": job(event_name="issue_comment", **PROD),
    "a workflow_run after a pull request": job(event_name="workflow_run", **PROD),
    # Reusable workflows.
    "the reusable workflow, in production": job(
        "deploy", "main", "both", "reusable", "organization", job_workflow_ref=WORKFLOW, **PROD
    ),
    "the reusable workflow from a branch": job(
        "deploy", "main", "both", "organization", job_workflow_ref=WORKFLOW.replace("main", "evil"), **PROD
    ),
    "the reusable workflow, called by a pull request": job(job_workflow_ref=WORKFLOW, **PULL, **PROD),
    # Other repositories and owners.
    "a fork": job(**FORK, **PROD),
    "a pull request inside a fork": job(**FORK, **PULL, **PROD),
    "another repository of the owner": job(
        "organization", repository="acme/web", repository_id=OTHER_REPOSITORY, **PROD
    ),
    "another owner with the same name": job(repository_id=OTHER_REPOSITORY, repository_owner_id=OTHER_OWNER, **PROD),
    "another repository with the same name": job("organization", repository_id=OTHER_REPOSITORY, **PROD),
    "the repository, given to another owner": job(
        repository="mallory/kernels", repository_owner="mallory", repository_owner_id=OTHER_OWNER, **PROD
    ),
    "the repository, renamed": job("deploy", "main", "both", "organization", repository="acme/cuda", **PROD),
}
