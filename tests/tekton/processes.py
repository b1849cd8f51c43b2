"""Starts Tekton's webhooks, controllers, interceptors and a listener as processes, next to a real control plane.

Some programs have fixed ports and listen on every address, so the whole tier runs in a network of its own
(`make test-tekton`). The API server reaches a webhook by a Service of the type ExternalName, without a cluster network.
"""

from __future__ import annotations

import copy
import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from kubernetes.dynamic.exceptions import DynamicApiError
from pulumi_sandbox.processes import Guarded

from tests.conftest import ROOT
from tests.control_plane.api import Api, until
from tests.control_plane.processes import INTO_A_FILE, ControlPlane

PROGRAMS = ROOT / ".tekton"
NAMESPACE = "tekton-pipelines"
INTERCEPTORS, INTERCEPTORS_PORT = "tekton-triggers-core-interceptors", 8443
"""The port is fixed in the program."""
PORTS = {"tekton-pipelines-webhook": 9443, "tekton-triggers-webhook": 9444, INTERCEPTORS: INTERCEPTORS_PORT}
SINK_PORT = 18085
_PIPELINE = (
    "100-namespace",
    "2*.yaml",
    "300-crds",
    "config-*.yaml",
    "500-webhooks.yaml",
    "webhook.yaml",
    "controller.yaml",
)
_TRIGGERS = ("2*.yaml", "3*.yaml", "config-*.yaml", "500-webhooks.yaml", "webhook-service.yaml", "interceptors")
_SET = {"coschedule": "disabled", "set-security-context": "true"}
"""The features that the component Tekton sets (kubernetes/tekton.py)."""


class TektonProcesses:
    """Tekton on a control plane. Its programs end with `stop`."""

    def __init__(self, plane: ControlPlane, api: Api) -> None:
        self.plane, self.api = plane, api
        self.running: dict[str, Guarded] = {}

    def start(self) -> None:
        self._install("pipeline", _PIPELINE)
        self.start_program("pipeline-webhook")
        self.start_program("pipeline-controller")
        self._install("triggers", _TRIGGERS)
        for each in ("triggers-webhook", "triggers-controller", "interceptors"):
            self.start_program(each)

    def stop(self) -> None:
        for name in list(self.running):
            self.kill(name)

    def kill(self, name: str) -> None:
        """End a program with SIGKILL. After SIGTERM, it would keep its ports for 45 seconds."""
        process = self.running.pop(name)
        process.process.kill()
        process.ended.wait(10)

    def start_program(self, name: str) -> None:
        flags, environment = _settings(name)
        own = {**environment, "KUBECONFIG": str(self.plane.folder / "kubeconfig")}
        own.pop("SSL_CERT_FILE", None)  # of a mounted ConfigMap
        self._start(name, [name, *flags], own)

    def start_sink(self, listener: str, namespace: str, account: str) -> str:
        """Start the listener with a token of its own account, so that its rights are judged. Return its address."""
        made = self.api.client.request(
            "post",
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token",
            body={
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": 7200},
            },
        )
        settings = json.loads((self.plane.folder / "kubeconfig").read_text())
        settings["users"][0]["user"] = {"token": made.to_dict()["status"]["token"]}
        own = self.plane.folder / "sink-kubeconfig"
        own.write_text(json.dumps(settings))
        hosts = self.plane.folder / "hosts"
        hosts.write_text(f"127.0.0.1 localhost {INTERCEPTORS}.{NAMESPACE}.svc\n")
        flags = [
            f"--el-name={listener}", f"--el-namespace={namespace}", f"--port={SINK_PORT}", "--readtimeout=5",
            "--writetimeout=40", "--idletimeout=120", "--timeouthandler=30", "--httpclient-readtimeout=30",
            "--httpclient-keep-alive=30", "--httpclient-tlshandshaketimeout=10",
            "--httpclient-responseheadertimeout=10", "--httpclient-expectcontinuetimeout=1", "--is-multi-ns=false",
            "--payload-validation=true", "--cloudevent-uri=",
        ]  # fmt: skip
        environment = {"KUBECONFIG": str(own), "NAME": listener, "NAMESPACE": namespace, "SYSTEM_NAMESPACE": namespace,
                       "EL_EVENT": "disable", "METRICS_PROMETHEUS_PORT": "19094"}  # fmt: skip
        around = ["bwrap", "--dev-bind", "/", "/", "--ro-bind", str(hosts), "/etc/hosts", "--die-with-parent", "--"]
        self._start("sink", ["eventlistenersink", *flags], environment, around)
        return f"http://127.0.0.1:{SINK_PORT}"

    def log(self, name: str) -> str:
        return (self.plane.folder / f"{name}.log").read_text(errors="replace")

    def _start(
        self, name: str, command: list[str], environment: Mapping[str, str], around: list[str] | None = None
    ) -> None:
        program, *flags = command
        whole = [*(around or []), str(PROGRAMS / program), *flags]
        log = str(self.plane.folder / f"{name}.log")
        own = {**os.environ, "NO_PROXY": "*", **environment}
        self.running[name] = Guarded([*INTO_A_FILE, log, *whole], cwd=str(self.plane.folder), environment=own)

    def _install(self, module: str, patterns: tuple[str, ...]) -> None:
        """Apply the objects with which Tekton is installed, except the Deployments."""
        later = []
        for each in _objects(PROGRAMS / "config" / module, patterns):
            if each["kind"] == "ClusterInterceptor":
                later.append(each)  # its definition needs a moment
            elif each["kind"] != "Deployment":
                self.api.apply(_local(each))
        for each in later:
            until(lambda each=each: self._applied(each), f"{each['metadata']['name']} is accepted")

    def _applied(self, given: dict[str, Any]) -> bool:
        try:
            self.api.apply(given)
        except DynamicApiError:
            time.sleep(0.2)
            return False
        return True


def _objects(folder: Path, patterns: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    for pattern in patterns:
        for path in sorted(folder.glob(pattern)):
            for file in sorted(path.glob("*.yaml")) if path.is_dir() else [path]:
                yield from (each for each in yaml.safe_load_all(file.read_text()) if each)


def _local(given: dict[str, Any]) -> dict[str, Any]:
    """Return the object with the ports of the local processes."""
    found = copy.deepcopy(given)
    if found["kind"] == "Service" and found["metadata"]["name"] in PORTS:
        found["spec"] = {"type": "ExternalName", "externalName": "localhost"}
    if found["kind"] == "ConfigMap" and found["metadata"]["name"] == "feature-flags":
        found["data"] |= _SET

    def add_ports(value: Any) -> None:
        if isinstance(value, dict):
            service = value.get("service")
            if isinstance(service, dict) and service.get("name") in PORTS and "namespace" in service:
                service["port"] = PORTS[service["name"]]
            for each in value.values():
                add_ports(each)
        elif isinstance(value, list):
            for each in value:
                add_ports(each)

    add_ports(found)
    return found


_LOCAL: dict[str, tuple[str, dict[str, str]]] = {
    "pipeline-webhook": ("tekton-pipelines-webhook", {"WEBHOOK_PORT": str(PORTS["tekton-pipelines-webhook"])}),
    "pipeline-controller": ("tekton-pipelines-controller", {}),
    "triggers-webhook": ("tekton-triggers-webhook", {"WEBHOOK_PORT": str(PORTS["tekton-triggers-webhook"])}),
    "triggers-controller": ("tekton-triggers-controller", {}),
    "interceptors": ("tekton-triggers-core-interceptors", {}),
}
"""The Deployment of each program, and the variables that differ here. Ports of probes and metrics are numbered."""


def _settings(name: str) -> tuple[list[str], dict[str, str]]:
    """Return the flags and the environment of a program, from its Deployment."""
    deployment, changes = _LOCAL[name]
    [found] = [
        each
        for module in ("pipeline", "triggers")
        for each in _objects(PROGRAMS / "config" / module, ("*.yaml", "interceptors"))
        if each["kind"] == "Deployment" and each["metadata"]["name"] == deployment
    ]
    [container] = found["spec"]["template"]["spec"]["containers"]
    number = list(_LOCAL).index(name)
    ports = {"PROBES_PORT": str(18080 + number), "METRICS_PROMETHEUS_PORT": str(19090 + number)}
    given = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    environment = {**given, "SYSTEM_NAMESPACE": NAMESPACE, **ports, **changes}
    flags = [
        f"local/{each.rpartition('/')[2]}" if each.startswith("ko://") else each for each in container.get("args", [])
    ]
    return [*flags, *(["-disable-ha"] if name == "pipeline-controller" else [])], environment
