"""The real API server and the sandbox accept every field of the objects that our components declare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml
from gpu_ci.kubernetes.arc_controller import ArcController, ArcControllerArgs
from gpu_ci.kubernetes.device_plugin import DevicePlugin, DevicePluginArgs
from gpu_ci.kubernetes.gpu_namespace import GpuNamespace, GpuNamespaceArgs
from gpu_ci.kubernetes.image_pre_pull import ImagePrePull, ImagePrePullArgs
from gpu_ci.kubernetes.kueue import Kueue, KueueArgs
from gpu_ci.kubernetes.runner_scale_set import RunnerScaleSet, RunnerScaleSetArgs
from gpu_ci.kubernetes.smoke_job import SmokeJob, SmokeJobArgs

from tests.control_plane import charts
from tests.control_plane.api import Api, until
from tests.control_plane.objects import as_sent, declared, helm_values
from tests.gpu_ci.support import scale_set_wiring
from tests.sandbox.providers.kubernetes.conftest import Cluster

QUEUES_OF_KUEUE = ("clusterqueues", "localqueues", "resourceflavors")
NOVOLUME = {"kind": "kubernetes-novolume"}
SHARED = {"kind": "shared", "claim": "models"}
PER_RUNNER = {"kind": "per-runner", "storageClass": "gp3", "sizeGib": 100, "snapshot": "models"}
ALL_LIMITS = {"cpus": 64, "memoryGib": 256, "gpuResource": "nvidia.com/mig-1g.10gb", "queues": ["vision", "speech"]}
WAYS_OUT = {"egressPorts": [443, 22], "privateRanges": ["10.20.0.0/16", "fd12:3456::/32"]}
QUEUES = {"vision": {"gpus": 4, "cohort": "gpu", "lendingLimit": 1}, "speech": {"gpus": 0, "cohort": "gpu"}}
SPACE = ["Namespace", *["NetworkPolicy"] * 3, "ResourceQuota", "ServiceAccount"]


def gpu_namespace(**more: Any) -> Callable[[], Any]:
    return lambda: GpuNamespace("limited", GpuNamespaceArgs(**GpuNamespace.EXAMPLE | more))


def scale_set(**more: Any) -> Callable[[], Any]:
    return lambda: RunnerScaleSet("l4", RunnerScaleSetArgs(**RunnerScaleSet.EXAMPLE, **scale_set_wiring(), **more))


def smoke(nodes: int) -> Callable[[], Any]:
    return lambda: SmokeJob(f"check-{nodes}", SmokeJobArgs(namespace="gpu-ci", nodes=nodes, **SmokeJob.EXAMPLE))


PROGRAMS: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "namespace": (gpu_namespace(), SPACE),
    "namespace with all": (gpu_namespace(**ALL_LIMITS, **WAYS_OUT), ["LocalQueue", "LocalQueue", *SPACE]),
    "smoke Job": (smoke(1), ["ConfigMap", "Job"]),
    "smoke Job of two nodes": (smoke(2), ["ConfigMap", "Job", "Service"]),
    "controller": (
        lambda: ArcController("arc", ArcControllerArgs(**ArcController.EXAMPLE)),
        [*["CustomResourceDefinition"] * 4, "Namespace"],
    ),
    "plugin": (lambda: DevicePlugin("nvdp", DevicePluginArgs(**DevicePlugin.EXAMPLE)), ["Namespace"]),
    "pre-pull": (
        lambda: ImagePrePull("l4-pre-pull", ImagePrePullArgs(namespace="gpu-ci", **ImagePrePull.EXAMPLE)),
        ["DaemonSet"],
    ),
    "scale set": (scale_set(), ["ConfigMap", "Secret"]),
    "scale set, novolume": (scale_set(containerMode=NOVOLUME), ["ConfigMap", "Secret"]),
    "kueue": (
        lambda: Kueue("kueue", KueueArgs(queues=QUEUES)),
        ["ClusterQueue", "ClusterQueue", "Namespace", "ResourceFlavor"],
    ),
}


@pytest.fixture(scope="module")
def with_kueue(api: Api) -> Api:
    """Return the API server, which knows the definitions of Kueue."""
    folder = charts.module("sigs.k8s.io/kueue") / "config" / "components" / "crd" / "bases"
    for name in QUEUES_OF_KUEUE:
        each = yaml.safe_load((folder / f"kueue.x-k8s.io_{name}.yaml").read_text())
        api.apply(each)
        version, kind = f"{each['spec']['group']}/v1beta2", each["spec"]["names"]["kind"]
        until(lambda of=version, it=kind: api.knows(of, it), f"{kind} is served")
    return api


@pytest.mark.parametrize(("program", "kinds"), PROGRAMS.values(), ids=PROGRAMS)
def test_the_api_server_takes_every_object(
    with_kueue: Api, cluster: Cluster, namespace: str, program: Callable[[], Any], kinds: list[str]
) -> None:
    found = declared(program, passes=2 if "Service" in kinds else 1)
    assert sorted(given["kind"] for _, given in found) == kinds
    for token, given in sorted(found, key=lambda one: one[1]["kind"] != "Namespace"):
        # A Job that stays would take the GPU of a node of another test.
        kept = with_kueue.apply(as_sent(given), dry_run=given["kind"] != "Namespace")
        assert (kept["kind"], kept["metadata"]["name"]) == (given["kind"], given["metadata"]["name"])
        assert cluster.problems(token, given) == []


@pytest.mark.parametrize(
    ("level", "choices"),
    [
        ("restricted", {}),
        ("restricted", {"cache": SHARED, "scratch": {"sizeGib": 200}}),
        ("restricted", {"cache": PER_RUNNER}),
        ("baseline", {"allowSudo": True}),
    ],
)
def test_a_runners_pod_passes_the_level_its_page_names(api: Api, level: str, choices: dict[str, Any]) -> None:
    assert refusal(api, level, helm_values(scale_set(**choices))["template"]["spec"]) == ""


def test_the_pods_that_pull_images_and_listen_pass_the_level_of_their_namespace(api: Api) -> None:
    [(_, given)] = declared(PROGRAMS["pre-pull"][0])
    assert refusal(api, "restricted", given["spec"]["template"]["spec"]) == ""
    spec = helm_values(scale_set())["listenerTemplate"]["spec"]
    spec["containers"][0]["image"] = "listener"  # the controller adds the image
    assert refusal(api, "restricted", spec) == ""


def refusal(api: Api, level: str, spec: dict[str, Any]) -> str:
    """Return the message about a pod in a namespace of this security level."""
    labels = {"pod-security.kubernetes.io/enforce": level}
    api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": level, "labels": labels}})
    api.ensure_account(level)
    meta = {"name": "it", "namespace": level}
    return api.refusal({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
