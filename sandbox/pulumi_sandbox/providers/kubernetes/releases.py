"""Emulate Helm releases: create the objects of known charts, and register scale sets with GitHub."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pulumi_sandbox.providers.kubernetes.helm import charts
from pulumi_sandbox.providers.kubernetes.helm.charts import CONTROLLER
from pulumi_sandbox.providers.kubernetes.objects import inner
from pulumi_sandbox.providers.kubernetes.workloads.pods import Workloads
from pulumi_sandbox.providers.resource import Resource
from pulumi_sandbox.providers.secret_digests import hash_secrets
from pulumi_sandbox.world.store import Record, World

DEFINITION = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"
PATCH = f"{DEFINITION}Patch"
SCALE_SET_ID = "runner-scale-set-id"
UNKNOWN_CHART = "the sandbox does not know the chart {}, so it does not check its objects"
# controllers/actions.github.com/autoscalingrunnerset_controller.go, Reconcile; apis/.../version.go.
OTHER_VERSION = (
    "Autoscaling runner set version doesn't match the build version. Deleting the resource.\n"
    "  got: autoscalingRunnerSetVersion {}, buildVersion {}\n  hint: install both charts in the same minor version"
)
NOT_FOUND = (
    'secrets "{0}" not found\n'
    "  hint: the release starts no runner; create the Secret in {1} first, in the stack, or, if it exists in the "
    "cluster, list it in sandbox.yaml: values: {{kubernetes: {{secrets: [{1}/{0}]}}}}"
)


@dataclass
class Releases:
    """The Helm releases of a cluster: the objects of known charts."""

    world: World
    workloads: Workloads

    def install(self, res: Resource) -> None:
        """Replace the objects of the chart after a create or an update of the release."""
        if not charts.chart_of(res.inputs):
            res.log(UNKNOWN_CHART.format(res.inputs.get("chart")), "info")
            return
        known_ids = {row.id: _annotations(row).get(SCALE_SET_ID) for row in self._objects_of(res)}
        self.remove(res)
        for token, inputs in charts.objects(hash_secrets(res.inputs, res.secrets, self.world.key)):
            meta = inputs["metadata"]
            identity = f"{meta['namespace']}/{meta['name']}"
            self.world.delete(token, identity, res.name)
            row = self.world.insert(Record(token, identity, meta["name"], "", inputs, inputs, "controller"))
            self.workloads.report_pods(row, res.log)
            if token == charts.RUNNER_SET:
                if problem := self._problem(row):
                    res.log(problem, "warning")
                # Helm does not change annotations that are not in its chart.
                self.register(row, known_ids.get(identity))

    def _problem(self, row: Record) -> str:
        """Return why the controller does not register a runner set; empty if it does."""
        namespace, rows = row.id.partition("/")[0], self.world.find(charts.RELEASE)
        release = next((each for each in rows if _name(each) == _release(row)), row)
        version = charts.arc_version(release.inputs)
        for controller in self.controllers(namespace):
            if (other := charts.arc_version(controller.inputs)) != version:
                return OTHER_VERSION.format(version, other)
        secret = inner(release.inputs, "values", "githubConfigSecret")
        if isinstance(secret, str) and not self.workloads.has_secret(namespace, secret):
            return NOT_FOUND.format(secret, namespace)
        return ""

    def controllers(self, namespace: str) -> list[Record]:
        """Return the releases of controllers that watch a namespace."""
        rows = [row for row in self.world.find(charts.RELEASE) if charts.chart_of(row.inputs) == CONTROLLER]
        watched = ("values", "flags", "watchSingleNamespace")
        return [row for row in rows if inner(row.inputs, *watched) in (None, namespace)]

    def register(self, row: Record, known_id: str | None = None) -> None:
        """Register a runner set with GitHub, and write the id of its scale set to an annotation of the runner set.

        The controller does this. If a controller or the Secret is missing, it retries forever and reports only to its
        log (controllers/actions.github.com/autoscalingrunnerset_controller.go, createRunnerScaleSet).
        """
        number = known_id or _annotations(row).get(SCALE_SET_ID)
        if number is None:
            if self._problem(row) or not self.controllers(row.id.partition("/")[0]):
                return
            number = str(1 + sum(SCALE_SET_ID in _annotations(one) for one in self.world.find(row.type)))
        meta = inner(row.outputs, "metadata") or {}
        annotations = {**_annotations(row), SCALE_SET_ID: number}
        self.world.update(row.type, row.id, outputs={**row.outputs, "metadata": {**meta, "annotations": annotations}})

    def remove(self, res: Resource) -> None:
        """Delete the objects of the release."""
        for row in self._objects_of(res):
            self.world.delete(row.type, row.id, res.name)

    def _objects_of(self, res: Resource) -> list[Record]:
        release = (res.inputs.get("name"), res.inputs.get("namespace"))
        rows = [row for token in (charts.DAEMON_SET, charts.RUNNER_SET) for row in self.world.find(token)]
        return [row for row in rows if _release(row) == release]


def release_status(res: Resource) -> dict[str, Any]:
    """Return the status that programs read. The version is that of the inputs: no chart is downloaded."""
    revision = int(inner(res.outputs, "status", "revision") or 0) + 1
    same = {name: res.inputs.get(name) for name in ("name", "namespace", "chart", "version")}
    return {"status": "deployed", "revision": revision, **same}


def _name(row: Record) -> tuple[Any, ...]:
    return row.inputs.get("name"), row.inputs.get("namespace")


def _release(row: Record) -> tuple[Any, ...]:
    """Return the name and the namespace of an object's release."""
    annotations = inner(row.inputs, "metadata", "annotations")
    return tuple(inner(annotations, f"meta.helm.sh/release-{one}") for one in ("name", "namespace"))


def _annotations(row: Record) -> dict[str, str]:
    return dict(inner(row.outputs, "metadata", "annotations") or {})
