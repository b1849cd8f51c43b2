"""Gives the pools and image pipelines of a stack their late inputs, creates them, and returns their outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import pulumi
from gpu_catalog import cost

from gpu_ci.component import Component
from gpu_ci.stack.entries import Spec
from gpu_ci.stack.pools import PoolSpec
from gpu_ci.stack.quotas import cost_of

if TYPE_CHECKING:
    from .clusters import SharedCluster

S = TypeVar("S", bound=Spec)


@dataclass(frozen=True)
class LateInputs:
    """The outputs of the resources that pools and image pipelines need."""

    subnetworks: Mapping[str, pulumi.Output[str]]
    """The created subnetwork of each region under `networks` of the site."""
    runner_group: pulumi.Output[str] | None
    clusters: Mapping[str, SharedCluster]
    shared: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The wiring of each pool from the resources that the pools of its kind share."""

    def given_to(self, spec: S) -> tuple[S, pulumi.ResourceOptions | None]:
        """Return the entry with its late inputs, and the options of its component.

        Raises:
            ArgsError: The arguments do not work with the facts of their cluster.
        """
        if spec.cluster:
            on_cluster, options = self.clusters[spec.cluster].args_of(spec)
            return replace(spec, args=on_cluster), options
        args: Any = spec.args or spec.model(**spec.choices, **spec.wiring)
        own = args.wiring_of(
            {
                "subnetwork": self.subnetworks.get(spec.region),
                "ladder_subnetworks": self.subnetworks,
                **self.shared.get(spec.path, {}),
            }
        )
        given = dict(args)
        late = {name: {**given[name], **new} if isinstance(new, Mapping) else new for name, new in own.items() if new}
        args = args.model_copy(update=late)
        # With the created group as an Output, the check of a pool waits for the group.
        if self.runner_group is not None and isinstance(spec, PoolSpec):
            args = args.with_runner_group(self.runner_group)
        return replace(spec, args=args), None


# The fields of a pool that the outputs contain, if the kind has them. They describe where a job runs.
_SHOWN = ("machineType", "instanceTypes", "clusterName", "region", "zones", "market", "max", "publicEgress")


@dataclass(frozen=True)
class Built:
    """A pool, with its late inputs, and its component."""

    pool: PoolSpec
    component: Component


def build(specs: Sequence[PoolSpec], late: LateInputs, managers: Sequence[str] = ()) -> list[Built]:
    """Create what the pools of a kind share, and one component for each pool.

    Args:
        specs: The pools.
        late: The outputs of other resources.
        managers: The names of the stack's runner managers.
    """
    late = replace(late, shared=_shared(specs, managers))
    ready = [late.given_to(spec) for spec in specs]
    return [Built(spec, spec.component(spec.name, spec.args, options)) for spec, options in ready]


def _shared(specs: Iterable[PoolSpec], managers: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """Create what the pools of each kind share, and return its wiring by the paths of the pools."""
    by_component: dict[type[Component], dict[str, PoolSpec]] = {}
    for spec in specs:
        by_component.setdefault(spec.component, {})[spec.name] = spec
    return {
        pools[name].path: wiring
        for component, pools in by_component.items()
        for name, wiring in component.shared({name: spec.args for name, spec in pools.items()}, managers).items()
    }


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


def _ladder(pool: PoolSpec) -> dict[str, Any]:
    """Return the ladder of the pool, or an empty map if it has none."""
    found = pool.args.model_dump(mode="json", by_alias=True, include={"ladder"}, exclude_none=True)
    return found if found.get("ladder") else {}


def _fields(pool: PoolSpec) -> set[str]:
    return {name for name, field in type(pool.args).model_fields.items() if field.alias in _SHOWN}


def build_pipelines(specs: Iterable[Spec], late: LateInputs) -> dict[str, dict[str, Any]]:
    """Create one component for each pipeline, and return its kind, its main fields and its outputs by name."""
    found = {}
    for spec, options in [late.given_to(spec) for spec in specs]:
        component = spec.component(spec.name, spec.args, options)
        shown = spec.args.model_dump(mode="json", by_alias=True, include={"region"})
        found[spec.name] = {"kind": spec.kind, **shown, **component.state()}
    return found
