"""Creates the pools of a stack and registers their runners, and returns the outputs of the pools."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pulumi
from gpu_catalog import cost

from gpu_ci.component import Component
from gpu_ci.pool_args import EntryArgs, PoolArgs
from gpu_ci.stack.quotas import cost_of
from gpu_ci.stack.site import Site

if TYPE_CHECKING:
    from gpu_ci.stack.github import Github


@dataclass(frozen=True)
class Entry:
    """One pool or image pipeline: the component of its kind, and the validated arguments."""

    name: str
    kind: str
    component: type[Component]
    args: Any
    region: str
    cluster: str
    """The name of its cluster in the stack file; empty if it needs none."""
    options: pulumi.ResourceOptions | None = None


@dataclass(frozen=True)
class Pool(Entry):
    """One pool."""

    args: PoolArgs


@dataclass(frozen=True)
class Pipeline(Entry):
    """One image pipeline."""

    args: EntryArgs


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
    return pool if group is None else replace(pool, args=pool.args.with_runner_group(group))


# The fields of a pool that the outputs contain, if the kind has them. They describe where a job runs.
_SHOWN = ("machineType", "instanceTypes", "clusterName", "region", "zones", "market", "max", "publicEgress")


@dataclass(frozen=True)
class Built:
    """A pool and its component."""

    pool: Pool
    component: Component


def build(pools: Iterable[Pool]) -> list[Built]:
    """Create one component for each pool."""
    return [Built(pool, pool.component(pool.name, pool.args, pool.options)) for pool in pools]


def facts(built: Sequence[Built]) -> dict[str, dict[str, Any]]:
    """Return for each pool its main fields, its cost, and the outputs of its component."""
    found = {}
    costs_of_stack = _costs(built)
    costs = {each.demand.pool: {"cost": each.to_json()} for each in costs_of_stack.pools}
    costs |= {each.pool: {"cost": each.to_json()} for each in costs_of_stack.metered}
    for each in built:
        pool = each.pool
        chosen = pool.args.model_dump(mode="json", by_alias=True, include=_fields(pool))
        found[pool.name] = {
            "kind": pool.kind,
            **chosen,
            **pool.args.outputs(pool.name),
            **_ladder(pool),
            **costs.get(pool.name, {}),
            **each.component.state(),
        }
    return found


def stack_cost(built: Sequence[Built]) -> dict[str, Any]:
    """Return the cost of all pools. A preview shows the cost, because it needs only the stack file and the catalog."""
    costs_of_stack = _costs(built).to_json()
    # `notIncluded` repeats the summary. With one market, `byMarket` repeats the total.
    left_out = {"notIncluded"} | ({"byMarket"} if len(costs_of_stack["byMarket"]) < 2 else set())
    return {name: value for name, value in costs_of_stack.items() if name not in left_out}


def smoke_targets(built: Sequence[Built]) -> list[dict[str, Any]]:
    """Return the pools with GPUs, sorted by name, with the information that a check of their GPUs needs."""
    return [
        {
            "pool": each.pool.name,
            "cloud": each.component.TYPE.split(":")[1],
            "machineType": found.machine_type,
            "gpu": found.machine.gpu.device_name,
            "gpuCount": int(found.machine.gpu_count),
            "zones": found.zones,
            "template": each.component.state().get("template"),
        }
        for each in built
        if (found := each.pool.args.check_machine)
    ]


def _costs(built: Sequence[Built]) -> cost.StackCost:
    return cost_of((each.pool.name, each.pool.args) for each in built)


def _ladder(pool: Pool) -> dict[str, Any]:
    """Return the ladder of the pool, or an empty map if it has none."""
    found = pool.args.model_dump(mode="json", by_alias=True, include={"ladder"}, exclude_none=True)
    return found if found.get("ladder") else {}


def _fields(pool: Pool) -> set[str]:
    return {name for name, field in type(pool.args).model_fields.items() if field.alias in _SHOWN}


def build_pipelines(pipelines: Iterable[Pipeline]) -> dict[str, dict[str, Any]]:
    """Create one component for each pipeline, and return its kind, its main fields and its outputs by name."""
    found = {}
    for each in pipelines:
        component = each.component(each.name, each.args, each.options)
        shown = each.args.model_dump(mode="json", by_alias=True, include={"region"})
        found[each.name] = {"kind": each.kind, **shown, **component.state()}
    return found
