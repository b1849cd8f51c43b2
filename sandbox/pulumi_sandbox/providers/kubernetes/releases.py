"""Emulate Helm releases: check their values, and create the objects of known charts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pulumi_sandbox.providers.kubernetes import validation
from pulumi_sandbox.providers.kubernetes.helm import charts
from pulumi_sandbox.providers.kubernetes.helm.charts import CONTROLLER, SCALE_SET
from pulumi_sandbox.providers.kubernetes.objects import inner
from pulumi_sandbox.providers.kubernetes.workloads.pods import Workloads
from pulumi_sandbox.providers.resource import Problem, Resource
from pulumi_sandbox.providers.secret_digests import hash_secrets
from pulumi_sandbox.world.store import Record, World

DEFINITION = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"
PATCH = f"{DEFINITION}Patch"
SCALE_SET_ID = "runner-scale-set-id"
CHART_TYPES = (charts.DAEMON_SET, charts.RUNNER_SET)
UNKNOWN_CHART = "the sandbox does not know the chart {}, so it checks neither its values nor its objects"


@dataclass
class Releases:
    """The Helm releases of a cluster: the checks of their values, and the objects of known charts."""

    world: World
    workloads: Workloads

    def rules(self, res: Resource) -> Iterable[Problem]:
        chart = charts.chart_of(res.inputs)
        if chart is None:
            return
        yield from charts.check(chart, res.inputs)
        pod = inner(res.inputs, "values", "template", "spec")
        if chart.name == SCALE_SET and isinstance(pod, Mapping):
            template = {"template": {"spec": {"containers": [], **pod}}}
            for problem in validation.check("v1", "PodTemplate", template):
                yield replace(problem, path=f"values.{problem.path}")

    def refusals(self, res: Resource) -> Iterable[str]:
        """Yield the errors of a scale set that depend on its controller and its Secret."""
        chart = charts.chart_of(res.inputs)
        if chart is None or chart.name != SCALE_SET:
            return
        values = res.inputs.get("values") or {}
        chart_version, namespace = charts.version(chart, res.inputs), str(res.inputs.get("namespace"))
        namespace = str(values.get("namespaceOverride") or namespace)
        # controllers/actions.github.com/autoscalingrunnerset_controller.go, Reconcile; apis/.../version.go.
        for controller in self.controllers(namespace):
            controller_version = charts.version(charts.charts()[CONTROLLER], controller.inputs)
            if _minor_version(controller_version) != _minor_version(chart_version):
                yield (
                    "Autoscaling runner set version doesn't match the build version. Deleting the resource.\n"
                    f"  got: autoscalingRunnerSetVersion {chart_version}, buildVersion {controller_version}\n"
                    "  hint: a cluster accepts the release, and the controller then deletes the runner set; install "
                    "both charts in the same minor version"
                )
        secret = values.get("githubConfigSecret")
        if isinstance(secret, str) and not self.workloads.has_secret(namespace, secret):
            yield (
                f'secrets "{secret}" not found\n'
                f"  hint: a cluster accepts the release but starts no runner; create the Secret in {namespace} first, "
                "in the stack, or, if it exists in the cluster, list it in sandbox.yaml: "
                "values: {kubernetes: {secrets: [namespace/name]}}"
            )

    def controllers(self, namespace: str) -> Iterator[Record]:
        """Yield the releases of controllers that watch a namespace."""
        for row in self.world.find(charts.RELEASE):
            chart, watched = charts.chart_of(row.inputs), inner(row.inputs, "values", "flags", "watchSingleNamespace")
            if chart is not None and chart.name == CONTROLLER and watched in (None, namespace):
                yield row

    def install(self, res: Resource) -> None:
        """Replace the objects of the chart after a create or an update of the release."""
        chart = charts.chart_of(res.inputs)
        if chart is None:
            res.log(UNKNOWN_CHART.format(res.inputs.get("chart")), "info")
            return
        chart_version = charts.version(chart, res.inputs)
        if chart_version != chart.version:
            res.log(
                f"the sandbox does not check the values of {chart.name} {chart_version}; "
                f"it knows version {chart.version}",
                "info",
            )
        scale_set_ids = {
            row.id: _annotations(row).get(SCALE_SET_ID) for row in self._objects_of(res, charts.RUNNER_SET)
        }
        self.remove(res)
        inputs = hash_secrets(res.inputs, res.secrets, self.world.key)
        for token, object_inputs in charts.objects(chart, inputs):
            meta = object_inputs["metadata"]
            identity = f"{meta['namespace']}/{meta['name']}"
            self.world.delete(token, identity, res.name)
            row = self.world.insert(
                Record(token, identity, meta["name"], "", object_inputs, object_inputs, "controller")
            )
            self.workloads.report_pods(row, res.log)
            if token == charts.RUNNER_SET:
                # Helm does not change annotations that are not in its chart.
                self.register(row, scale_set_ids.get(identity))

    def register(self, row: Record, known_id: str | None = None, *, retry: bool = False) -> None:
        """Register a runner set with GitHub, and write the id of its scale set to an annotation of the runner set.

        The controller does this. If GitHub refuses, or a controller or the Secret is missing, it retries forever and
        reports only to its log (controllers/actions.github.com/autoscalingrunnerset_controller.go,
        createRunnerScaleSet). `retry` counts down a planted fault: each `up` that waits for the id is one attempt.
        """
        scale_set_id, namespace = known_id or _annotations(row).get(SCALE_SET_ID), row.id.partition("/")[0]
        if scale_set_id is None and (self._is_refused(row, retry=retry) or not any(self.controllers(namespace))):
            return
        registered = [one for one in self.world.find(row.type) if SCALE_SET_ID in _annotations(one)]
        number = scale_set_id or str(1 + len(registered))
        meta = inner(row.outputs, "metadata") or {}
        annotations = {**_annotations(row), SCALE_SET_ID: number}
        self.world.update(row.type, row.id, outputs={**row.outputs, "metadata": {**meta, "annotations": annotations}})

    def _is_refused(self, row: Record, *, retry: bool) -> bool:
        if retry:
            return self.world.take_fault("unregistered", row.type, row.name, id=row.id) is not None
        faults = (fault for fault in self.world.faults() if fault.kind == "unregistered")
        return any(fault.applies_to(row.type, row.name, {"id": row.id}) for fault in faults)

    def remove(self, res: Resource) -> None:
        """Delete the objects of the release."""
        for token in CHART_TYPES:
            for row in self._objects_of(res, token):
                self.world.delete(token, row.id, res.name)

    def _objects_of(self, res: Resource, token: str) -> list[Record]:
        release = (res.inputs.get("name"), res.inputs.get("namespace"))
        return [row for row in self.world.find(token) if _release(row) == release]


def release_status(res: Resource) -> dict[str, Any]:
    """Return the status that programs read. The version is that of the inputs: no chart is downloaded."""
    revision = int(inner(res.outputs, "status", "revision") or 0) + 1
    same = {name: res.inputs.get(name) for name in ("name", "namespace", "chart", "version")}
    return {"status": "deployed", "revision": revision, **same}


def _minor_version(number: Any) -> list[str]:
    return str(number).split(".")[:2]


def _release(row: Record) -> tuple[Any, ...]:
    annotations = inner(row.inputs, "metadata", "annotations")
    return tuple(inner(annotations, f"meta.helm.sh/release-{one}") for one in ("name", "namespace"))


def _annotations(row: Record) -> dict[str, str]:
    return dict(inner(row.outputs, "metadata", "annotations") or {})
