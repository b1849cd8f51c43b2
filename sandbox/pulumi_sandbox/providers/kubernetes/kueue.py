"""Emulate Kueue's objects and their definitions. Quotas are not emulated: every pod starts at once.

fixtures/kueue_definitions.json has three definitions of the chart: those with which programs set quotas. It has only
their newest version, without descriptions and without the conversion of older versions. To update the file, run
`helm template` for the chart, and shorten the three definitions in the same way.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from pulumi_sandbox.providers.kubernetes import validation
from pulumi_sandbox.providers.kubernetes.helm.charts import KUEUE, chart_of
from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.world.store import Record, World

GROUP = "kueue.x-k8s.io"
CLUSTER_QUEUE, LOCAL_QUEUE, FLAVOR = (
    f"kubernetes:{GROUP}/v1beta2:{kind}" for kind in ("ClusterQueue", "LocalQueue", "ResourceFlavor")
)
RELEASE = "kubernetes:helm.sh/v3:Release"
# k8s.io/apimachinery, pkg/api/meta/errors.go, NoKindMatchError. Pulumi tries again for ten minutes, because definitions
# may be created in the same deployment (pulumi-kubernetes at 94977969, provider/pkg/await/await.go, Creation).
NO_KIND = (
    'no matches for kind "{}" in version "{}"\n'
    "  hint: the chart of Kueue has the definition of this kind; create the release first, with dependsOn"
)


@cache
def _definitions() -> dict[str, dict[str, Any]]:
    text = files("pulumi_sandbox").joinpath("fixtures", "kueue_definitions.json").read_text(encoding="utf-8")
    return {each["spec"]["names"]["kind"]: each["spec"] for each in json.loads(text)["definitions"]}


def is_cluster_wide(kind: str) -> bool | None:
    """Return True for a kind without namespaces, and None for a kind that the sandbox does not know."""
    spec = _definitions().get(kind)
    return None if spec is None else bool(spec["scope"] == "Cluster")


def check(api_version: str, kind: str, inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the problems of an object. A kind or a version that the sandbox does not know has none."""
    for version in _definitions().get(kind, {}).get("versions", ()):
        if api_version == f"{GROUP}/{version['name']}":
            yield from validation.check_schema(version["schema"]["openAPIV3Schema"], inputs)


def refusals(world: World, token: str) -> Iterator[str]:
    """Yield an error if no release of Kueue has created the definitions."""
    if release(world) is None:
        _, version, kind = token.split(":")
        yield NO_KIND.format(kind, version)


def release(world: World) -> Record | None:
    """Return the release of Kueue, or None if it is not installed."""
    charts = ((chart_of(row.inputs), row) for row in world.find(RELEASE))
    return next((row for chart, row in charts if chart is not None and chart.name == KUEUE), None)


def delete_all(world: World, why: str) -> None:
    """Delete the objects of Kueue, because the API server deletes the objects of a definition with the definition.

    The definitions are templates of the chart, so Helm deletes them with the release.
    """
    for token in (LOCAL_QUEUE, CLUSTER_QUEUE, FLAVOR):
        for row in world.find(token):
            world.delete(token, row.id, why)
