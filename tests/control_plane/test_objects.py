"""The real API server and the sandbox accept every field of the objects that our components declare."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from gpu_ci.kubernetes.arc_controller import ArcController, ArcControllerArgs
from gpu_ci.kubernetes.device_plugin import DevicePlugin, DevicePluginArgs
from gpu_ci.kubernetes.gpu_namespace import GpuNamespace, GpuNamespaceArgs
from gpu_ci.kubernetes.image_pre_pull import ImagePrePull, ImagePrePullArgs
from gpu_ci.kubernetes.runner_scale_set import RunnerScaleSet, RunnerScaleSetArgs
from gpu_ci.kubernetes.smoke_job import SmokeJob, SmokeJobArgs

from tests.control_plane.api import Api
from tests.control_plane.conftest import Twin
from tests.control_plane.objects import as_sent, declared, helm_values
from tests.gpu_ci.support import scale_set_wiring

NOVOLUME = {"kind": "kubernetes-novolume"}
VOLUME = {"kind": "kubernetes", "storageClass": "gp3", "workGib": 50}
DIND = {"kind": "dind", "nodeGpus": 1}
SHARED = {"kind": "shared", "claim": "models"}
PER_RUNNER = {"kind": "per-runner", "storageClass": "gp3", "sizeGib": 100, "snapshot": "models"}


def gpu_namespace(**more: Any) -> Callable[[], Any]:
    return lambda: GpuNamespace("limited", GpuNamespaceArgs(**GpuNamespace.EXAMPLE | more))


def scale_set(**more: Any) -> Callable[[], Any]:
    return lambda: RunnerScaleSet("l4", RunnerScaleSetArgs(**RunnerScaleSet.EXAMPLE, **scale_set_wiring(), **more))


ALL_LIMITS = {"cpus": 64, "memoryGib": 256, "gpuResource": "nvidia.com/mig-1g.10gb"}
WAYS_OUT = {"egressPorts": [443, 22], "privateRanges": ["10.20.0.0/16", "fd12:3456::/32"]}


@pytest.mark.parametrize(
    ("program", "kinds"),
    [
        (gpu_namespace(), "Namespace ResourceQuota ServiceAccount NetworkPolicy NetworkPolicy NetworkPolicy"),
        (
            gpu_namespace(**ALL_LIMITS, **WAYS_OUT),
            "Namespace ResourceQuota ServiceAccount NetworkPolicy NetworkPolicy NetworkPolicy",
        ),
        (lambda: SmokeJob("l4", SmokeJobArgs(namespace="gpu-ci", **SmokeJob.EXAMPLE)), "ConfigMap Job"),
        (
            lambda: SmokeJob("two", SmokeJobArgs(namespace="gpu-ci", nodes=2, **SmokeJob.EXAMPLE)),
            "ConfigMap Service Job",
        ),
        (
            lambda: ArcController("arc", ArcControllerArgs(**ArcController.EXAMPLE)),
            f"Namespace{4 * ' CustomResourceDefinition'}",
        ),
        (lambda: DevicePlugin("nvdp", DevicePluginArgs(**DevicePlugin.EXAMPLE)), "Namespace"),
        (
            lambda: ImagePrePull("l4-pre-pull", ImagePrePullArgs(namespace="gpu-ci", **ImagePrePull.EXAMPLE)),
            "DaemonSet",
        ),
        (scale_set(), "Secret ConfigMap"),
        (scale_set(containerMode=NOVOLUME), "Secret ConfigMap"),
    ],
    ids=[
        "namespace",
        "namespace-with-all",
        "smoke-job",
        "smoke-job-of-two",
        "controller",
        "plugin",
        "pre-pull",
        "scale-set",
        "scale-set-novolume",
    ],
)
def test_the_api_server_takes_every_object(
    api: Api, cluster: Twin, namespace: str, program: Callable[[], Any], kinds: str
) -> None:
    found = declared(program, passes=2 if "Service" in kinds.split() else 1)
    assert sorted(given["kind"] for _, given in found) == sorted(kinds.split())
    for token, given in sorted(found, key=lambda one: one[1]["kind"] != "Namespace"):
        kept = api.apply(as_sent(given))
        assert (kept["kind"], kept["metadata"]["name"]) == (given["kind"], given["metadata"]["name"])
        assert cluster.sandbox_problems(token, given) == []


@pytest.mark.parametrize(
    ("level", "choices"),
    [
        ("restricted", {}),
        ("restricted", {"containerMode": NOVOLUME}),
        ("restricted", {"containerMode": VOLUME}),
        ("restricted", {"cache": SHARED, "scratch": {"sizeGib": 200}}),
        ("restricted", {"cache": PER_RUNNER}),
        ("baseline", {"allowSudo": True}),
    ],
    ids=["runner", "novolume", "volume", "shared-cache", "per-runner-cache", "sudo"],
)
def test_a_runners_pod_passes_the_level_its_page_names(api: Api, level: str, choices: dict[str, Any]) -> None:
    values = helm_values(scale_set(**choices))
    assert refused(api, level, values["template"]["spec"]) == []


def test_the_pod_that_pulls_images_passes_the_level_of_the_runners_namespace(api: Api) -> None:
    args = ImagePrePullArgs(namespace="gpu-ci", **ImagePrePull.EXAMPLE)
    [(_, given)] = declared(lambda: ImagePrePull("l4-pre-pull", args))
    assert refused(api, "restricted", given["spec"]["template"]["spec"]) == []


def test_the_listeners_pod_passes_the_level_of_the_controllers_namespace(api: Api) -> None:
    spec = helm_values(scale_set())["listenerTemplate"]["spec"]
    # The controller adds the image.
    spec["containers"][0]["image"] = "listener"
    assert refused(api, "restricted", spec) == []


def test_a_jobs_own_pod_and_a_runner_with_sudo_do_not_pass_restricted(api: Api) -> None:
    program = scale_set(containerMode=NOVOLUME, cache=PER_RUNNER, scratch={"sizeGib": 200})
    files = [given for token, given in declared(program) if token.endswith("ConfigMap")]
    spec = json.loads(files[0]["data"]["job-pod.json"])["spec"]
    spec["containers"][0] |= {"name": "job", "image": "job"}
    said = refused(api, "restricted", spec)
    assert len(said) == 1
    assert 'violates PodSecurity "restricted:latest"' in said[0]
    assert refused(api, "baseline", spec) == []


def refused(api: Api, level: str, spec: dict[str, Any]) -> list[str]:
    """Return the problem that the API server reports for a pod in a namespace of this security level."""
    labels = {"pod-security.kubernetes.io/enforce": level}
    api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": level, "labels": labels}})
    api.ensure_account(level)
    return api.problems_of(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "it", "namespace": level}, "spec": spec}
    )
