"""As which GitHub App the machines of a stack register their runners, and into which group."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pulumi
from gpu_ci.stack.site import Site

if TYPE_CHECKING:
    from gpu_ci.stack.github import Github

    from infra.pool import Pool


def wiring(site: Site, github: Github | None) -> dict[str, Any]:
    """What pools of machines are given, under the name of their field; nothing where the stack names no App for
    runners, or no group: Default is open to all repositories unless somebody closed it, and leaving something out opens
    nothing."""
    owner = site.github
    if owner is None or owner.runner_app is None or github is None or github.runner_group is None:
        return {}
    group = github.runner_group.group_name or f"gpu-{pulumi.get_stack()}"
    return {
        "github": {
            "owner": owner.owner,
            "app_id": owner.runner_app.id,
            "installation_id": int(owner.runner_app.installation_id),
            "private_key": owner.runner_app.private_key,
            "runner_group": group,
        }
    }


def with_runner_group(pool: Pool, group: pulumi.Output[str] | None) -> Pool:
    """The pool with the group as it is made, so that its check waits for it."""
    github: Any = getattr(pool.args, "github", None)
    if group is None or github is None:
        return pool
    joined = github.model_copy(update={"runner_group": group})
    return replace(pool, args=pool.args.model_copy(update={"github": joined}))
