"""Nodes, plugin, controller and runners find each other: the commonest fault of the field is that they do not."""

from __future__ import annotations

import json
from typing import Any

import pulumi
import pytest
from gpu_ci.kubernetes import gpu_nodes
from gpu_ci.kubernetes.arc_controller import ArcController, ArcControllerArgs
from gpu_ci.kubernetes.device_plugin import DevicePlugin
from gpu_ci.kubernetes.gpu_namespace import GpuNamespace, GpuNamespaceArgs
from gpu_ci.kubernetes.image_pre_pull import ImagePrePull
from gpu_ci.kubernetes.runner_scale_set import RunnerScaleSet, RunnerScaleSetArgs
from gpu_ci.kubernetes.smoke_job import SmokeJob

from tests.gpu_ci.harness import deploy
from tests.gpu_ci.kubernetes.clusters import GPU_TAINT, build, may_go, scale_set, values
from tests.gpu_ci.support import COMPUTED, scale_set_wiring

pytestmark = pytest.mark.usefixtures("short_definitions")

# (labels, taints) of nodes
GPU_NODE = (gpu_nodes.labels("l4"), [GPU_TAINT])
OTHER_POOL = (gpu_nodes.labels("h100"), [GPU_TAINT])
NO_TAINT = (gpu_nodes.labels("l4"), list[dict[str, str]]())
UNPROVEN = (
    gpu_nodes.labels("l4"),
    [GPU_TAINT, {"key": gpu_nodes.UNPROVEN_KEY, "value": "true", "effect": "NoSchedule"}],
)
CPU_NODE = ({"kubernetes.io/os": "linux"}, list[dict[str, str]]())
VOLUME = {"kind": "kubernetes", "storageClass": "gp3", "workGib": 50}
NOVOLUME = {"kind": "kubernetes-novolume"}


def runner(**changes: Any) -> Any:
    return values(scale_set(**changes))["template"]["spec"]


def job(**changes: Any) -> Any:
    files = scale_set(**changes).one(":ConfigMap").inputs["data"]
    return json.loads(files["job-pod.json"])["spec"]


def spec_of(component: Any, kind: str) -> Any:
    args = component.ARGS(**{"namespace": "gpu-ci", **component.EXAMPLE})
    found = deploy(lambda: component("l4", args), computed=COMPUTED).one(kind).inputs
    return found["spec"]["template"]["spec"]


def where(pod: Any) -> list[bool]:
    return [may_go(pod, *node) for node in (GPU_NODE, OTHER_POOL, NO_TAINT, CPU_NODE, UNPROVEN)]


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (lambda: values(build(DevicePlugin, "nvdp")), [True, True, True, False, True]),
        (lambda: values(build(DevicePlugin, "nvdp", builtInPools=["l4"])), [False, True, False, False, False]),
        (lambda: values(build(ArcController, "arc")), [False, False, False, True, False]),
        (lambda: values(scale_set())["listenerTemplate"]["spec"], [False, False, False, True, False]),
        (lambda: runner(), [True, False, True, False, False]),
        (lambda: runner(containerMode={"kind": "dind", "nodeGpus": 1}), [True, False, True, False, False]),
        (lambda: runner(containerMode=VOLUME), [True, False, True, False, False]),
        (lambda: job(containerMode=VOLUME), [True, False, True, False, False]),
        (lambda: runner(containerMode=NOVOLUME), [False, False, False, True, False]),
        (lambda: job(containerMode=NOVOLUME), [True, False, True, False, False]),
        (lambda: spec_of(ImagePrePull, ":DaemonSet"), [True, False, True, False, True]),
        (lambda: spec_of(SmokeJob, ":Job"), [True, False, True, False, True]),
    ],
    ids=[
        "plugin",
        "built-in",
        "controller",
        "listener",
        "runner",
        "dind",
        "volume",
        "its-job",
        "novolume",
        "its-job-2",
        "pre-pull",
        "check",
    ],
)
def test_a_pod_goes_where_it_should_and_nowhere_else(pod: Any, expected: list[bool]) -> None:
    """On a GPU node of its pool, one of another pool, one without the taint, one without GPUs, and an unproven one."""
    assert where(pod()) == expected


def test_what_runs_off_gpu_nodes_tolerates_no_taint_at_all() -> None:
    found = [values(build(ArcController, "arc")), values(scale_set())["listenerTemplate"]["spec"]]
    assert [pod.get("tolerations", []) for pod in found] == [[], []]


def test_a_set_waits_for_its_controller_and_for_the_walls_of_its_namespace() -> None:
    def program() -> None:
        namespace = GpuNamespace("ci", GpuNamespaceArgs(gpus=4))
        arc = ArcController("arc", ArcControllerArgs())
        controller = {
            "serviceAccountName": arc.service_account_name,
            "namespace": arc.namespace,
            "version": arc.version,
        }
        wiring = {**scale_set_wiring(), "namespace": namespace.namespace, "controller": controller}
        RunnerScaleSet("gpu", RunnerScaleSetArgs(**RunnerScaleSet.EXAMPLE, **wiring))

    rows = deploy(program, computed=COMPUTED).of(":Release")
    [release] = [row for row in rows if row.name == "gpu-release"]
    assert release.inputs["namespace"] == "ci"
    assert release.inputs["values"]["controllerServiceAccount"] == {"name": "arc", "namespace": "arc-systems"}
    waits = {urn.rpartition("::")[2] for urn in release.request.dependencies}
    assert waits >= {"arc-release", "ci-deny", "ci-dns", "ci-egress", "ci-quota", "ci-default-account", "gpu-app"}


def test_the_cluster_is_the_one_whose_provider_the_caller_gives() -> None:
    import pulumi_kubernetes as kubernetes

    def program() -> None:
        cluster = kubernetes.Provider("cluster", kubeconfig=pulumi.Output.secret("{}"))
        opts = pulumi.ResourceOptions(providers=[cluster])
        GpuNamespace("ci", GpuNamespaceArgs(gpus=4), opts)
        ArcController("arc", ArcControllerArgs(), opts)
        RunnerScaleSet("gpu", RunnerScaleSetArgs(**RunnerScaleSet.EXAMPLE, **scale_set_wiring()), opts)

    rows = deploy(program, computed=COMPUTED).rows
    made = [row for row in rows if row.type.startswith("kubernetes:")]
    assert len(made) == 16
    assert {row.request.provider for row in made} == {
        "urn:pulumi:stack::project::pulumi:providers:kubernetes::cluster::cluster-id"
    }
