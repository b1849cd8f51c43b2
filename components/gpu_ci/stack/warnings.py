"""What is no mistake of a stack file's pools and clusters, and still worth a word."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from ..args import Args
from ..validation_errors import join
from .clusters import unused
from .pools import POOLS

# "two minutes before Amazon EC2 stops or terminates it" (docs.aws.amazon.com/AWSEC2/latest/UserGuide/
# spot-instance-termination-notices.html).
_SPOT_NOTICE_SEC = 120


RUNNER_APP, GROUP = "gpu-ci:site.github.runnerApp", "gpu-ci:github.runnerGroup"
"""What a stack file has to give, both of them, for machines to register runners."""


def stack_warnings(
    pools: Iterable[tuple[str, Args]], clusters: Iterable[str], taken: Iterable[Any], present: Collection[str]
) -> list[str]:
    """Of pools in order, of clusters by their names and those that pools have taken, and which of RUNNER_APP and GROUP
    there are."""
    named = list(pools)
    return [
        *_longer_than_the_notice(named),
        *_root_on_the_machine(named),
        *_without_effect(named, [key for key in (RUNNER_APP, GROUP) if key not in present]),
        *unused(clusters, set(taken)),
    ]


def _root_on_the_machine(pools: Iterable[tuple[str, Any]]) -> list[str]:
    """A choice somebody may have to make, and should know the price of (docs/adr/0012)."""
    return [
        f"{join(POOLS, name)}.runner.docker: a job that has rootful Docker is root on its machine, and can read "
        f"{args.github.private_key}, with which it is the App in every repository the App is installed in; hint: "
        "docker: rootless, or trust every workflow that the runner group lets in"
        for name, args in pools
        if getattr(args, "github", None) is not None and getattr(args.runner, "docker", "") == "rootful"
    ]


def _without_effect(pools: Iterable[tuple[str, Any]], missing: Sequence[str]) -> list[str]:
    """Somebody who describes a runner, or gives one half of what registers it, expects one."""
    machines = [(name, args) for name, args in pools if "github" in args.WIRING]
    if len(missing) == 1 and machines:
        [other] = {RUNNER_APP, GROUP}.difference(missing)
        names = ", ".join(name for name, _ in machines)
        text = f"is missing beside {other}, so machines of these pools register no runners, and stay on: {names}"
        return [f"{missing[0]}: {text}; hint: give {missing[0]} too"]
    # Labels have an effect all the same: they stand in the outputs, for whatever else registers runners.
    return [
        f"{join(POOLS, name)}.runner: has no effect, as the pool registers no runners: its machines check themselves "
        f"and stay on; hint: give {RUNNER_APP} and {GROUP}, or leave runner out"
        for name, args in machines
        if missing and "runner" in args.model_fields_set
    ]


def _longer_than_the_notice(pools: Iterable[tuple[str, Args]]) -> list[str]:
    """No mistake: where a node is drained for another image, a pod has all of its time."""
    over_notice = {
        name: seconds
        for name, args in pools
        if getattr(args, "market", "") == "spot"
        and (seconds := getattr(getattr(args, "runner", None), "termination_grace_sec", 0)) > _SPOT_NOTICE_SEC
    }
    return [
        f"{join(POOLS, name)}.runner.terminationGraceSec: a spot node is gone {_SPOT_NOTICE_SEC} seconds after AWS "
        f"gives notice, and its job with it: got {seconds}; hint: {_SPOT_NOTICE_SEC} or less, or market: standard"
        for name, seconds in over_notice.items()
    ]
