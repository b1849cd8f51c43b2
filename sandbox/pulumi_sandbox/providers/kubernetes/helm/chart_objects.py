"""Create the objects of known charts that matter to the scheduler and to the order of a stack.

Sources: actions/actions-runner-controller@9bb16ae, charts/*/templates; NVIDIA/k8s-device-plugin@1b826ac,
deployments/helm/nvidia-device-plugin/templates; kubernetes-sigs/kueue@8eab687, charts/kueue/templates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pulumi_sandbox.providers.kubernetes.helm.charts import CONTROLLER, KUEUE, PLUGIN, SCALE_SET, Chart, version
from pulumi_sandbox.providers.kubernetes.objects import inner

DEPLOYMENT, DAEMON_SET = "kubernetes:apps/v1:Deployment", "kubernetes:apps/v1:DaemonSet"
RUNNER_SET = "kubernetes:actions.github.com/v1alpha1:AutoscalingRunnerSet"
PART_OF, VERSION = "app.kubernetes.io/part-of", "app.kubernetes.io/version"
WATCHES = "actions.github.com/controller-watch-single-namespace"
STRATEGY = "DEVICE_LIST_STRATEGY"
RUNNER_IMAGE = "ghcr.io/actions/actions-runner:latest"
MAX_NAME_LENGTH = 63

# values.yaml of nvidia-device-plugin 0.20.0.
PLUGIN_TOLERATIONS: list[dict[str, Any]] = [
    {"key": "CriticalAddonsOnly", "operator": "Exists"},
    {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
]

Object = tuple[str, dict[str, Any]]
Values = Mapping[str, Any]


def objects(chart: Chart, inputs: Values) -> Iterator[Object]:
    """Yield the token and the inputs of each object. Helm's annotations name the release."""
    release, namespace = str(inputs.get("name")), str(inputs.get("namespace"))
    annotations = {"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": namespace}
    values = inputs.get("values") or {}
    for token, object_inputs in MAKERS[chart.name](release, namespace, values, version(chart, inputs)):
        object_inputs["metadata"]["namespace"] = values.get("namespaceOverride") or namespace
        object_inputs["metadata"]["annotations"] = annotations
        yield token, object_inputs


def fullname(chart: str, release: str, values: Values) -> str:
    name = values.get("fullnameOverride") or (release if chart in release else f"{release}-{chart}")
    return str(name)[:MAX_NAME_LENGTH].rstrip("-")


def _controller(release: str, _: str, values: Values, chart_version: str) -> Iterator[Object]:
    name = fullname("gha-rs-controller", release, values)
    labels = {PART_OF: "gha-rs-controller", VERSION: chart_version}
    if namespace := inner(values, "flags", "watchSingleNamespace"):
        labels[WATCHES] = namespace
    yield DEPLOYMENT, {"metadata": {"name": name, "labels": labels}, "spec": {"replicas": 1}}


def _scale_set(release: str, _: str, values: Values, chart_version: str) -> Iterator[Object]:
    name = str(values.get("runnerScaleSetName") or release)
    default = [{"name": "runner", "image": RUNNER_IMAGE, "command": ["/home/runner/run.sh"]}]
    pod = {"containers": default, "restartPolicy": "Never", **(inner(values, "template", "spec") or {})}
    metadata = inner(values, "template", "metadata")
    spec = {
        "githubConfigUrl": str(values.get("githubConfigUrl")).removesuffix("/"),
        **{field: values[field] for field in ("minRunners", "maxRunners", "runnerGroup") if field in values},
        "template": {**({"metadata": dict(metadata)} if metadata else {}), "spec": pod},
    }
    labels = {PART_OF: "gha-rs", VERSION: chart_version}
    yield RUNNER_SET, {"metadata": {"name": name.replace("_", "-"), "labels": labels}, "spec": spec}


def _plugin(release: str, _: str, values: Values, __: str) -> Iterator[Object]:
    if inner(values, "devicePlugin", "enabled") is False:
        return
    labels = {"app.kubernetes.io/name": PLUGIN, "app.kubernetes.io/instance": release}
    strategies = values.get("deviceListStrategy") or "envvar"
    strategy = {"name": STRATEGY, "value": strategies if isinstance(strategies, str) else ",".join(strategies)}
    container = {"name": f"{PLUGIN}-ctr", "resources": values.get("resources") or {}, "env": [strategy]}
    chosen = {
        name: values[name] for name in ("affinity", "nodeSelector", "tolerations") if values.get(name) is not None
    }
    pod = {"tolerations": PLUGIN_TOLERATIONS, **chosen, "containers": [container]}
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    yield DAEMON_SET, {"metadata": {"name": fullname(PLUGIN, release, values), "labels": labels}, "spec": spec}


def _kueue(release: str, _: str, values: Values, chart_version: str) -> Iterator[Object]:
    labels = {"app.kubernetes.io/name": "kueue", "app.kubernetes.io/instance": release, VERSION: f"v{chart_version}"}
    name = f"{fullname('kueue', release, values)}-controller-manager"
    yield DEPLOYMENT, {"metadata": {"name": name, "labels": labels}, "spec": {"replicas": 1}}


MAKERS: dict[str, Callable[[str, str, Values, str], Iterator[Object]]] = {
    CONTROLLER: _controller,
    SCALE_SET: _scale_set,
    PLUGIN: _plugin,
    KUEUE: _kueue,
}
