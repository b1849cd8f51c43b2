"""What the runner manager has to know of a stack: `pulumi stack output manager --json` is its configuration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pulumi
from gpu_ci.stack.costs import of_pools
from gpu_ci.stack.site import GithubOwner

from infra.pools import Built

_KIND = "gce-runners"


def facts(built: Sequence[Built], owner: GithubOwner | None) -> dict[str, Any] | None:
    """The configuration; None where the stack names no App for the manager, or has no pool whose machines register."""
    pools = [_pool(each) for each in built if each.pool.kind == _KIND and _args(each).github]
    if owner is None or owner.manager_app is None or not pools:
        return None
    app = owner.manager_app
    return {
        "name": pulumi.get_stack(),
        "github": {
            "owner": owner.owner,
            "appId": app.id,
            "installationId": app.installation_id,
            "privateKey": app.private_key,
        },
        "pools": pools,
    }


def _args(built: Built) -> Any:
    """The arguments of a pool on Compute Engine. Their module loads Google's SDK, so that no type names them here."""
    return built.pool.args


def _pool(built: Built) -> dict[str, Any]:
    name, args = built.pool.name, _args(built)
    [cost] = of_pools([(name, args)]).pools
    return {
        "name": name,
        "project": args.project,
        "template": built.component.state()["template"],
        "max": args.max,
        "labels": args.runner_labels_of(name),
        "runnerGroup": args.github.runner_group,
        "bootSec": args.smoke.deadline_sec + args.runner.register_sec,
        "idleSec": args.runner.idle_sec,
        "rungs": [
            {
                "zone": zone,
                "machineType": args.machine_type,
                "market": args.market,
                "gpu": args.guest_accelerator.type if args.guest_accelerator else args.machine.accelerator,
                "usdPerHour": cost.price.usd_per_hour if cost.price else None,
            }
            for zone in args.zones
        ],
    }
