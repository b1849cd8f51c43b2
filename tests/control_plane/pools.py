"""Deploys the pools of a stack file to a real cluster, with Kueue's manager, ARC's controller, and nodes of KWOK.

The program of the stack runs against the recorder. Its objects and releases are applied in the order in which it
registers them. The programs of releases run as processes, with their charts' flags and rights. Only addresses differ.
"""

from __future__ import annotations

import base64
import copy
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gpu_catalog
import yaml
from pulumi_sandbox.providers.rsa_key import private_key
from pulumi_sandbox.providers.wire import decode
from pulumi_sandbox.workspace import free_port
from pulumi_sandbox.world.store import World

from tests.conftest import ROOT
from tests.control_plane import charts
from tests.control_plane.actions_service import ActionsService
from tests.control_plane.api import Api, until
from tests.control_plane.cluster_state import SIZE, add_nodes
from tests.control_plane.objects import ENDING, JOB, REGISTERED, RELEASE, as_sent, with_ports
from tests.control_plane.processes import ControlPlane
from tests.gpu_ci.harness import Deployment
from tests.gpu_ci.program.stack import config_of
from tests.gpu_ci.program.test_program import ALL_CALLS, run
from tests.gpu_ci.support import COMPUTED

KWOK, ARC = ROOT / ".kwok", ROOT / ".arc"
NODES = {
    "aws:eks/nodeGroup:NodeGroup": ("nodeGroupName", "eks.amazonaws.com/nodegroup"),
    "gcp:container/nodePool:NodePool": ("name", "cloud.google.com/gke-nodepool"),
}
"""The types of groups of nodes, with the output that is their name, and the label with it that the cloud adds."""
NAMED = ("apps/v1:DaemonSet", "batch/v1:Job", "core/v1:ConfigMap", "core/v1:Secret", "core/v1:Service")
SECRETS = "gcp:secretmanager/getSecretVersionAccess:getSecretVersionAccess"
QUEUE, LOGIN = "vision", "ghcr"
BY_KUBELET = {"kubernetes.io/os": "linux"}
SYSTEM_NODE: dict[str, Any] = {"name": "system", "labels": BY_KUBELET, "taints": [], "allocatable": SIZE}
STAGES = ("node/fast/node-initialize", "pod/fast/pod-ready", "pod/fast/pod-complete", "pod/fast/pod-delete")
BROKEN, FAILURE = "broken", "l4: GPU 0 computed wrong results"
"""The node on which the check of each new node fails, and the message of the check."""
KUEUE, KUEUE_SPACE = "kueue.x-k8s.io/v1beta2", "kueue-system"
ACTIONS = "actions.github.com/v1alpha1"


def deployment(cluster: str, folder: Path) -> Deployment:
    """Return what the program registers for one cluster of staging, with a queue, a login, and pulled images."""
    found = config_of("Pulumi.staging.yaml")
    pools = {name: one for name, one in found["gpu-ci:pools"].items() if one.get("clusterName") == cluster}
    for pool in pools.values():
        pool |= {
            "queue": QUEUE,
            "prePull": {},
            "proveNodes": {},
            "runner": {**pool["runner"], "imagePullSecrets": [LOGIN]},
        }
    login = {"name": LOGIN, "registry": "ghcr.io", "username": "bot", "password": "projects/p/secrets/ghcr"}
    more = {"kueue": {"queues": {QUEUE: {"gpus": 1}}}, "imagePullSecrets": [login]}
    del found["gpu-ci:site"]["subnetworks"]
    found |= {"gpu-ci:pools": pools, "gpu-ci:clusters": {cluster: found["gpu-ci:clusters"][cluster] | more}}
    found["gpu-ci:github"] = {"runnerGroup": found["gpu-ci:github"]["runnerGroup"]}
    key = private_key(World(folder / "keys.db"), "app")
    computed = COMPUTED | {f"kubernetes:{kind}": _named for kind in NAMED}
    return run(found, calls=ALL_CALLS | {SECRETS: lambda _: {"secretData": key}}, computed=computed)


def _named(request: Any) -> dict[str, Any]:
    given = decode(request.object).values
    status = {"status": {"succeeded": given["spec"].get("completions", 1)}} if request.type == JOB else {}
    return {"metadata": {"name": f"{request.name}-{ENDING}", **given["metadata"]}, **status}


def node(type_: str, values: Mapping[str, Any], name: str = "gpu") -> dict[str, Any]:
    """Return a node that the cloud creates in a group, with the capacity of the group's first machine type."""
    output, label = NODES[type_]
    described = values.get("nodeConfig", values)
    machine = gpu_catalog.machine(described.get("machineType") or described["instanceTypes"][0])
    size = {
        "cpu": str(machine.vcpus),
        "memory": f"{machine.memory_gib:.0f}Gi",
        "nvidia.com/gpu": f"{machine.gpu_count}",
    }
    assert {each["effect"] for each in described["taints"]} == {"NO_SCHEDULE"}
    return {
        "name": name,
        "labels": {**BY_KUBELET, **described["labels"], label: COMPUTED[type_][output]},
        "taints": [{**each, "effect": "NoSchedule"} for each in described["taints"]],
        "allocatable": {**SIZE, **size},
    }


def image_pull_stage(logins: list[str]) -> dict[str, Any]:
    """Return the stage of pods that name a Secret for pulling images that does not exist, as a kubelet reports it."""
    names = ".spec.imagePullSecrets.[].name"
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no basic auth credentials"}}
    missing = [{"key": names, "operator": "Exists"}, {"key": names, "operator": "NotIn", "values": logins}]
    return _stage("pull", missing, waiting, "Pending")


def broken_gpu_stage() -> dict[str, Any]:
    """Return the stage of checks on the broken node, which fail."""
    ended = {"terminated": {"exitCode": 1, "reason": "Error", "message": FAILURE}}
    conditions = [
        {"key": '.metadata.labels["gpu-ci-proof"]', "operator": "Exists"},
        {"key": ".spec.nodeName", "operator": "In", "values": [BROKEN]},
        {"key": ".status.phase", "operator": "NotIn", "values": ["Failed"]},
    ]
    return _stage("broken-gpu", conditions, ended, "Failed")


def _stage(name: str, conditions: list[dict[str, Any]], state: dict[str, Any], phase: str) -> dict[str, Any]:
    template = (
        "containerStatuses:\n{{ range .spec.containers }}\n"
        "- {name: {{ .name | Quote }}, image: {{ .image | Quote }}, ready: false, restartCount: 0, "
        f"state: {json.dumps(state)}}}\n{{{{ end }}}}\nphase: {phase}\n"
    )
    matched = [{"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"}, *conditions]
    spec = {"resourceRef": {"apiGroup": "v1", "kind": "Pod"}, "selector": {"matchExpressions": matched}}
    # Of several stages of a pod, KWOK takes those with a weight.
    more = {"weight": 1, "next": {"statusTemplate": template}}
    return {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage", "metadata": {"name": name}, "spec": spec | more}


@dataclass
class Pools:
    """A cluster with everything that the program creates on it."""

    plane: ControlPlane
    api: Api
    service: ActionsService
    release: dict[str, Any] = field(default_factory=dict)
    """The release of the scale set."""
    job: dict[str, Any] = field(default_factory=dict)
    group: tuple[str, dict[str, Any]] = ("", {})
    """The type and the inputs of the group of nodes."""
    first_runner: tuple[str, str] = ("", "")
    """The states of a runner before and after the node has passed its check."""

    def deploy(self, found: Deployment) -> None:
        for row in found.rows:
            values = decode(row.request.object).values
            if row.type in NODES:
                self._run_kwok()
                self.group = row.type, values
                add_nodes(self.api, SYSTEM_NODE, node(row.type, values))
            elif row.type == RELEASE:
                self._install(values)
            elif row.type == REGISTERED and charts.ARC:
                name, space = values["metadata"]["name"], values["metadata"]["namespace"]
                until(lambda at=(space, name): self._scale_set_id(*at), f"ARC has registered {name}")
            elif row.type.startswith("kubernetes:") and row.type != REGISTERED:
                given = as_sent(values)
                given["metadata"] = {"name": f"{row.name}-{ENDING}", **given["metadata"]}
                self._apply(given)
                if row.type == JOB:
                    self.job = given
                    until(self.check_states, "the check runs, or has a reason")
        with self.runners("first", metadata={"labels": {}}) as [pod]:
            before = until(lambda: self.state(pod), "a reason")
            self._prove_nodes()
            until(lambda: self.state(pod) == "gpu", "the node has passed its check")
            self.first_runner = before, self.state(pod)

    def _prove_nodes(self) -> None:
        """Run the program that checks each node, with its settings and the rights of its account."""
        [deployment] = self.api.get("apps/v1", "Deployment", *self.prover)
        pod, folder = deployment["spec"]["template"]["spec"], self.account_of_prover
        [container], [volume] = pod["containers"], pod["volumes"]
        [program] = self.api.get("v1", "ConfigMap", self.prover[0], volume["configMap"]["name"])
        for name, text in {**program["binaryData"], **program["data"]}.items():
            (folder / name).write_bytes(base64.b64decode(text) if name in program["binaryData"] else text.encode())
        (folder / "ca.crt").write_bytes(self.plane.authority.read_bytes())
        (folder / "token").write_text(self.api.token(self.prover[0], pod["serviceAccountName"]))
        [mount] = container["volumeMounts"]
        program_path, *flags = [one.replace(mount["mountPath"], str(folder)) for one in container["command"]][1:]
        host, _, port = self.plane.url.removeprefix("https://").partition(":")
        address = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
        python = Path(sys.executable)
        self.plane.run(python.name, program_path, *flags, f"--account={folder}", programs=python.parent, **address)

    @property
    def prover(self) -> tuple[str, str]:
        """The namespace and the name of the prover's Deployment."""
        [found] = [
            (one["metadata"]["namespace"], one["metadata"]["name"])
            for one in self.api.get("apps/v1", "Deployment")
            if "gpu-ci-prover" in one["metadata"].get("labels", {})
        ]
        return found

    @property
    def account_of_prover(self) -> Path:
        """The folder with the token of the prover's account."""
        folder = self.plane.folder / "prover"
        folder.mkdir(exist_ok=True)
        return folder

    def node(self, name: str) -> dict[str, Any]:
        [found] = self.api.get("v1", "Node", name=name)
        return dict(found)

    def taints(self, name: str) -> list[str]:
        """Return the last parts of the keys of a node's taints, without the taint of GPU nodes."""
        keys = [one["key"] for one in self.node(name)["spec"].get("taints") or ()]
        return sorted(key.rpartition("/")[2] for key in keys if key != "nvidia.com/gpu")

    def _apply(self, given: dict[str, Any]) -> None:
        self.api.apply(given)
        spec, name = given.get("spec", {}), given["metadata"]["name"]
        if given["kind"] == "CustomResourceDefinition":
            served = [f"{spec['group']}/{each['name']}" for each in spec["versions"] if each["served"]]
            until(lambda: all(self.api.knows(each, spec["names"]["kind"]) for each in served), f"{name} is served")
        if given["kind"] == "Namespace":
            self.api.ensure_account(name)

    def _scale_set_id(self, space: str, name: str) -> str | None:
        [found] = self.api.get(ACTIONS, "AutoscalingRunnerSet", space, name)
        return found["metadata"].get("annotations", {}).get("runner-scale-set-id")

    def _run_kwok(self) -> None:
        secrets = [one for one in self.api.get("v1", "Secret") if one["type"] == "kubernetes.io/dockerconfigjson"]
        folder = charts.module("sigs.k8s.io/kwok") / "kustomize" / "stage"
        stages = [(folder / f"{name}.yaml").read_text() for name in STAGES]
        stages.append(yaml.safe_dump(image_pull_stage([one["metadata"]["name"] for one in secrets])))
        stages.append(yaml.safe_dump(broken_gpu_stage()))
        (self.plane.folder / "stages.yaml").write_text("\n---\n".join(stages))
        settings = self.plane.folder / "admin.kubeconfig"
        flags = (f"--kubeconfig={settings}", "--manage-all-nodes", f"--config={self.plane.folder / 'stages.yaml'}")
        self.plane.run("kwok", *flags, programs=KWOK)

    def _install(self, release: dict[str, Any]) -> None:
        """Apply the objects of a release, and start its program. Charts that are not on this computer are left out."""
        chart = charts.name(release)
        if chart == "gha-runner-scale-set":
            self.release = release
        if chart == "kueue":
            self._install_kueue(charts.rendered(release))
        elif chart.startswith("gha-") and charts.ARC:
            for one in charts.rendered(release):
                self._apply(self._on_service(one))
                if one["kind"] == "Deployment":
                    self._start(one, "actions-runner-controller", ARC)

    def _on_service(self, given: dict[str, Any]) -> dict[str, Any]:
        if given["kind"] != "AutoscalingRunnerSet":
            return given
        return {**given, "spec": {**given["spec"], "githubConfigUrl": f"{self.service.url}/acme"}}

    def _install_kueue(self, objects: list[dict[str, Any]]) -> None:
        [text] = [one["data"]["controller_manager_config.yaml"] for one in objects if one["kind"] == "ConfigMap"]
        configuration, folder = yaml.safe_load(text), self.plane.folder
        certificate = configuration["internalCertManagement"]
        service, port = certificate["webhookServiceName"], free_port()
        configuration["leaderElection"]["resourceNamespace"] = KUEUE_SPACE
        configuration["metrics"] = {"bindAddress": "0"}
        configuration["health"] = {"healthProbeBindAddress": "0"}
        configuration["webhook"] |= {"port": port, "certDir": str(folder)}
        configuration["featureGates"]["VisibilityOnDemand"] = False  # its Service has no address here
        (folder / "kueue.yaml").write_text(yaml.safe_dump(configuration))
        for one in objects:
            if one["metadata"]["name"] == service:
                one["spec"] = {"type": "ExternalName", "externalName": "localhost"}
            if one["kind"] != "APIService":
                self._apply(with_ports(one, {service: port}))
        [deployment] = [one for one in objects if one["kind"] == "Deployment"]
        self._start(deployment, "kueue", KWOK, f"--config={folder / 'kueue.yaml'}")
        # A kubelet would mount the Secret that Kueue fills.
        for name, value in until(lambda: self._secret(certificate["webhookSecretName"]), "its certificate").items():
            (folder / name).write_bytes(base64.b64decode(value))
        bad = {"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": "known-bad"}}
        bad["spec"] = {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [
            {"name": "f", "resources": [{"name": "cpu", "nominalQuota": "1", "lendingLimit": "1"}]}]}]}  # fmt: skip
        until(lambda: "admission webhook" in self.api.refusal(bad), "Kueue's webhook refuses a bad queue")

    def _secret(self, name: str) -> dict[str, str]:
        [found] = self.api.get("v1", "Secret", KUEUE_SPACE, name)
        return found.get("data") or {}

    def _start(self, deployment: Mapping[str, Any], program: str, programs: Path, *flags: str) -> None:
        """Run the program of a Deployment with the rights of its account."""
        space, pod = deployment["metadata"]["namespace"], deployment["spec"]["template"]["spec"]
        [container] = pod["containers"]
        token = self.api.token(space, pod["serviceAccountName"])
        environment = {one["name"]: one.get("value", space) for one in container.get("env", ())}
        environment["KUBECONFIG"] = str(self.plane.kubeconfig(program, token))
        self.plane.run(program, *(flags or container["args"]), programs=programs, **environment)

    def pods(self, label: str, value: str) -> list[dict[str, Any]]:
        """Return the pods with a label, in all namespaces."""
        return [one for one in self.api.get("v1", "Pod") if one["metadata"].get("labels", {}).get(label) == value]

    def check_states(self) -> list[str]:
        """Return the states of the smoke check's pods, if all are known."""
        found = [self.state(one) for one in self.pods("job-name", self.job["metadata"]["name"])]
        return found if all(found) else []

    @contextmanager
    def runners(self, name: str = "", count: int = 1, **changes: Any) -> Iterator[list[dict[str, Any]]]:
        """Yield the pods of runners, which end afterwards: of the pool, or of a changed scale set with another name.

        ARC creates them. Without ARC, they are the pods of its template.
        """
        release = copy.deepcopy(self.release)
        template = release["values"]["template"]
        template["metadata"] |= changes.pop("metadata", {})
        template["spec"] |= changes
        name = name or release["name"]
        release["values"]["runnerScaleSetName"] = release["name"] = name
        space, label = release["namespace"], "actions.github.com/scale-set-name"
        if charts.ARC:
            self._install_scale_set(release)
            own = until(lambda: self._runner_set(name), f"ARC has created a listener for {name}")
            self.api.merge(ACTIONS, "EphemeralRunnerSet", space, own, {"spec": {"replicas": count, "patchID": 0}})
        for number in range(0 if charts.ARC else count):
            meta = {**template["metadata"], "name": f"{name}-{number}", "namespace": space}
            meta["labels"] = {**meta.get("labels", {}), label: name}
            spec = {"restartPolicy": "Never", **template["spec"]}
            self.api.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})

        def listed() -> list[dict[str, Any]]:
            return [one for one in self.pods(label, name) if one["metadata"]["namespace"] == space]

        try:
            yield until(lambda: len(listed()) == count and listed(), f"{name} has {count} runners")
        finally:
            if charts.ARC:
                self.api.merge(ACTIONS, "EphemeralRunnerSet", space, own, {"spec": {"replicas": 0, "patchID": 0}})
            for one in [] if charts.ARC else listed():
                self.api.delete("v1", "Pod", one["metadata"]["name"], space)
            until(lambda: not listed(), f"the runners of {name} have ended")

    def _install_scale_set(self, release: dict[str, Any]) -> None:
        if release["name"] != self.release["name"]:
            for one in charts.rendered(release):
                self._apply(self._on_service(one))

    def _runner_set(self, name: str) -> str:
        """Return the EphemeralRunnerSet to which the listener of a scale set writes the number of runners."""
        found = [one["spec"] for one in self.api.get(ACTIONS, "AutoscalingListener")]
        own = (one["ephemeralRunnerSetName"] for one in found if one["autoscalingRunnerSetName"] == name)
        return next(own, "")

    def state(self, pod: Mapping[str, Any]) -> str:
        """Return the node of a running pod, or why it does not run: by the kubelet, the scheduler or Kueue."""
        name, space = pod["metadata"]["name"], pod["metadata"]["namespace"]
        found = self.api.get("v1", "Pod", space, name)
        if not found:
            return ""
        status = found[0]["status"]
        if status["phase"] in ("Running", "Succeeded"):
            return str(found[0]["spec"]["nodeName"])
        for one in status.get("containerStatuses") or ():
            return "{reason}: {message}".format(**one["state"]["waiting"])
        for one in status.get("conditions") or ():
            if one.get("reason") == "Unschedulable":
                return str(one["message"])
        return self._kueue_says(space, name)

    def _kueue_says(self, space: str, name: str) -> str:
        for one in self.api.get(KUEUE, "Workload", space):
            if name in [owner["name"] for owner in one["metadata"].get("ownerReferences", ())]:
                conditions = one.get("status", {}).get("conditions") or ()
                return next((str(each["message"]) for each in conditions if each["status"] == "False"), "")
        return ""
