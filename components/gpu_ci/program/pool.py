"""The pools and image pipelines of a stack file with all arguments, and the registration of their runners."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pulumi

from gpu_ci.args import Args
from gpu_ci.component import Component
from gpu_ci.stack.site import Site

if TYPE_CHECKING:
    from gpu_ci.stack.github import Github


@dataclass(frozen=True)
class Pool:
    """One pool: the component of its kind, and the validated arguments."""

    name: str
    kind: str
    component: type[Component]
    args: Args
    options: pulumi.ResourceOptions | None = None


@dataclass(frozen=True)
class Pipeline(Pool):
    """One image pipeline. Like a pool, it is a component of a kind, with arguments that the networks complete."""


def registration(site: Site, github: Github | None) -> dict[str, Any]:
    """Return the arguments for pools of machines, by field name.

    - With `managerApp`, the runner manager registers the runners, and no machine reads a key.
    - With `runnerApp` alone, the machines register their runners.
    - Without an App or a runner group, no runner is registered. GitHub's group Default is never used, because by
      default all repositories may use it.
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
    """Return the pool with the created runner group as an Output, so that the pool's check waits for the group."""
    github: Any = getattr(pool.args, "github", None)
    if group is None or github is None:
        return pool
    joined = github.model_copy(update={"runner_group": group})
    return replace(pool, args=pool.args.model_copy(update={"github": joined}))
