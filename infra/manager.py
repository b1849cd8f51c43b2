"""The runner manager of a stack: its configuration (`pulumi stack output manager --json`), and where it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pulumi
from gpu_ci.stack.costs import of_pools
from gpu_ci.stack.site import GithubOwner

from infra.pools import Built
from infra.settings import Settings

if TYPE_CHECKING:
    from gpu_ci.gcp.runner_manager import ManagerChoices

_KIND = "gce-runners"


def build(settings: Settings, built: Sequence[Built], configuration: dict[str, Any]) -> dict[str, Any] | None:
    """Run it on Google Cloud where the stack file asks for that; what is exported of it."""
    owner = settings.site.github
    if settings.manager is None or owner is None or owner.manager_app is None:
        return None
    from gpu_ci.gcp.runner_manager import RunnerManager, RunnerManagerArgs

    manager = RunnerManager(
        "manager",
        RunnerManagerArgs(
            **dict(settings.manager),
            project=settings.project,
            labels=dict(settings.site.labels),
            # In one order, so that the same configuration is the same text.
            configuration=pulumi.Output.json_dumps(configuration, sort_keys=True),
            app_key=owner.manager_app.private_key,
            machine_accounts={
                each.pool.name: each.component.state()["serviceAccountEmail"] for each in built if _registers(each)
            },
        ),
    )
    return manager.state()


def facts(
    built: Sequence[Built], owner: GithubOwner | None, choices: ManagerChoices | None = None
) -> dict[str, Any] | None:
    """The configuration; None where the stack names no App for the manager, or has no pool whose machines register."""
    objective = {"waitObjectiveSec": choices.alerts.wait_objective_sec} if choices and choices.alerts else {}
    pools = [objective | _pool(each) for each in built if _registers(each)]
    if owner is None or owner.manager_app is None or not pools:
        return None
    app = owner.manager_app
    several = {"instances": choices.instances} if choices and choices.instances > 1 else {}
    return {
        "name": pulumi.get_stack(),
        **several,
        "github": {
            "owner": owner.owner,
            "appId": app.id,
            "installationId": app.installation_id,
            "privateKey": app.private_key,
            **({"commitStatuses": True} if owner.commit_statuses else {}),
        },
        "pools": pools,
    }


def _registers(built: Built) -> bool:
    return built.pool.kind == _KIND and _args(built).github is not None


def _args(built: Built) -> Any:
    """The arguments of a pool on Compute Engine. Their module loads Google's SDK, so that no type names them here."""
    return built.pool.args


def _pool(built: Built) -> dict[str, Any]:
    name, args = built.pool.name, _args(built)
    [cost] = of_pools([(name, args)]).pools
    own_objective = {} if args.wait_objective_sec is None else {"waitObjectiveSec": args.wait_objective_sec}
    return {
        **own_objective,
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
