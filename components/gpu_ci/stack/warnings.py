"""Warnings about the pools and clusters of a stack file that do not prevent a deployment."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpu_catalog import price
from pydantic.alias_generators import to_camel

from ..pool_args import PoolArgs, Surroundings
from ..validation_errors import join
from .clusters import CLUSTERS, unused
from .pools import POOLS
from .requirements import WHICH_APP

if TYPE_CHECKING:
    from .parse import Stack

MANAGER_APP, RUNNER_APP = "gpu-ci:site.github.managerApp", "gpu-ci:site.github.runnerApp"
"""The keys of the two GitHub Apps that can register the runners of machines. With both, managerApp registers them."""
GROUP = "gpu-ci:github.runnerGroup"
"""Without this key, no runners are registered, even if the stack file has one of the Apps."""
# Google's public image projects.
_PUBLIC_IMAGES = (
    "cos-cloud", "debian-cloud", "deeplearning-platform-release", "rhel-cloud", "rocky-linux-accelerator-cloud",
    "rocky-linux-cloud", "ubuntu-os-accelerator-images", "ubuntu-os-cloud", "ubuntu-os-pro-cloud",
)  # fmt: skip
_GRANTS = {
    "subnetwork": "grant both roles/compute.networkUser on the subnetwork",
    "image": "grant both roles/compute.imageUser in its project",
    "reservation": "share the reservation with this project",
}
"""The fields that can name a resource of another project, and the step that gives the pool access to it."""


def stack_warnings(stack: Stack, reported: Collection[str] = ()) -> list[str]:
    """Return the warnings about pools without problems and about clusters.

    If an entry names a cluster that does not exist, no unused cluster is reported, because the name may be a
    misspelling of that cluster. The unknown name is already a problem of the entry.

    Args:
        stack: The stack.
        reported: The paths of problems. A key whose value has a problem counts as present.
    """
    named = stack.pools
    value = stack.values[CLUSTERS]
    clusters: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
    taken = {each.cluster for each in (*stack.specs, *stack.pipelines)} - {""}
    present = [key for key in (MANAGER_APP, RUNNER_APP, GROUP) if key in reported or stack.at(key) is not None]
    logins = {name: _logins(cluster) for name, cluster in clusters.items()}
    closed = [name for name, cluster in clusters.items() if _is_closed(cluster)]
    around = Surroundings(logins, closed, [key for key in (MANAGER_APP, GROUP) if key not in present])
    return [
        *(text for name, args in named for text in args.warnings(join(POOLS, name), around)),
        *_overlapping_labels(named),
        *_unused_runner_settings(named, present),
        *(text for name, args in named for text in _limits_without_price(join(POOLS, name), args)),
        *(unused(clusters, taken) if taken <= clusters.keys() else []),
    ]


def _overlapping_labels(pools: Iterable[tuple[str, PoolArgs]]) -> list[str]:
    """Warn about jobs of one pool that another pool's runners match too.

    GitHub gives a job to any runner that has all labels of its `runs-on`, and compares them without case
    (docs.github.com, "Using labels with self-hosted runners"). The label of a scale set is its name.
    """
    labels = {name: _labels(name, args) for name, args in pools}
    return [
        f"{join(POOLS, name)}: jobs for {', '.join(sorted(own))} also match the runners of the pool {other}, and "
        f"GitHub may run them there; hint: give {name} a label that {other} does not have, or "
        "another name if its kind has no runnerLabels"
        for name, own in labels.items()
        for other, others in labels.items()
        if name != other and own and own <= others and (own != others or name < other)
    ]


def _limits_without_price(path: str, args: PoolArgs) -> Iterator[str]:
    """Warn about limits in USD that ignore a machine of the pool, because its price is not in the catalog."""
    demands = [each for each in (args.demand(""), *args.ladder_demands("")) if each]
    unpriced = dict.fromkeys(
        f"{each.machine.machine_type} {each.market} in {each.region}"
        for each in demands
        if price(each.machine, each.region, each.market) is None
    )
    for name in ("max_usd_per_day", "price_ceiling_usd"):
        if unpriced and getattr(args, name, None):
            text = f"has no effect for {', '.join(unpriced)}, whose price the catalog does not know"
            yield f"{path}.{to_camel(name)}: {text}; hint: limit max, or set a budget at the cloud"


def overlapping(
    pools: Iterable[tuple[str, PoolArgs]], others: Sequence[tuple[str, PoolArgs]]
) -> Iterator[tuple[str, str, str]]:
    """Yield each pool whose jobs match the runners of another stack's pool, that pool, and the labels of the jobs."""
    for name, args in pools:
        own = _labels(name, args)
        for other, other_args in others:
            if own and own <= _labels(other, other_args):
                yield name, other, ", ".join(sorted(own))


def _labels(name: str, args: PoolArgs) -> frozenset[str]:
    """Return the labels of a pool's runners in lower case. A pool without runners has none."""
    return frozenset(label.casefold() for label in args.runner_labels_of(name))


def _logins(cluster: Any) -> list[Any]:
    """Return the names of a cluster's logins. The cluster may be invalid."""
    logins = cluster.get("imagePullSecrets") if isinstance(cluster, Mapping) else None
    return [each.get("name") for each in (logins if isinstance(logins, list) else ()) if isinstance(each, Mapping)]


def _is_closed(cluster: Any) -> bool:
    """Return True if runners on a cluster can connect to no private address. The cluster may be invalid."""
    given = cluster if isinstance(cluster, Mapping) else {}
    return given.get("networkPolicies", True) is True and not given.get("privateRanges")


def _unused_runner_settings(pools: Iterable[tuple[str, PoolArgs]], present: Collection[str]) -> list[str]:
    """Warn about settings of runners in a stack that registers no runners, because a required key is missing."""
    machines = [(name, args) for name, args in pools if args.REGISTERED_BY == "machines"]
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


def other_projects(
    pools: Iterable[tuple[str, PoolArgs]], project: str, fields: Collection[str] = tuple(_GRANTS)
) -> list[str]:
    """Return a warning for each field of a pool that names a resource of another project.

    The check machine is created with the permissions of the deployer. The machines of a managed instance group are
    created with the permissions of the Google APIs service agent. So a group may fail to start a machine although the
    check has passed (cloud.google.com/compute/docs/access/service-accounts#google_apis_service_agent). The machines of
    a build step are created with the permissions of the build's service account.
    """
    return [
        f"{join(POOLS, name)}.{field}: is of another project, {other}: the check of a template uses the deployer's "
        f"rights there, and {args.LATER_MACHINES}; hint: {_GRANTS[field]} (docs/start/bootstrap.md)"
        for name, args in pools
        for field, link in args.shared_resources().items()
        if field in fields and (other := _project_of(link)) and other not in (project, *_PUBLIC_IMAGES)
    ]


def _project_of(link: Any) -> str:
    """Return the project in the path of a resource; empty for a name without a path and for an unknown value."""
    steps = link.split("/") if isinstance(link, str) else []
    return steps[steps.index("projects") + 1] if "projects" in steps else ""
