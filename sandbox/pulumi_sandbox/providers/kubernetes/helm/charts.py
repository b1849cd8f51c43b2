"""The Helm charts that the components use: how a release names one, and the object of each that matters.

Those are objects that the scheduler or the order of a stack needs. Their sources are the templates of
actions/actions-runner-controller@9bb16ae and NVIDIA/k8s-device-plugin@1b826ac.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pulumi_sandbox.providers.kubernetes.objects import inner

CONTROLLER, SCALE_SET, PLUGIN = "gha-runner-scale-set-controller", "gha-runner-scale-set", "nvidia-device-plugin"
KUEUE, TEKTON = "kueue", "tekton-operator"
KNOWN = (CONTROLLER, SCALE_SET, PLUGIN, KUEUE, TEKTON)
ARC_VERSION = "0.14.2"
"""The version of ARC's charts that a release without a version gets."""
MAX_NAME_LENGTH = 63
RELEASE, DAEMON_SET = "kubernetes:helm.sh/v3:Release", "kubernetes:apps/v1:DaemonSet"
RUNNER_SET = "kubernetes:actions.github.com/v1alpha1:AutoscalingRunnerSet"
RUNNER_IMAGE = "ghcr.io/actions/actions-runner:latest"
# values.yaml of nvidia-device-plugin 0.20.0.
PLUGIN_TOLERATIONS: list[dict[str, Any]] = [
    {"key": "CriticalAddonsOnly", "operator": "Exists"},
    {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
]
Values = Mapping[str, Any]


def chart_of(inputs: Values) -> str:
    """Return the name of the known chart of a release; empty for another one.

    A release may name it `oci://ghcr.io/.../gha-runner-scale-set`, with or without a digest, a folder, or a chart in a
    repository.
    """
    given = inputs.get("chart")
    name = given.partition("@")[0].rstrip("/").rpartition("/")[2] if isinstance(given, str) else ""
    return name if name in KNOWN else ""


def arc_version(inputs: Values) -> str:
    """Return the minor version of a release of ARC, such as `0.14`."""
    version = str(inputs.get("version") or ARC_VERSION).removeprefix("v")
    return ".".join(version.split(".")[:2])


def objects(inputs: Values) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the token and the inputs of the object of a release. Helm's annotations name the release."""
    release, namespace = str(inputs.get("name")), str(inputs.get("namespace"))
    values = inputs.get("values") or {}
    if chart_of(inputs) == SCALE_SET:
        name = str(values.get("runnerScaleSetName") or release).replace("_", "-")
        token, spec = RUNNER_SET, _scale_set(values)
    elif chart_of(inputs) == PLUGIN and inner(values, "devicePlugin", "enabled") is not False:
        name = str(values.get("fullnameOverride") or (release if PLUGIN in release else f"{release}-{PLUGIN}"))
        token, name, spec = DAEMON_SET, name[:MAX_NAME_LENGTH].rstrip("-"), _plugin(release, values)
    else:
        return
    annotations = {"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": namespace}
    metadata = {"name": name, "namespace": values.get("namespaceOverride") or namespace, "annotations": annotations}
    yield token, {"metadata": metadata, "spec": spec}


def _scale_set(values: Values) -> dict[str, Any]:
    default = [{"name": "runner", "image": RUNNER_IMAGE, "command": ["/home/runner/run.sh"]}]
    pod = {"containers": default, "restartPolicy": "Never", **(inner(values, "template", "spec") or {})}
    metadata = inner(values, "template", "metadata")
    return {
        "githubConfigUrl": str(values.get("githubConfigUrl")).removesuffix("/"),
        **{field: values[field] for field in ("minRunners", "maxRunners", "runnerGroup") if field in values},
        "template": {**({"metadata": dict(metadata)} if metadata else {}), "spec": pod},
    }


def _plugin(release: str, values: Values) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": PLUGIN, "app.kubernetes.io/instance": release}
    container = {"name": f"{PLUGIN}-ctr", "resources": values.get("resources") or {}}
    chosen = {
        name: values[name] for name in ("affinity", "nodeSelector", "tolerations") if values.get(name) is not None
    }
    pod = {"tolerations": PLUGIN_TOLERATIONS, **chosen, "containers": [container]}
    return {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
