"""The entry of a pool in the configuration of the runner manager: what it needs to start machines for jobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gpu_catalog import cost

from ...pool_args import ManagedPool

if TYPE_CHECKING:
    import pulumi

    from ..runner_pool import RunnerPool, RunnerPoolArgs


def pool(name: str, args: RunnerPoolArgs, component: RunnerPool) -> ManagedPool:
    """Return the entry of a pool with runners."""
    assert args.github is not None, "the pool has runners"  # noqa: S101 - for the type checker
    # A machine has registerSec to download the runner. If the manager registers the runner, the machine then waits for
    # the registration, for at most registerSec.
    ready_sec = args.runner.register_sec * (2 if args.github.registered_by == "manager" else 1)
    rungs = list(component.rung_templates)
    return ManagedPool(
        {
            **({} if args.wait_objective_sec is None else {"waitObjectiveSec": args.wait_objective_sec}),
            "name": name,
            "project": args.project,
            "template": component.template,
            "max": args.max,
            "labels": args.runner_labels_of(name),
            "runnerGroup": args.github.runner_group,
            "registeredBy": args.github.registered_by,
            "bootSec": args.smoke.deadline_sec + ready_sec,
            "idleSec": args.runner.idle_sec,
            **({"standby": args.standby.stopped_size} if args.standby else {}),
            **({"priceCeilingUsd": args.price_ceiling_usd} if args.price_ceiling_usd else {}),
            "rungs": [place for rung, template in rungs for place in _places(name, rung, template)],
        },
        component.service_account_email,
        [component.template, *dict.fromkeys(each for _, each in rungs if each is not None)] if args.standby else [],
    )


def _places(name: str, rung: RunnerPoolArgs, template: pulumi.Output[str] | None) -> Iterator[dict[str, Any]]:
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
