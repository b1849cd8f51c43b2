"""The kinds that a cluster knows only with the release of Kueue or Tekton, and what Tekton's controllers make ready.

Nothing is run, and no quota is emulated. Sources: tektoncd/operator@1510682b (v0.81.1), pkg/reconciler;
tektoncd/triggers v0.37.0, pkg/reconciler/eventlistener.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pulumi_sandbox.providers.kubernetes import objects
from pulumi_sandbox.providers.kubernetes.helm.charts import KUEUE, RELEASE, TEKTON, chart_of
from pulumi_sandbox.providers.resource import Resource
from pulumi_sandbox.world.store import Record, World

CONFIG = "kubernetes:operator.tekton.dev/v1alpha1:TektonConfig"
LISTENER = "kubernetes:triggers.tekton.dev/v1beta1:EventListener"
SERVICE = "kubernetes:core/v1:Service"
PORT = 8080
KUEUE_GROUP, TEKTON_GROUPS = "kueue.x-k8s.io", ("tekton.dev", "triggers.tekton.dev")
# The kinds of Kueue's chart with a namespace; all others have none.
KUEUE_NAMESPACED = ("LocalQueue", "Workload")
# k8s.io/apimachinery, pkg/api/meta/errors.go, NoKindMatchError. Pulumi tries again for ten minutes, because definitions
# may be created in the same deployment (pulumi-kubernetes at 94977969, provider/pkg/await/await.go, Creation).
NO_KIND = 'no matches for kind "{}" in version "{}"\n  hint: {}'
KUEUE_HINT = "the chart of Kueue has the definition of this kind; create the release first, with dependsOn"
TEKTON_HINT = (
    "Tekton has the definition of this kind; create the TektonConfig first, and wait until it is ready: "
    "dependsOn, and its annotation pulumi.com/waitFor: condition=Ready"
)


def _has_release(world: World, name: str) -> bool:
    return any(chart_of(row.inputs) == name for row in world.find(RELEASE))


def refusals(world: World, token: str) -> Iterator[str]:
    """Yield an error for a kind that the cluster does not have yet."""
    group, hint = objects.group(token), ""
    if group == KUEUE_GROUP and not _has_release(world, KUEUE):
        hint = KUEUE_HINT
    elif group in TEKTON_GROUPS and not (world.find(CONFIG) and _has_release(world, TEKTON)):
        hint = TEKTON_HINT
    if hint:
        yield NO_KIND.format(objects.kind(token), token.split(":")[1], hint)


def conditions(world: World, token: str) -> dict[str, Any]:
    """Return the status of an object that its controller has made ready; empty for another one."""
    ready = (token == CONFIG and _has_release(world, TEKTON)) or token == LISTENER
    return {"status": {"conditions": [{"type": "Ready", "status": "True"}]}} if ready else {}


def created(world: World, res: Resource) -> None:
    """Create the Service of a listener, as the controller does."""
    if res.token == LISTENER:
        namespace, name = _service(res)
        inputs = {
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"ports": [{"name": "http-listener", "port": PORT}]},
        }
        deleted(world, res)
        world.insert(Record(SERVICE, f"{namespace}/{name}", name, "", inputs, inputs, "controller"))


def deleted(world: World, res: Resource) -> None:
    if res.token == LISTENER:
        world.delete(SERVICE, "/".join(_service(res)), res.name)


def _service(res: Resource) -> tuple[str, str]:
    namespace, _, name = res.id.partition("/")
    return namespace, f"el-{name}"
