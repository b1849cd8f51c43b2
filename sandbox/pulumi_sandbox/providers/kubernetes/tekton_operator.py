"""Emulate Tekton's operator and the controller of its listeners, as far as a deployment sees them. Nothing is run.

Sources: tektoncd/operator@1510682b (v0.81.1), pkg/reconciler; tektoncd/triggers v0.37.0, pkg/reconciler/eventlistener.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pulumi_sandbox.providers.kubernetes import objects
from pulumi_sandbox.providers.kubernetes.helm.charts import TEKTON, chart_of
from pulumi_sandbox.providers.kubernetes.kueue import RELEASE
from pulumi_sandbox.providers.resource import Resource
from pulumi_sandbox.world.store import Record, World

CONFIG = "kubernetes:operator.tekton.dev/v1alpha1:TektonConfig"
LISTENER = "kubernetes:triggers.tekton.dev/v1beta1:EventListener"
SERVICE = "kubernetes:core/v1:Service"
GROUPS = ("tekton.dev", "triggers.tekton.dev")
PORT = 8080
# k8s.io/apimachinery, pkg/api/meta/errors.go, NoKindMatchError.
NO_KIND = (
    'no matches for kind "{}" in version "{}"\n'
    "  hint: Tekton has the definition of this kind; create the TektonConfig first, and wait until it is ready: "
    "dependsOn, and its annotation pulumi.com/waitFor: condition=Ready"
)
FINALIZER = (
    "the TektonConfig has a finalizer, which only Tekton's operator removes, and the operator is gone\n"
    "  hint: a cluster would never delete the object; delete it before the release of the operator: dependsOn"
)


def _operator(world: World) -> bool:
    charts = (chart_of(row.inputs) for row in world.find(RELEASE))
    return any(chart is not None and chart.name == TEKTON for chart in charts)


def _is_ready(world: World) -> bool:
    """Return True if Tekton is installed. Both pruners together keep the TektonConfig from being ready."""
    return any(conditions(world, row.type, row.inputs) for row in world.find(CONFIG))


def refusals(world: World, token: str) -> Iterator[str]:
    """Yield an error for a kind of Tekton that the cluster does not have yet."""
    if objects.group(token) in GROUPS and not _is_ready(world):
        yield NO_KIND.format(objects.kind(token), token.split(":")[1])


def conditions(world: World, token: str, inputs: Any) -> dict[str, Any]:
    """Return the status of an object that its controller has made ready; empty for another one."""
    spec = inputs.get("spec") or {}
    pruners = [spec.get(name) or {"disabled": True} for name in ("pruner", "tektonpruner")]
    both = all(each.get("disabled") is False for each in pruners)
    ready = (token == CONFIG and _operator(world) and not both) or token == LISTENER
    return {"status": {"conditions": [{"type": "Ready", "status": "True"}]}} if ready else {}


def created(world: World, res: Resource) -> None:
    """Create the Service of a listener, as the controller does."""
    if res.token == LISTENER:
        identity = _service(res)
        metadata = {"name": identity.partition("/")[2], "namespace": identity.partition("/")[0]}
        inputs = {"metadata": metadata, "spec": {"ports": [{"name": "http-listener", "port": PORT}]}}
        world.delete(SERVICE, identity, res.name)
        world.insert(Record(SERVICE, identity, metadata["name"], "", inputs, inputs, "controller"))


def deleted(world: World, res: Resource) -> None:
    if res.token == LISTENER:
        world.delete(SERVICE, _service(res), res.name)


def delete_blockers(world: World, token: str) -> Iterator[str]:
    if token == CONFIG and not _operator(world):
        yield FINALIZER


def _service(res: Resource) -> str:
    namespace, _, name = res.id.partition("/")
    return f"{namespace}/el-{name}"
