"""Computes the permissions on a Google Cloud project that the deployer of a stack file needs.

gpu_common.google_permissions has the permissions of each resource type, and the arguments of pools and image pipelines
have the types that they create. A test compares these types with the resources of the real program.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpu_common import google_permissions

from gpu_ci.cli.stack_files import StackFile
from gpu_ci.pool_args import PoolArgs
from gpu_ci.stack.clusters import CLUSTERS
from gpu_ci.stack.entries import Spec
from gpu_ci.stack.manager import ManagerSettings, on_aws
from gpu_ci.stack.site import MANAGER, SITE

NETWORKS = (
    "gcp:compute/firewall:Firewall",
    "gcp:compute/network:Network",
    "gcp:compute/router:Router",
    "gcp:compute/routerNat:RouterNat",
    "gcp:compute/subnetwork:Subnetwork",
)


def permissions(file: StackFile) -> list[str]:
    """Return the permissions that the deployer needs on the project, sorted.

    The permission to read the values of secrets is left out, because it may be granted on each secret. So are
    permissions on keys, which are granted on each key.
    """
    needed = _of_types(types(file) - google_permissions.GRANTED_ON_KEYS)
    if any(args.HAS_GATE for _, args in file.pools):
        needed |= {*google_permissions.of_calls(google_permissions.CALLS)}
    return sorted(needed)


def of_pools(pools: Iterable[PoolArgs]) -> list[str]:
    """Return the permissions that the deployer of pools needs on the project of their cluster, sorted."""
    return sorted(_of_types({token for args in pools for token in args.CREATES}))


def _of_types(tokens: Iterable[str]) -> set[str]:
    return {permission for token in tokens for permission in google_permissions.of_type(token)}


def services(pools: Iterable[PoolArgs]) -> set[str]:
    """Return the services that pools need in the project of their machines."""
    return {name for args in pools for name in (*google_permissions.services(args.CREATES), *args.services)}


def is_in_project(file: StackFile, spec: Spec) -> bool:
    """Return True if the machines of an entry are in the stack's project, not in another project with its cluster."""
    clusters = file.values[CLUSTERS] or {}
    return bool(clusters.get(spec.cluster, {}).get("project", file.project) == file.project)


def attests(file: StackFile) -> bool:
    """Return True if an image pipeline makes attestations for Binary Authorization."""
    return any((pipeline.choices.get("sign") or {}).get("attestor") for pipeline in file.pipelines)


def uses_bootstrap_roles(file: StackFile) -> bool:
    """Return True if the stack uses the custom roles that bootstrap/ made."""
    return bool((file.values[SITE] or {}).get("bootstrapRoles"))


def types(file: StackFile) -> set[str]:
    """Return the types of the Google Cloud resources that the program creates in the stack's project."""
    found = {token for group in _groups(file) for token in group}
    # bootstrap/ makes no role for attestations.
    return found - {google_permissions.CUSTOM_ROLE} if uses_bootstrap_roles(file) and not attests(file) else found


def _groups(file: StackFile) -> Iterator[Iterable[str]]:
    site: dict[str, Any] = file.values[SITE] or {}
    github: dict[str, Any] = site.get("github") or {}
    specs: list[Spec] = [*file.specs, *file.pipelines]
    for spec in specs:
        if is_in_project(file, spec):
            yield spec.model.CREATES
        yield from _with_fields(spec.model, spec.choices)
    # Without a manager, the machines read the key of runnerApp, and register their runners themselves.
    registers = any(args.REGISTERED_BY == "machines" for _, args in file.pools)
    if registers and github.get("runnerApp") and not github.get("managerApp"):
        yield (google_permissions.SECRET_MEMBER,)
    if site.get("networks"):
        yield NETWORKS
    if attests(file):
        yield (google_permissions.CUSTOM_ROLE,)
    if (manager := file.values[MANAGER]) is not None and github.get("managerApp") and not on_aws(manager):
        yield ManagerSettings.CREATES
        yield from _with_fields(ManagerSettings, manager)


def _with_fields(model: Any, choices: Mapping[str, Any]) -> Iterator[Iterable[str]]:
    """Yield the types that the fields in a stack file add."""
    yield from (types for name, types in model.CREATES_WITH.items() if choices.get(name))
