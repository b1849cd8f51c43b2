"""Who registers the runners of a stack's machines at GitHub, and into which group."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pulumi
from gpu_ci.stack.site import Site

if TYPE_CHECKING:
    from gpu_ci.stack.github import Github

    from infra.pool import Pool


def wiring(site: Site, github: Github | None) -> dict[str, Any]:
    """What pools of machines are given, under the name of their field.

    Where the stack names an App for the runner manager, that registers the runners, and no machine reads a key. With
    runnerApp alone the machines do it. Without an App or a group there is nothing: the group Default is open to all
    repositories unless somebody closed it, and a missing entry must open nothing.
    """
    owner = site.github
    if owner is None or github is None or github.runner_group is None:
        return {}
    wired: dict[str, Any] = {
        "owner": owner.owner,
        "runner_group": github.runner_group.group_name or f"gpu-{pulumi.get_stack()}",
    }
    if owner.manager_app is not None:
        return {"github": wired}
    if owner.runner_app is None:
        return {}
    app = {
        "app_id": owner.runner_app.id,
        "installation_id": int(owner.runner_app.installation_id),
        "private_key": owner.runner_app.private_key,
    }
    return {"github": wired | app}


def with_runner_group(pool: Pool, group: pulumi.Output[str] | None) -> Pool:
    """The pool with the group as it is made, so that its check waits for it."""
    github: Any = getattr(pool.args, "github", None)
    if group is None or github is None:
        return pool
    joined = github.model_copy(update={"runner_group": group})
    return replace(pool, args=pool.args.model_copy(update={"github": joined}))
