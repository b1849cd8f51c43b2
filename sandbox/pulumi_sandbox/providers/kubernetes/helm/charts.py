"""Look up the known Helm charts, check the values of a release against them, and create their objects.

The objects are those that matter to the scheduler and to the order of a stack. Their sources are the templates of
actions/actions-runner-controller@9bb16ae, NVIDIA/k8s-device-plugin@1b826ac and kubernetes-sigs/kueue@8eab687.

The checks of values have the messages of the charts: actions/actions-runner-controller@9bb16ae,
charts/gha-runner-scale-set/templates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from pulumi_sandbox.providers.kubernetes.objects import inner
from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.providers.sdk.shape_check import did_you_mean
from pulumi_sandbox.providers.values import Unknown

CONTROLLER, SCALE_SET, PLUGIN = "gha-runner-scale-set-controller", "gha-runner-scale-set", "nvidia-device-plugin"
KUEUE, TEKTON = "kueue", "tekton-operator"
# helm.sh/helm v3, pkg/chartutil/validate_name.go; templates/_helpers.tpl.
RELEASE_NAME_MOST, SCALE_SET_NAME_MOST = 53, 45
VALUE_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,), "integer": (int,), "boolean": (bool,), "list": (list,), "map": (dict,),
    "any": (str, int, float, bool, list, dict),
}  # fmt: skip


@dataclass(frozen=True)
class Chart:
    """A chart: its name, its version and its default values."""

    name: str
    version: str
    values: Mapping[str, Any]


@cache
def charts() -> dict[str, Chart]:
    text = files("pulumi_sandbox").joinpath("fixtures", "charts.yaml").read_text(encoding="utf-8")
    return {name: Chart(name, **fields) for name, fields in yaml.safe_load(text).items()}


def chart_of(inputs: Mapping[str, Any]) -> Chart | None:
    """Return the known chart with the last element of the given name.

    The name may be `oci://ghcr.io/.../gha-runner-scale-set`, with or without a digest, a folder, or a chart in a
    repository.
    """
    name = inputs.get("chart")
    return charts().get(name.partition("@")[0].rstrip("/").rpartition("/")[2]) if isinstance(name, str) else None


def version(chart: Chart, inputs: Mapping[str, Any]) -> str:
    """Return the version of a chart. Without one, Helm installs the newest; the sandbox takes the known version."""
    chosen = inputs.get("version")
    return chosen.removeprefix("v") if isinstance(chosen, str) and chosen else chart.version


def check(chart: Chart, inputs: Mapping[str, Any]) -> Iterable[Problem]:
    """Yield the values that the chart never reads, the values of a wrong type, and those that the chart refuses."""
    release, values = inputs.get("name"), inputs.get("values")
    if isinstance(release, str) and len(release) > RELEASE_NAME_MOST:
        yield Problem("name", f"invalid release name: the length must not be longer than {RELEASE_NAME_MOST}")
    if not isinstance(values, Mapping):
        return
    if version(chart, inputs) == chart.version:
        yield from _check(chart, "values", chart.values, values)
    name = values.get("runnerScaleSetName") or release
    if chart.name == SCALE_SET and isinstance(name, str) and len(name) > SCALE_SET_NAME_MOST:
        path = "values.runnerScaleSetName" if values.get("runnerScaleSetName") else "name"
        yield Problem(path, f"Name must have up to {SCALE_SET_NAME_MOST} characters")


def _check(chart: Chart, path: str, forms: Mapping[str, Any], values: Mapping[str, Any]) -> Iterator[Problem]:
    for name, value in values.items():
        value_path, form = f"{path}.{name}", forms.get(name)
        if form is None:
            similar = did_you_mean(name, forms)
            yield Problem(
                value_path,
                f"the chart {chart.name} {chart.version} does not read this value",
                f"did you mean '{similar}'?" if similar else f"the chart reads {', '.join(forms)}",
            )
        elif value is None or isinstance(value, Unknown):
            continue
        elif isinstance(form, Mapping) and isinstance(value, Mapping):
            yield from _check(chart, value_path, form, value)
        elif isinstance(form, Mapping) or not any(_has_type(value, one) for one in form.split("|")):
            # The message has no value: it may be a token that is not marked as secret.
            expected = "map" if isinstance(form, Mapping) else form.replace("|", " or ")
            text = f"wrong type for the chart {chart.name} {chart.version}\n  expected: {expected}"
            yield Problem(value_path, text)


def _has_type(value: Any, form: str) -> bool:
    if isinstance(value, bool):
        return form in ("boolean", "any")
    if form == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, VALUE_TYPES[form])


RELEASE, DAEMON_SET = "kubernetes:helm.sh/v3:Release", "kubernetes:apps/v1:DaemonSet"
RUNNER_SET = "kubernetes:actions.github.com/v1alpha1:AutoscalingRunnerSet"
RUNNER_IMAGE = "ghcr.io/actions/actions-runner:latest"
MAX_NAME_LENGTH = 63

# values.yaml of nvidia-device-plugin 0.20.0.
PLUGIN_TOLERATIONS: list[dict[str, Any]] = [
    {"key": "CriticalAddonsOnly", "operator": "Exists"},
    {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
]

Object = tuple[str, dict[str, Any]]
Values = Mapping[str, Any]
Made = tuple[str, str, dict[str, Any]]


def objects(chart: Chart, inputs: Values) -> Iterator[Object]:
    """Yield the token and the inputs of the object that matters of a chart. Helm's annotations name the release."""
    release, namespace = str(inputs.get("name")), str(inputs.get("namespace"))
    annotations = {"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": namespace}
    values = inputs.get("values") or {}
    if chart.name in MAKERS and (made := MAKERS[chart.name](release, values)):
        token, name, spec = made
        metadata = {"name": name, "namespace": values.get("namespaceOverride") or namespace, "annotations": annotations}
        yield token, {"metadata": metadata, "spec": spec}


def _scale_set(release: str, values: Values) -> Made:
    name = str(values.get("runnerScaleSetName") or release)
    default = [{"name": "runner", "image": RUNNER_IMAGE, "command": ["/home/runner/run.sh"]}]
    pod = {"containers": default, "restartPolicy": "Never", **(inner(values, "template", "spec") or {})}
    metadata = inner(values, "template", "metadata")
    spec = {
        "githubConfigUrl": str(values.get("githubConfigUrl")).removesuffix("/"),
        **{field: values[field] for field in ("minRunners", "maxRunners", "runnerGroup") if field in values},
        "template": {**({"metadata": dict(metadata)} if metadata else {}), "spec": pod},
    }
    return RUNNER_SET, name.replace("_", "-"), spec


def _plugin(release: str, values: Values) -> Made | None:
    if inner(values, "devicePlugin", "enabled") is False:
        return None
    labels = {"app.kubernetes.io/name": PLUGIN, "app.kubernetes.io/instance": release}
    container = {"name": f"{PLUGIN}-ctr", "resources": values.get("resources") or {}}
    chosen = {
        name: values[name] for name in ("affinity", "nodeSelector", "tolerations") if values.get(name) is not None
    }
    pod = {"tolerations": PLUGIN_TOLERATIONS, **chosen, "containers": [container]}
    name = values.get("fullnameOverride") or (release if PLUGIN in release else f"{release}-{PLUGIN}")
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    return DAEMON_SET, str(name)[:MAX_NAME_LENGTH].rstrip("-"), spec


MAKERS: dict[str, Callable[[str, Values], Made | None]] = {SCALE_SET: _scale_set, PLUGIN: _plugin}
"""Return the token, the name and the spec of a chart's object, from the name of the release and its values."""
