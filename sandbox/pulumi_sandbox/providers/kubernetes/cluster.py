"""Identify the cluster of a provider by the current context of its kubeconfig.

The identity of an EKS cluster is its region and its name. The identity of a GKE cluster is the name that gcloud gives
to its context: `gke_<project>_<location>_<name>`. The identity of any other cluster is the address of its server.
Objects with the same name in two clusters are different objects.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from pulumi_sandbox.providers.kubernetes.objects import inner, items
from pulumi_sandbox.providers.values import UNKNOWN
from pulumi_sandbox.world.store import World

EKS, GKE = "aws:eks/cluster:Cluster", "gcp:container/cluster:Cluster"
# `aws eks get-token --cluster-name x` and `aws-iam-authenticator token -i x` (docs.aws.amazon.com/eks/latest/userguide/
# create-kubeconfig.html).
NAME, REGION = ("--cluster-name", "--cluster-id", "-i"), ("--region",)
# The name that `gcloud container clusters get-credentials` gives (docs.cloud.google.com/kubernetes-engine/docs/how-to/
# cluster-access-for-kubectl). Names of projects, locations and clusters have no underscore.
GCLOUD = re.compile(r"gke_[^_/]+_[^_/]+_[^_/]+")
ENDPOINT = re.compile(r"https://[^/]+\.([a-z0-9-]+)\.eks\.amazonaws\.com")
# The settings of the provider that select the cluster.
SETTINGS = ("kubeconfig", "context", "cluster")


@dataclass(frozen=True)
class CurrentCluster:
    """The cluster of the current context, and the arguments of the command that gets its credentials."""

    name: str = ""
    entry: Any = None
    arguments: tuple[str, ...] = ()

    def option(self, flags: tuple[str, ...]) -> str:
        return next((value for flag, value in pairwise(self.arguments) if flag in flags), "")


def current_cluster(config: Mapping[str, Any]) -> CurrentCluster:
    """Return the cluster of the current context; empty if there is no kubeconfig or its value is unknown yet."""
    kubeconfig, context, cluster = (str(config.get(name) or "") for name in SETTINGS)
    try:
        # The provider accepts the contents or the path of a kubeconfig.
        return _read(
            kubeconfig if "\n" in kubeconfig or "{" in kubeconfig else Path(kubeconfig).read_text(), context, cluster
        )
    except (OSError, ValueError, yaml.YAMLError):
        return CurrentCluster()


@lru_cache(maxsize=16)
def _read(text: str, context: str, cluster: str) -> CurrentCluster:
    document = yaml.safe_load(text)
    context_name = context or inner(document, "current-context")
    context_entry = _entry(document, "context", context_name)
    if context_name and context_entry is None:
        return CurrentCluster()
    user = _entry(document, "user", inner(context_entry, "user"))
    name = str(cluster or inner(context_entry, "cluster") or "")
    arguments = tuple(str(one) for one in inner(user, "exec", "args") or ())
    return CurrentCluster(name, _entry(document, "cluster", name or None), arguments)


def _entry(document: Any, kind: str, name: Any) -> Any:
    """Return the entry of a list by name, or the first entry without a name."""
    found = (one.get(kind) for _, one in items(inner(document, f"{kind}s")) if name in (None, one.get("name")))
    return next(found, None)


def identity(config: Mapping[str, Any], world: World) -> str:
    """Return the cluster's identity.

    It is `us-east-1/ci` on EKS, `gke_project_us-central1_ci` on GKE, else the server's address; empty if unknown.
    """
    current = current_cluster(config)
    server = str(inner(current.entry, "server") or "").rstrip("/")
    if GCLOUD.fullmatch(current.name):
        return current.name
    if row := next(iter(world.find(GKE, endpoint=server.removeprefix("https://"))), None) if server else None:
        return of_gke(row.id)
    endpoint = ENDPOINT.match(server)
    name, region = current.option(NAME), current.option(REGION) or (endpoint[1] if endpoint else "")
    if not name and server:
        row = next(iter(world.find(EKS, endpoint=server)), None)
        if row is None:
            return server
        name = row.id
    return f"{region}/{name}" if region and name else name


def of_gke(path: str) -> str:
    """Return the identity of the GKE cluster at a path."""
    _, project, _, location, _, name = path.split("/")
    return f"gke_{project}_{location}_{name}"


def is_same(one: str, other: str) -> bool:
    """Return True if two identities are of one cluster. If either has no region, only the names count."""
    (region, _, name), (other_region, _, other_name) = one.rpartition("/"), other.rpartition("/")
    return name == other_name and (region == other_region or not region or not other_region)


def replaces(old: Mapping[str, Any], new: Mapping[str, Any], name: str) -> bool:
    """Return True if the cluster of the current context changed or is unknown yet.

    Source: pulumi-kubernetes at 94977969, provider.go, DiffConfig.
    """
    before, after = current_cluster(old).entry, current_cluster(new).entry
    changed = new.get(name) is UNKNOWN or (before is not None and after is not None and before != after)
    return name in SETTINGS and changed
