"""The pods that a Kubernetes resource or GitHub's scale set chart starts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .properties import at, entries
from .rule import Resource

GPU = re.compile(r"nvidia\.com/(?:gpu|mig-).*|amd\.com/gpu")
"""The resource names with which a container requests GPUs."""
SCALE_SET_CHART = "gha-runner-scale-set"
_TEMPLATE = ("spec", "template", "spec")
# The path of the pod's spec in each resource.
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
# The resources that run jobs or checks, in contrast to services that an operator installs.
JOBS = {
    "kubernetes:core/v1:Pod",
    "kubernetes:batch/v1:Job",
    "kubernetes:batch/v1:CronJob",
    "kubernetes:actions.github.com/v1alpha1:AutoscalingRunnerSet",
    *CHARTS,
}


def chart(resource: Resource) -> str:
    """Return the name of a chart without its registry and digest; empty if the resource is not a chart."""
    name = at(resource.props, "chart") if resource.type in CHARTS else None
    return name.partition("@")[0].rpartition("/")[2] if isinstance(name, str) else ""


def spec_path(resource: Resource) -> tuple[str, ...]:
    """Return the path of the pod spec in a resource; empty if the resource has none."""
    if chart(resource) == SCALE_SET_CHART:
        return ("values", "template", "spec")
    return SPECS.get(resource.type, ())


def containers(resource: Resource) -> Iterator[tuple[str, object]]:
    """Yield every container, including init containers, with its path."""
    path = spec_path(resource)
    if not path:
        return
    for key in ("initContainers", "containers"):
        for index, container in enumerate(entries(resource.props, *path, key)):
            name = at(container, "name")
            label = name if isinstance(name, str) else str(index)
            yield f"{'.'.join(path)}.{key}[{label}]", container
