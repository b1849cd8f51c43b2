"""The clusters a stack file describes, as far as its pools are judged by them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import Problem, did_you_mean
from ..explain import join

CLUSTERS = "gpu-ci:clusters"


def around(clusters: Any) -> dict[str, dict[str, Any]]:
    """For each cluster that is described, what a pool on it is given: its region, and its subnets by zone."""
    found = {}
    for name, described in clusters.items() if isinstance(clusters, Mapping) else ():
        region, subnets = (
            described.get(key) if isinstance(described, Mapping) else None for key in ("region", "subnets")
        )
        in_form = isinstance(subnets, Mapping) and all(isinstance(each, str) for each in subnets.values())
        found[str(name)] = {
            **({"region": region} if isinstance(region, str) else {}),
            **({"subnets": dict(subnets)} if in_form and subnets else {}),
        }
    return found


def unknown(path: str, choices: Mapping[str, Any], known: Mapping[str, Any]) -> list[Problem]:
    """A pool on a cluster that nobody described."""
    name = choices.get("clusterName")
    if not isinstance(name, str) or name in known:
        return []
    others = f"one of {', '.join(known)}" if known else f"a cluster that stands under {CLUSTERS}"
    hint = did_you_mean(name, known) or f"describe it: pulumi config set --path '{join(CLUSTERS, name)}.region' …"
    return [Problem(join(path, "clusterName"), "is a cluster that is not described", repr(name), others, hint)]
