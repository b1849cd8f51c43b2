"""Warnings about the pools and clusters of a stack file that do not prevent a deployment."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..args import Args
from ..validation_errors import join
from .clusters import CLUSTERS, unused
from .pools import POOLS
from .requirements import WHICH_APP

MANAGER_APP, RUNNER_APP = "gpu-ci:site.github.managerApp", "gpu-ci:site.github.runnerApp"
"""The keys of the two GitHub Apps that can register the runners of machines. With both, managerApp registers them."""
GROUP = "gpu-ci:github.runnerGroup"
"""Without this key, no runners are registered, even if the stack file has one of the Apps."""


def stack_warnings(
    pools: Iterable[tuple[str, Args]], clusters: Mapping[str, Any], taken: Iterable[Any], present: Collection[str]
) -> list[str]:
    """Return the warnings about pools without problems and about clusters.

    Args:
        pools: Name and arguments of the pools.
        clusters: The clusters by name, as models or as maps of the stack file.
        taken: The names of the clusters that pools and image pipelines use. If one of them does not exist, no unused
            cluster is reported, because the name may be a misspelling of that cluster. The unknown name is already a
            problem of its pool or pipeline.
        present: Those of the keys MANAGER_APP, RUNNER_APP and GROUP that the stack file has. A key whose value is wrong
            counts too, because the problem of the value is already reported.
    """
    named, taken = list(pools), list(taken)
    return [
        *_idle_gpus(named),
        *_undated_zones(named),
        *_root_with_app_key(named),
        *_pods_with_app_key(named),
        *_missing_pull_secrets(named, clusters),
        *_overlapping_labels(named),
        *_unused_runner_settings(named, present),
        *_needs_manager(named, [key for key in (MANAGER_APP, GROUP) if key not in present]),
        *([] if any(each not in clusters for each in taken if each) else unused(clusters, set(taken))),
    ]


def _undated_zones(pools: Iterable[tuple[str, Any]]) -> list[str]:
    """Warn about zones that Google's page does not list for the GPU."""
    return [
        f"{join(POOLS, name)}.zones: Google's page of GPU zones has no {args.machine.gpu.name} in {zone}, only an old "
        "copy of an answer of Google's API has; hint: gpu-ci doctor asks Google"
        for name, args in pools
        for zone in getattr(args, "zones", None) or ()
        if isinstance(zone, str) and zone in getattr(getattr(args, "machine", None), "undated_zones", ())
    ]


def _missing_pull_secrets(pools: Iterable[tuple[str, Any]], clusters: Mapping[str, Any]) -> list[str]:
    """Warn about pull secrets that the stack does not create.

    The stack creates their namespace. At the first `up`, another tool cannot create them before the check pulls its
    image.
    """
    return [
        f"{join(POOLS, name)}.runner.imagePullSecrets: the stack does not create the Secret {secret}, and nodes "
        "cannot pull private images without it; hint: describe its login under "
        f"{join(CLUSTERS, args.cluster_name)}.imagePullSecrets, or create it in the namespace within smoke.deadlineSec"
        for name, args in pools
        for secret in getattr(getattr(args, "runner", None), "image_pull_secrets", ())
        if secret not in _logins(clusters.get(args.cluster_name))
    ]


def _overlapping_labels(pools: Iterable[tuple[str, Any]]) -> list[str]:
    """Warn about jobs of one pool that another pool's runners match too.

    GitHub gives a job to any runner that has all labels of its `runs-on`, and compares them without case
    (docs.github.com, "Using labels with self-hosted runners"). The label of a scale set is its name.
    """
    labels = {name: _labels(name, args) for name, args in pools}
    return [
        f"{join(POOLS, name)}: jobs for {', '.join(sorted(own))} also match the runners of the pool {other}, and "
        f"GitHub may run them there; hint: give {name} a label that {other} does not have"
        for name, own in labels.items()
        for other, others in labels.items()
        if name != other and own and own <= others and (own != others or name < other)
    ]


def overlapping(pools: Iterable[tuple[str, Any]], others: Sequence[tuple[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """Yield each pool whose jobs match the runners of another stack's pool, that pool, and the labels of the jobs."""
    for name, args in pools:
        own = _labels(name, args)
        for other, other_args in others:
            if own and own <= _labels(other, other_args):
                yield name, other, ", ".join(sorted(own))


def _labels(name: str, args: Any) -> frozenset[str]:
    """Return the labels of a pool's runners in lower case. A pool without runners has none."""
    if hasattr(args, "runner_labels_of"):
        return frozenset(label.casefold() for label in args.runner_labels_of(name))
    runner = getattr(args, "runner", None)
    return frozenset() if runner is None else frozenset({str(runner.scale_set_name or name).casefold()})


def _logins(cluster: Any) -> list[Any]:
    """Return the names of a cluster's logins."""
    if isinstance(cluster, Mapping):
        return [each.get("name") for each in cluster.get("imagePullSecrets") or () if isinstance(each, Mapping)]
    return [each.name for each in getattr(cluster, "image_pull_secrets", ())]


def _root_with_app_key(pools: Iterable[tuple[str, Any]]) -> list[str]:
    """Warn about rootful Docker on machines that can read an App's key (docs/adr/0012)."""
    return [
        f"{join(POOLS, name)}.runner.docker: a job that has rootful Docker is root on its machine, and can read "
        f"{args.github.private_key}, with which it is the App in every repository the App is installed in; hint: "
        "docker: rootless, or trust every workflow that the runner group lets in"
        for name, args in pools
        if getattr(getattr(args, "github", None), "private_key", None)
        and getattr(args.runner, "docker", "") == "rootful"
    ]


def _pods_with_app_key(pools: Iterable[tuple[str, Any]]) -> list[str]:
    """Warn about jobs that can create pods. A pod can mount every Secret of its namespace.

    GitHub's container hooks also require the rights to read Secrets, and refuse each job without them
    (actions/runner-container-hooks: packages/k8s/src/k8s/index.ts, requiredPermissions).
    """
    return [
        f"{join(POOLS, name)}.runner.containerMode: a job that gets the token of its runner can read every Secret of "
        "the pool's namespace, also the key of the GitHub App, and run commands in the pool's other runners; hint: "
        "containerMode: {kind: none}, or trust every workflow that the runner group lets in "
        "(docs/guides/kubernetes.md#jobs-in-pods-of-their-own)"
        for name, args in pools
        if getattr(getattr(args, "runner", None), "jobs_in_pods", False)
    ]


def _unused_runner_settings(pools: Iterable[tuple[str, Any]], present: Collection[str]) -> list[str]:
    """Warn about settings of runners in a stack that registers no runners, because a required key is missing."""
    machines = [(name, args) for name, args in pools if "github" in args.WIRING]
    app = next((key for key in (MANAGER_APP, RUNNER_APP) if key in present), "")
    if not machines or (app and GROUP in present):
        return []
    if app or GROUP in present:
        missing, other = (GROUP, app) if app else (MANAGER_APP, GROUP)
        names = ", ".join(name for name, _ in machines)
        text = f"is missing, although {other} is set, so the machines of {names} register no runners, and stay on"
        return [f"{missing}: {text}; hint: {f'give {GROUP} too' if app else WHICH_APP}"]
    # Labels still have an effect: they are in the outputs, for another tool that registers runners.
    return [
        f"{join(POOLS, name)}.runner: has no effect, as the pool registers no runners: its machines check themselves "
        f"and stay on; hint: give {MANAGER_APP} and {GROUP} (docs/guides/runner-manager-setup.md), or leave runner out"
        for name, args in machines
        if "runner" in args.model_fields_set
    ]


def _needs_manager(pools: Iterable[tuple[str, Any]], missing: Sequence[str]) -> list[str]:
    """Warn about fields that only the runner manager reads, in a stack without one."""
    hint = f"hint: give {', '.join(missing)}"
    found = []
    for name, args in pools if missing else ():
        path = join(POOLS, name)
        if getattr(args, "ladder", ()):
            text = "its templates are checked, but only the runner manager starts machines there"
            found.append(f"{path}.ladder: {text}; {hint}, or leave ladder out")
        if getattr(args, "price_ceiling_usd", None):
            found.append(
                f"{path}.priceCeilingUsd: only the runner manager reads this field; {hint}, or remove priceCeilingUsd"
            )
        if "github" in args.WIRING and args.market == "flex-start":
            text = "a new size of the group gets no flex-start machine, only the runner manager does"
            found.append(f"{path}.market: {text}; {hint}")
    return found


def _idle_gpus(pools: Iterable[tuple[str, Any]]) -> list[str]:
    """Warn about nodes of which some GPUs never get a job, because runners need too much of something else."""
    found = []
    for name, args in pools:
        node = getattr(args, "node", None)
        if node is None:
            continue
        fit = node.runners_by_field(args.runner)
        field, runners = min(fit.items(), key=lambda each: each[1])
        if runners < fit["gpus"]:
            disk = field == "ephemeralStorageGib"
            larger = node.larger_disk if disk else f"another {node.type_noun}"
            smaller = f"a smaller {field}{' or scratch' if disk and args.runner.scratch else ''}"
            found.append(
                f"{join(POOLS, name)}.runner.{field}: a node has room for {runners} of {fit['gpus']} runners, so jobs "
                f"use {runners * args.runner.gpus} of its {node.devices} GPUs; hint: {smaller}, or {larger}"
            )
    return found
