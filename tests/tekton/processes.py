"""Starts Tekton's own programs as processes on the control plane, from the definitions and Deployments of its modules.

Flags, variables and accounts are those of the Deployments. Only ports and addresses differ: all programs are on this
computer, so the Service of a webhook is the name localhost, and each program has ports of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import yaml
from gpu_ci.kubernetes.tekton import PIPELINES_NAMESPACE, TektonArgs, _spec
from pulumi_sandbox.processes import Guarded

from tests.conftest import ROOT
from tests.control_plane.api import Api, until
from tests.control_plane.objects import with_ports
from tests.control_plane.processes import INTO_A_FILE, ControlPlane

PROGRAMS = ROOT / ".tekton"
CONTROLLER = "tekton-pipelines-controller"
INTERCEPTORS = "tekton-triggers-core-interceptors"
PORTS = {
    "tekton-pipelines-webhook": 9100,
    CONTROLLER: 9200,
    "tekton-triggers-webhook": 9300,
    "tekton-triggers-controller": 9400,
    INTERCEPTORS: 9500,
}
"""The first port of each Deployment. The interceptors have no variable for the port of their requests, 8443."""
LISTENER_PORT, LISTENER_METRICS_PORT = 9600, 9601
"""In a cluster, the listener has a network of its own. Here, port 8080 is that of the probes of another program."""
# Accepted without the webhooks, because the definitions of Tekton do not check them.
KNOWN_BAD = (
    {"apiVersion": "tekton.dev/v1", "kind": "Pipeline", "spec": {"tasks": [
        {"name": "a", "taskRef": {"name": "t"}, "runAfter": ["b"]},
        {"name": "b", "taskRef": {"name": "t"}, "runAfter": ["a"]}]}},
    {"apiVersion": "triggers.tekton.dev/v1beta1", "kind": "TriggerTemplate", "spec": {"resourcetemplates": []}},
)  # fmt: skip


def program(image: str) -> Path | None:
    """Return the program that an image of Tekton runs; None of another image."""
    module, _, name = image.removeprefix("ko://").removeprefix("github.com/tektoncd/").partition("/cmd/")
    path = PROGRAMS / module / name
    return path if name and path.is_file() else None


def definitions(module: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of a module, in the order of the names of their files."""
    for path in sorted((PROGRAMS / module / "config").rglob("*.yaml")):
        if path.parent.name != "resolvers":
            yield from filter(None, yaml.safe_load_all(path.read_text()))


class Tekton:
    """Tekton on a control plane."""

    def __init__(self, plane: ControlPlane, api: Api) -> None:
        self.plane, self.api = plane, api
        self.deployments: dict[str, dict[str, Any]] = {}
        self.running: dict[str, Guarded] = {}

    def start(self) -> None:
        """Install Tekton and start its programs. Its webhooks answer when this returns."""
        later = []
        for each in (one for module in ("pipeline", "triggers") for one in definitions(module)):
            kind, name = each["kind"], each["metadata"]["name"]
            if kind == "Deployment":
                self.deployments |= {name: each} if name in PORTS else {}
            elif kind == "ClusterInterceptor":  # checked by the webhook
                later.append(each)
            elif kind != "HorizontalPodAutoscaler":
                self.api.apply(_on_this_computer(each))
        for name in self.deployments.keys() - {INTERCEPTORS}:
            self.run(name)
        for bad in KNOWN_BAD:
            given = {**bad, "metadata": {"name": "known-bad", "namespace": "default"}}
            until(lambda given=given: "admission webhook" in self.api.refusal(given), f"a bad {bad['kind']} is refused")
        for each in later:
            self.api.apply(each)
        # At its start, it gives its certificate to the objects above. If their controller changes them at that time, it
        # tries again only after a minute.
        until(lambda: all(each.get("status") for each in self._interceptors()), "their controller has seen them")
        self.run(INTERCEPTORS)
        certified = "the interceptors have a certificate"
        until(lambda: all("caBundle" in each["spec"]["clientConfig"] for each in self._interceptors()), certified)

    def _interceptors(self) -> list[Any]:
        return self.api.get("triggers.tekton.dev/v1alpha1", "ClusterInterceptor")

    def run(self, name: str) -> None:
        """Start the program of a Deployment, with the rights of its account."""
        spec = self.deployments[name]["spec"]["template"]["spec"]
        [container] = spec["containers"]
        path, port = program(container["image"]), PORTS[name]
        assert path is not None, f"{container['image']} is not built; run: make tekton"
        settings = self.plane.kubeconfig(name, self.api.token(PIPELINES_NAMESPACE, spec["serviceAccountName"]))
        # The only reference to a field is that of the namespace.
        environment = {each["name"]: each.get("value", PIPELINES_NAMESPACE) for each in container["env"]}
        environment |= {"WEBHOOK_PORT": str(port), "PROBES_PORT": str(port + 1)}
        environment |= {"METRICS_PROMETHEUS_PORT": str(port + 2), "KUBECONFIG": str(settings)}
        flags = [each.removeprefix("ko://") for each in container.get("args", ())]
        command = [*INTO_A_FILE, str(self.plane.folder / f"{name}.log"), str(path), *flags]
        self.running[name] = Guarded(command, cwd="/", environment={**os.environ, **environment}, grace_sec=0)

    def kill(self, name: str) -> None:
        """End a program as `kill -9` does."""
        psutil.Process(self.running[name].process.pid).kill()
        self.running[name].wait()

    def stop(self) -> None:
        """Kill the programs. After SIGTERM, they would keep their ports for 45 seconds."""
        for each in self.running.values():
            each.cancel()
            each.ended.wait()


def _on_this_computer(given: dict[str, Any]) -> dict[str, Any]:
    """Return a definition with the addresses of this computer, and the settings of our TektonConfig."""
    if given["kind"] == "Service":
        return {**given, "spec": {"type": "ExternalName", "externalName": "localhost"}}
    if given["metadata"]["name"] == "feature-flags":
        flags = {key: str(value).lower() for key, value in _spec(TektonArgs())["pipeline"].items()}
        assert flags.keys() <= given["data"].keys()
        return {**given, "data": {**given["data"], **flags}}

    found: dict[str, Any] = with_ports(given, PORTS)
    return found
