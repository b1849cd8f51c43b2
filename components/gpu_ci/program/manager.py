"""Creates the runner managers of a stack, and their configuration (`pulumi stack output manager --json`).

For each pool, the configuration lists the places in which the manager may start machines, in order (key `rungs`). A
place is a zone with a machine type and a market. The first places are the pool's own zones, and then the zones of its
ladder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pulumi

from gpu_ci.pool_args import ManagedPool
from gpu_ci.stack.parse import Stack
from gpu_ci.stack.site import GithubOwner
from gpu_ci.stack.teams import Team

from .pools import Built

if TYPE_CHECKING:
    from gpu_ci.stack.manager import ManagerSettings


def build(stack: Stack, built: Sequence[Built]) -> dict[str, Any]:
    """Create the runner managers if the stack file has the key gpu-ci:manager.

    Returns:
        The outputs of the stack: `manager` with the configuration of the first manager, `runnerManager` with the
        outputs of its component, and `otherManagers` with both of the other managers.
    """
    owner, choices = stack.site.github, stack.manager
    managed = {each.pool.name: found for each in built if (found := each.component.managed())}
    configurations = facts([each.entry for each in managed.values()], owner, choices, stack.teams)
    if owner is None or owner.manager_app is None or not configurations:
        return {}
    if choices is None:
        return {"manager": configurations[""]}
    app_key = owner.manager_app.private_key
    deployed = {
        name: _manager(name, stack, choices, app_key, managed, configuration)
        for name, configuration in configurations.items()
    }
    others = {name: {"manager": configurations[name], **deployed[name]} for name in choices.others}
    first = {"manager": configurations[""], "runnerManager": deployed[""]}
    return first | ({"otherManagers": others} if others else {})


def _manager(
    name: str,
    stack: Stack,
    choices: ManagerSettings,
    app_key: str,
    managed: Mapping[str, ManagedPool],
    configuration: dict[str, Any],
) -> dict[str, Any]:
    served = {each["name"]: managed[each["name"]] for each in configuration["pools"]}
    component = f"manager-{name}" if name else "manager"
    # The keys are sorted, so that the same configuration is always the same text.
    text = pulumi.Output.json_dumps(configuration, sort_keys=True)
    if choices.on_aws:
        from gpu_ci.aws import runner_manager as on_aws

        # All pools of a manager have the same mailbox.
        mailbox = configuration["pools"][0]["mailbox"]
        args = on_aws.RunnerManagerArgs(
            **choices.own,
            tags=dict(stack.site.labels),
            manager=configuration["name"],
            configuration=text,
            app_key=app_key,
            mailbox_bucket=mailbox["bucket"],
            mailbox_region=mailbox["region"],
        )
        return on_aws.RunnerManager(component, args).state()
    from gpu_ci.gcp import runner_manager as on_google

    manager = on_google.RunnerManager(
        component,
        on_google.RunnerManagerArgs(
            **choices.own,
            project=stack.project,
            labels=dict(stack.site.labels),
            bootstrap_roles=stack.site.bootstrap_roles,
            configuration=text,
            app_key=app_key,
            budgets="teams" in configuration,
            machine_accounts={
                pool: email for pool, each in served.items() if (email := each.service_account_email) is not None
            },
            secret_files={name: secret for each in served.values() for name, secret in each.secret_files.items()},
            mailboxes={name: bucket for each in served.values() for name, bucket in each.mailboxes.items()},
            standby_templates=[template for each in served.values() for template in each.standby_templates],
        ),
    )
    return manager.state()


def facts(
    managed: Sequence[dict[str, Any]],
    owner: GithubOwner | None,
    choices: ManagerSettings | None,
    teams: Mapping[str, Team],
) -> dict[str, dict[str, Any]]:
    """Return the configuration of each manager by its name under `others`. The first manager has the name "".

    The result is empty if the stack has no managerApp, or no pool with runners.
    """
    objective = {"waitObjectiveSec": choices.alerts.wait_objective_sec} if choices and choices.alerts else {}
    pools = [objective | each for each in managed]
    if owner is None or owner.manager_app is None or not pools:
        return {}
    app = owner.manager_app
    github = {
        "owner": owner.owner,
        "appId": app.id,
        "installationId": app.installation_id,
        "privateKey": app.private_key,
    }
    budgets = [
        {
            "name": name,
            "repositories": [f"{owner.owner}/{each}".lower() for each in team.repositories],
            "usdPerMonth": team.usd_per_month,
            "onBudget": team.on_budget,
        }
        for name, team in teams.items()
        if team.usd_per_month is not None
    ]
    others = choices.others if choices else {}
    manager_of = {pool: name for name, names in others.items() for pool in names}
    configurations: dict[str, dict[str, Any]] = {}
    for name in ("", *others):
        elsewhere = [
            {"manager": _label(other), "labels": pool["labels"], "runnerGroup": pool["runnerGroup"]}
            | ({"priorities": True} if "priorities" in pool else {})
            for pool in pools
            if (other := manager_of.get(pool["name"], "")) != name
        ]
        configurations[name] = {
            "name": _label(name),
            "github": github,
            "pools": [pool for pool in pools if manager_of.get(pool["name"], "") == name],
            **({"otherPools": elsewhere} if elsewhere else {}),
            **({"teams": budgets} if budgets else {}),
            **({"demand": choices.demand} if choices and choices.demand != "sweep" else {}),
        }
    return configurations


def names(choices: ManagerSettings | None) -> list[str]:
    """Return the names of the runner managers of the stack, as in the labels of their machines."""
    return [_label(name) for name in ("", *(choices.others if choices else {}))]


def _label(name: str) -> str:
    """Return the name of a manager in the labels of its machines."""
    return f"{pulumi.get_stack()}-{name}" if name else pulumi.get_stack()
