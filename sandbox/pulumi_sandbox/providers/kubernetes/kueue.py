"""Emulate that a cluster knows the kinds of Kueue only with its release. Quotas are not emulated."""

from __future__ import annotations

from collections.abc import Iterator

from pulumi_sandbox.providers.kubernetes import objects
from pulumi_sandbox.providers.kubernetes.helm.charts import KUEUE, chart_of
from pulumi_sandbox.world.store import World

GROUP = "kueue.x-k8s.io"
# The chart's kinds with a namespace; all others have none.
NAMESPACED = ("LocalQueue", "Workload")
RELEASE = "kubernetes:helm.sh/v3:Release"
# k8s.io/apimachinery, pkg/api/meta/errors.go, NoKindMatchError. Pulumi tries again for ten minutes, because definitions
# may be created in the same deployment (pulumi-kubernetes at 94977969, provider/pkg/await/await.go, Creation).
NO_KIND = (
    'no matches for kind "{}" in version "{}"\n'
    "  hint: the chart of Kueue has the definition of this kind; create the release first, with dependsOn"
)


def refusals(world: World, token: str) -> Iterator[str]:
    """Yield an error for a kind of Kueue if no release of Kueue has created its definition."""
    charts = (chart_of(row.inputs) for row in world.find(RELEASE))
    if objects.group(token) == GROUP and not any(chart is not None and chart.name == KUEUE for chart in charts):
        yield NO_KIND.format(objects.kind(token), token.split(":")[1])
