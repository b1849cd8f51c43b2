"""The pods that a resource of Kubernetes, or a chart of GitHub's, starts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .properties import at, entries
from .rule import Resource

GPU = re.compile(r"nvidia\.com/(?:gpu|mig-).*|amd\.com/gpu")
"""The names under which a container asks for GPUs."""
SCALE_SET_CHART = "gha-runner-scale-set"
_TEMPLATE = ("spec", "template", "spec")
# Where the pod's own spec stands.
SPECS: dict[str, tuple[str, ...]] = {
    "kubernetes:core/v1:Pod": ("spec",),
    "kubernetes:batch/v1:Job": _TEMPLATE,
    "kubernetes:batch/v1:CronJob": ("spec", "jobTemplate", *_TEMPLATE),
    "kubernetes:actions.github.com/v1alpha1:AutoscalingRunnerSet": _TEMPLATE,
    "kubernetes:apps/v1:DaemonSet": _TEMPLATE,
    "kubernetes:apps/v1:Deployment": _TEMPLATE,
    "kubernetes:apps/v1:ReplicaSet": _TEMPLATE,
    "kubernetes:apps/v1:StatefulSet": _TEMPLATE,
}
CHARTS = {"kubernetes:helm.sh/v3:Release", "kubernetes:helm.sh/v4:Chart"}
# What runs somebody's job, or a check: not a service that an operator installed.
JOBS = {
    "kubernetes:core/v1:Pod",
    "kubernetes:batch/v1:Job",
    "kubernetes:batch/v1:CronJob",
    "kubernetes:actions.github.com/v1alpha1:AutoscalingRunnerSet",
    *CHARTS,
}


def chart(resource: Resource) -> str:
    """The last part of a chart's name, whichever registry it comes from; empty for what is no chart."""
    name = at(resource.props, "chart") if resource.type in CHARTS else None
    return name.rpartition("/")[2] if isinstance(name, str) else ""


def spec_path(resource: Resource) -> tuple[str, ...]:
    """Where in a resource the spec of its pods stands; nothing where it starts none that are described in it."""
    if chart(resource) == SCALE_SET_CHART:
        return ("values", "template", "spec")
    return SPECS.get(resource.type, ())


def containers(resource: Resource) -> Iterator[tuple[str, object]]:
    """Every container, those that come first included, by its path."""
    path = spec_path(resource)
    if not path:
        return
    for key in ("initContainers", "containers"):
        for index, container in enumerate(entries(resource.props, *path, key)):
            name = at(container, "name")
            label = name if isinstance(name, str) else str(index)
            yield f"{'.'.join(path)}.{key}[{label}]", container
