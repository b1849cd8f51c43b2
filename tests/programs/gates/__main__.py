"""Gates of which all but one fail: for a Job that somebody changed on its way, or for more than there is."""

from __future__ import annotations

import base64
import io
import zipfile
from collections.abc import Callable
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
from gpu_ci.gcp.gke_cluster import GkeCluster
from gpu_ci.gcp.gke_gpu_node_pool import GkeGpuNodePool, GkeGpuNodePoolArgs
from gpu_ci.kubernetes.gpu_namespace import GpuNamespace, GpuNamespaceArgs
from gpu_ci.kubernetes.smoke_job import SmokeJob, SmokeJobArgs

IMAGE = f"ghcr.io/acme/cuda-runner@sha256:{'a1' * 32}"
JOB, MAP = "kubernetes:batch/v1:Job", "kubernetes:core/v1:ConfigMap"
# No check measures speed yet, so nothing but a stand-in ends with 3.
TOO_SLOW = "import sys\nprint('l4: 11 TFLOP/s, expected 40 or more')\nsys.exit(3)\n"

# GKE mounts the driver's libraries in this folder (docs.cloud.google.com/kubernetes-engine/docs/how-to/gpus).
LIBRARIES = {"LD_LIBRARY_PATH": "/usr/local/nvidia/lib64"}
MACHINES = {"l4": "g2-standard-8", "l4-pair": "g2-standard-24"}
config = pulumi.Config()


def gke() -> tuple[pulumi.ProviderResource, list[pulumi.Resource]]:
    """Return the provider of a cluster on GKE, and two node pools of one node each."""
    cluster = GkeCluster(kind="gke", location="us-central1").connect("ci", "gpu-ci:clusters.ci", "Pulumi.dev.yaml")
    pools: list[pulumi.Resource] = [
        GkeGpuNodePool(
            name,
            GkeGpuNodePoolArgs(
                machine_type=machine, zones=["us-central1-a"], max=1, cluster_name="ci", **cluster.wiring([])
            ),
        )
        for name, machine in MACHINES.items()
    ]
    return kubernetes.Provider("ci", kubeconfig=cluster.kubeconfig), pools


on_gke = config.get_bool("gke")
provider, pools = gke() if on_gke else (None, [])
on_cluster = pulumi.ResourceOptions(provider=provider)
namespace = GpuNamespace("roomy", GpuNamespaceArgs(gpus=16), on_cluster).namespace
narrow = GpuNamespace("narrow", GpuNamespaceArgs(gpus=1), on_cluster).namespace


def gate(name: str, of: str = "", change: Callable[[Any], None] | None = None, **args: Any) -> None:
    """A gate, its props of one type changed on their way to the engine, and a map that must not be before it passes."""

    def changed(given: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
        if change is None or given.type_ != of:
            return None
        change(given.props)
        return pulumi.ResourceTransformResult(given.props, given.opts)

    proof = SmokeJob(
        name,
        SmokeJobArgs(
            **{"namespace": namespace, "pool": "l4", "image": IMAGE, **args}, environment=LIBRARIES if on_gke else {}
        ),
        pulumi.ResourceOptions(transforms=[changed], provider=provider, depends_on=pools),
    )
    kubernetes.core.v1.ConfigMap(f"{name}-behind", opts=pulumi.ResourceOptions(depends_on=[proof], provider=provider))


def untolerated(props: Any) -> None:
    props["spec"]["template"]["spec"]["tolerations"] = []


def impatient(props: Any) -> None:
    words = props["spec"]["template"]["spec"]["containers"][0]["command"]
    words[words.index("--deadline-sec") + 1] = "1"


def short(props: Any) -> None:
    props["spec"]["activeDeadlineSeconds"] = 2


def slow(props: Any) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("__main__.py", TOO_SLOW)
    props["binaryData"]["gpu_smoke.pyz"] = base64.b64encode(archive.getvalue()).decode()


gate("right")
if not config.get_bool("right-only"):
    gate("untolerated", JOB, untolerated)
    gate("greedy", gpus=2)
    gate("over-quota", gpus=2, pool="l4-pair", namespace=narrow)
    gate("hangs", JOB, impatient)
    # On nodes that nothing else takes: pods of the others hold theirs for longer now and then than a Job here waits.
    gate("endless", JOB, short, pool="l4-pair")
    gate("slow", MAP, slow, pool="l4-pair")
