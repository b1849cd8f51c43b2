"""Creates the runner managers of a stack, and their configuration (`pulumi stack output manager --json`).

For each pool, the configuration lists the places in which the manager may start machines, in order (key `rungs`). A
place is a zone with a machine type and a market. The first places are the pool's own zones, and then the zones of its
ladder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pulumi

from gpu_ci.catalog import cost
from gpu_ci.stack.site import GithubOwner

from .pools import Built
from .settings import Settings

if TYPE_CHECKING:
    from gpu_ci.gcp.runner_manager import ManagerSettings

_KIND = "gce-runners"


def build(settings: Settings, built: Sequence[Built]) -> dict[str, Any]:
    """Create the runner managers on Google Cloud if the stack file has the key gpu-ci:manager.

    Returns:
        The outputs of the stack: `manager` with the configuration of the first manager, `runnerManager` with the
        outputs of its component, and `otherManagers` with both of the other managers.
    """
    owner, choices = settings.site.github, settings.manager
    configurations = facts(built, owner, choices)
    if owner is None or owner.manager_app is None or not configurations:
        return {}
    if choices is None:
        return {"manager": configurations[""]}
    app_key = owner.manager_app.private_key
    deployed = {
        name: _manager(name, settings, choices, app_key, built, configuration)
        for name, configuration in configurations.items()
    }
    others = {name: {"manager": configurations[name], **deployed[name]} for name in choices.others}
    first = {"manager": configurations[""], "runnerManager": deployed[""]}
    return first | ({"otherManagers": others} if others else {})


def _manager(
    name: str,
    settings: Settings,
    choices: ManagerSettings,
    app_key: str,
    built: Sequence[Built],
    configuration: dict[str, Any],
) -> dict[str, Any]:
    from gpu_ci.gcp.runner_manager import RunnerManager, RunnerManagerArgs

    pools = {each["name"] for each in configuration["pools"]}
    served = [each for each in built if each.pool.name in pools]
    manager = RunnerManager(
        f"manager-{name}" if name else "manager",
        RunnerManagerArgs(
            **{field: value for field, value in choices if field != "others"},
            project=settings.project,
            labels=dict(settings.site.labels),
            # The keys are sorted, so that the same configuration is always the same text.
            configuration=pulumi.Output.json_dumps(configuration, sort_keys=True),
            app_key=app_key,
            machine_accounts={each.pool.name: each.component.state()["serviceAccountEmail"] for each in served},
            standby_templates=[template for each in served for template in _stopped(each)],
        ),
    )
    return manager.state()


def facts(
    built: Sequence[Built], owner: GithubOwner | None, choices: ManagerSettings | None = None
) -> dict[str, dict[str, Any]]:
    """Return the configuration of each manager by its name under `others`. The first manager has the name "".

    The result is empty if the stack has no managerApp, or no pool with runners.
    """
    objective = {"waitObjectiveSec": choices.alerts.wait_objective_sec} if choices and choices.alerts else {}
    pools = [objective | _pool(each) for each in built if _registers(each)]
    if owner is None or owner.manager_app is None or not pools:
        return {}
    app = owner.manager_app
    github = {
        "owner": owner.owner,
        "appId": app.id,
        "installationId": app.installation_id,
        "privateKey": app.private_key,
        **({"commitStatuses": True} if owner.commit_statuses else {}),
    }
    others = choices.others if choices else {}
    manager_of = {pool: name for name, names in others.items() for pool in names}
    configurations: dict[str, dict[str, Any]] = {}
    for name in ("", *others):
        elsewhere = [
            {"manager": _label(other), "labels": pool["labels"], "runnerGroup": pool["runnerGroup"]}
            for pool in pools
            if (other := manager_of.get(pool["name"], "")) != name
        ]
        configurations[name] = {
            "name": _label(name),
            "github": github | ({"statusContext": f"gpu-ci/{name}"} if name else {}),
            "pools": [pool for pool in pools if manager_of.get(pool["name"], "") == name],
            **({"otherPools": elsewhere} if elsewhere else {}),
        }
    return configurations


def _label(name: str) -> str:
    """Return the name of a manager in the labels of its machines."""
    return f"{pulumi.get_stack()}-{name}" if name else pulumi.get_stack()


def _registers(built: Built) -> bool:
    return built.pool.kind == _KIND and _args(built).github is not None


def _args(built: Built) -> Any:
    """Return the arguments of a pool on Compute Engine. The type is Any, because its module loads Google's SDK."""
    return built.pool.args


def _pool(built: Built) -> dict[str, Any]:
    name, args = built.pool.name, _args(built)
    wait_objective = {} if args.wait_objective_sec is None else {"waitObjectiveSec": args.wait_objective_sec}
    standby = {"standby": args.standby.stopped_size} if args.standby else {}
    ceiling = {"priceCeilingUsd": args.price_ceiling_usd} if args.price_ceiling_usd else {}
    # A machine has registerSec to download the runner. If the manager registers the runner, the machine then waits for
    # the registration, for at most registerSec.
    ready_sec = args.runner.register_sec * (2 if args.github.registered_by == "manager" else 1)
    return {
        **wait_objective,
        "name": name,
        "project": args.project,
        "template": built.component.state()["template"],
        "max": args.max,
        "labels": args.runner_labels_of(name),
        "runnerGroup": args.github.runner_group,
        "registeredBy": args.github.registered_by,
        "bootSec": args.smoke.deadline_sec + ready_sec,
        "idleSec": args.runner.idle_sec,
        **standby,
        **ceiling,
        "rungs": [
            place for rung, template in _component(built).rung_templates for place in _places(name, rung, template)
        ],
    }


def _stopped(built: Built) -> Iterator[pulumi.Output[str]]:
    """Yield the templates of machines that the manager may stop. Yield nothing for a pool without standby."""
    if _args(built).standby:
        yield built.component.state()["template"]
        yield from dict.fromkeys(template for _, template in _component(built).rung_templates if template is not None)


def _component(built: Built) -> Any:
    return built.component


def _places(name: str, rung: Any, template: pulumi.Output[str] | None) -> Iterator[dict[str, Any]]:
    """Yield a place for each zone of a rung. The pool's own template is omitted."""
    [found] = cost.of_stack([rung.demand(name)]).pools
    for zone in rung.zones:
        yield {
            "zone": zone,
            "machineType": rung.machine_type,
            "market": rung.market,
            "gpu": rung.guest_accelerator.type if rung.guest_accelerator else rung.machine.accelerator,
            "usdPerHour": found.price.usd_per_hour if found.price else None,
            **({} if template is None else {"template": template}),
        }
