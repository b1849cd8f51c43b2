"""The real API server takes the monitors and rules of GpuMonitoring by the operators' own definitions, and refuses
broken ones.

The definitions are files of two Go modules: the Prometheus operator, and Google's operator for Managed Service for
Prometheus. No definition checks PromQL, and Google's has no pattern for an interval: on a cluster, the webhooks of the
operators do. tests/monitoring gives the rules to promtool.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from gpu_ci.kubernetes.gpu_monitoring import GpuMonitoring, GpuMonitoringArgs

from tests.control_plane.api import Api, until
from tests.control_plane.objects import declared
from tests.sandbox.providers.kubernetes.conftest import changed

# Module, version, checksum of the module (as in go.sum), folder with the definitions, and those that are applied. The
# Go proxy has Google's module, but does not list its versions.
DEFINITIONS = [
    (
        "github.com/prometheus-operator/prometheus-operator@v0.93.0",
        "h1:AohlYJT+En8TmNpAcEUJ3GsaJTAqfEBwHmGTVpRm/Io=",
        "example/prometheus-operator-crd/monitoring.coreos.com_{}.yaml",
        ["podmonitors", "prometheusrules"],
    ),
    (
        "github.com/GoogleCloudPlatform/prometheus-engine@v0.17.2",
        "h1:b4Sau/04Xn0wqGyGABUzLVOSlM7BxsZHbcYEXP3EDeg=",
        "charts/operator/crds/monitoring.googleapis.com_{}.yaml",
        ["podmonitorings", "clusterrules"],
    ),
]


@pytest.fixture(scope="module")
def with_operators(api: Api, tmp_path_factory: pytest.TempPathFactory) -> Api:
    """Return the API server, which serves the kinds of both operators and has the namespaces of their objects."""
    go = shutil.which("go")
    assert go, "no `go` on PATH"
    for module, checksum, path, names in DEFINITIONS:
        command = [go, "mod", "download", "-json", module]
        folder = tmp_path_factory.mktemp("module")  # outside a module, so that go.mod stays as it is
        ended = subprocess.run(command, cwd=folder, env={**os.environ, "GOWORK": "off"}, capture_output=True, text=True)
        assert ended.returncode == 0, f"{module} cannot be downloaded; check `go env GOPROXY`: {ended.stdout}"
        answer = json.loads(ended.stdout)
        assert answer["Sum"] == checksum, module
        for name in names:
            definition = yaml.safe_load((Path(answer["Dir"]) / path.format(name)).read_text())
            api.apply(definition)
            version, kind = f"{definition['spec']['group']}/v1", definition["spec"]["names"]["kind"]
            until(lambda of=version, it=kind: api.knows(of, it), f"{kind} is served")
    for name in ("gpu-monitoring", "arc-systems"):
        api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return api


def objects(**choices: Any) -> dict[str, dict[str, Any]]:
    """Return the objects by name, without the namespace."""
    made = declared(lambda: GpuMonitoring("watch", GpuMonitoringArgs(**GpuMonitoring.EXAMPLE | choices)))
    return {given["metadata"]["name"]: given for _, given in made if given["kind"] != "Namespace"}


COLLECTORS: dict[str, tuple[Callable[[], dict[str, Any]], dict[str, str]]] = {
    "prometheus-operator": (
        objects,
        {"watch-gpus": "PodMonitor", "watch-listeners": "PodMonitor", "watch-rules": "PrometheusRule"},
    ),
    "google-managed": (
        lambda: objects(collector="google-managed"),
        {"watch-listeners": "PodMonitoring", "watch-rules": "ClusterRules"},
    ),
}


@pytest.mark.parametrize("collector", COLLECTORS)
def test_the_api_server_takes_every_object_and_keeps_every_field(with_operators: Api, collector: str) -> None:
    made, kinds = COLLECTORS[collector]
    found = made()
    assert {name: given["kind"] for name, given in found.items()} == kinds
    for given in found.values():
        kept = with_operators.apply(given, dry_run=True)
        assert has(kept["spec"], given["spec"]), f"{kept['spec']} lacks a field of {given['spec']}"


def has(kept: Any, given: Any) -> bool:
    """Return True if a stored value has all that was given. The API server adds defaults."""
    if isinstance(given, dict):
        return all(key in kept and has(kept[key], value) for key, value in given.items())
    if isinstance(given, list):
        return len(kept) == len(given) and all(map(has, kept, given))
    return bool(kept == given)


BROKEN = [
    ("prometheus-operator", "watch-gpus", "spec/podMetricsEndpoint", [], "not declared in schema"),
    ("prometheus-operator", "watch-gpus", "spec/podMetricsEndpoints/0/interval", "30 s", "interval"),
    ("prometheus-operator", "watch-gpus", "spec/podMetricsEndpoints/0/relabelings/0/action", "discard", "action"),
    ("prometheus-operator", "watch-gpus", "spec/podMetricsEndpoints/0/relabelings/0/sourceLabels", "x", "sourceLabels"),
    ("prometheus-operator", "watch-gpus", "spec/podMetricsEndpoints/0/port", 9400, "port"),
    ("prometheus-operator", "watch-listeners", "spec/selector", ..., "selector"),
    ("prometheus-operator", "watch-listeners", "spec/namespaceSelector/any", "yes", "any"),
    ("prometheus-operator", "watch-rules", "spec/groups/0/name", ..., "name"),
    ("prometheus-operator", "watch-rules", "spec/groups/0/rules/2/for", "half an hour", "for"),
    ("prometheus-operator", "watch-rules", "spec/groups/0/rules/0/expr", ..., "expr"),
    ("prometheus-operator", "watch-rules", "spec/groups/0/rules/0/severity", "warning", "not declared in schema"),
    ("google-managed", "watch-listeners", "spec/endpoints/0/interval", ..., "interval"),
    ("google-managed", "watch-listeners", "spec/endpoints/0/interval", 60, "interval"),
    ("google-managed", "watch-listeners", "spec/endpoints/0/honorLabels", True, "not declared in schema"),
    (
        "google-managed",
        "watch-listeners",
        "spec/endpoints/0/metricRelabeling",
        [{"sourceLabels": ["pool"], "targetLabel": "project_id"}],
        "targetLabel",
    ),
    ("google-managed", "watch-listeners", "spec/endpoints/0/metricRelabeling", [{"action": "discard"}], "action"),
    ("google-managed", "watch-rules", "spec/groups", ..., "groups"),
    ("google-managed", "watch-rules", "spec/groups/0/rules/2/for", "half an hour", "for"),
    ("google-managed", "watch-rules", "spec/groups/0/rules/0/expr", ..., "expr"),
]


@pytest.mark.parametrize(("collector", "name", "path", "value", "named"), BROKEN)
def test_a_broken_object_is_refused_and_the_message_names_the_field(
    with_operators: Api, collector: str, name: str, path: str, value: Any, named: str
) -> None:
    assert named in with_operators.refusal(changed(COLLECTORS[collector][0]()[name], path, value))
