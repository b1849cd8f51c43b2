"""Which cluster a provider speaks with, as the context of its kubeconfig tells.

A cluster of EKS is known by its region and its name, any other one by its server's address. Objects with the same name
in two clusters are two.
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

from pulumi_sandbox.providers.kubernetes.rules.pod_rules import inner, items
from pulumi_sandbox.providers.values import UNKNOWN
from pulumi_sandbox.world.store import World

EKS = "aws:eks/cluster:Cluster"
# `aws eks get-token --cluster-name x` and `aws-iam-authenticator token -i x` (docs.aws.amazon.com/eks/latest/userguide/
# create-kubeconfig.html).
NAME, REGION = ("--cluster-name", "--cluster-id", "-i"), ("--region",)
# What `aws eks update-kubeconfig` calls one (docs.aws.amazon.com/cli/latest/reference/eks/update-kubeconfig.html).
ARN = re.compile(r"arn:[\w-]+:eks:([\w-]+):\d+:cluster/(.+)")
ENDPOINT = re.compile(r"https://[^/]+\.([a-z0-9-]+)\.eks\.amazonaws\.com")
# What of a provider's configuration says which cluster is meant.
SETTINGS = ("kubeconfig", "context", "cluster")


@dataclass(frozen=True)
class Active:
    """The cluster of the context in force, and the words by which credentials for it are asked for."""

    name: str = ""
    entry: Any = None
    arguments: tuple[str, ...] = ()

    def option(self, flags: tuple[str, ...]) -> str:
        return next((value for flag, value in pairwise(self.arguments) if flag in flags), "")


def active(config: Mapping[str, Any]) -> Active:
    """Nothing where there is no kubeconfig, or none that is known yet."""
    given, context, cluster = (str(config.get(name) or "") for name in SETTINGS)
    try:
        # The provider takes the text itself or the path of a file.
        return _read(given if "\n" in given or "{" in given else Path(given).read_text(), context, cluster)
    except (OSError, ValueError, yaml.YAMLError):
        return Active()


@lru_cache(maxsize=16)
def _read(text: str, context: str, cluster: str) -> Active:
    document = yaml.safe_load(text)
    wanted = context or inner(document, "current-context")
    chosen = _entry(document, "context", wanted)
    if wanted and chosen is None:
        return Active()
    user = _entry(document, "user", inner(chosen, "user"))
    name = str(cluster or inner(chosen, "cluster") or "")
    arguments = tuple(str(one) for one in inner(user, "exec", "args") or ())
    return Active(name, _entry(document, "cluster", name or None), arguments)


def _entry(document: Any, kind: str, name: Any) -> Any:
    """The entry of a list by its name; the first where nothing names one."""
    found = (one.get(kind) for _, one in items(inner(document, f"{kind}s")) if name in (None, one.get("name")))
    return next(found, None)


def identity(config: Mapping[str, Any], world: World) -> str:
    """`us-east-1/ci` for a cluster of EKS, the server's address for another one, empty where nothing tells."""
    found = active(config)
    server = str(inner(found.entry, "server") or "").rstrip("/")
    arn, endpoint = ARN.fullmatch(found.name), ENDPOINT.match(server)
    name = found.option(NAME) or (arn[2] if arn else "")
    region = found.option(REGION) or (arn[1] if arn else "") or (endpoint[1] if endpoint else "")
    if not name and server:
        made = next(iter(world.find(EKS, endpoint=server)), None)
        if made is None:
            return server
        name = made.id
    return f"{region}/{name}" if region and name else name


def is_of(cluster: str, name: Any, region: Any) -> bool:
    """Whether a cluster is the one of this name in EKS; where one of both has no region, the name decides."""
    there, _, called = cluster.rpartition("/")
    return called == name and (not there or not region or there == region)


def replaces(old: Mapping[str, Any], new: Mapping[str, Any], name: str) -> bool:
    """provider.go (pulumi-kubernetes at 94977969), DiffConfig: whether the cluster of the context in force changed in
    any way, or nobody knows yet."""
    before, after = active(old).entry, active(new).entry
    changed = new.get(name) is UNKNOWN or (before is not None and after is not None and before != after)
    return name in SETTINGS and changed
