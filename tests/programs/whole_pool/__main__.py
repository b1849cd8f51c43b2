"""A pool of two nodes that are checked at once, before a map that stands for its runners is there."""

from __future__ import annotations

from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
from gpu_ci.aws.gpu_node_group import GpuNodeGroup, GpuNodeGroupArgs
from gpu_ci.kubernetes.gpu_namespace import GpuNamespace, GpuNamespaceArgs
from gpu_ci.kubernetes.smoke_job import SmokeJob, SmokeJobArgs

# A test waits for no machine, and nobody caches names in the sandbox.
SHORT = ["--peers-sec", "20", "--linger-sec", "3"]


def impatient(given: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
    """The Job of the check, whose pods wait for each other for seconds."""
    if given.type_ != "kubernetes:batch/v1:Job":
        return None
    props: Any = given.props
    words = props["spec"]["template"]["spec"]["containers"][0]["command"]
    at = words.index("--peers-sec")
    words[at : at + 2] = SHORT
    return pulumi.ResourceTransformResult(props, given.opts)


namespace = GpuNamespace("gpu-ci", GpuNamespaceArgs(gpus=2)).namespace
nodes = GpuNodeGroup(
    "l4",
    GpuNodeGroupArgs(
        region="us-east-1",
        cluster_name="ci",
        kubernetes_version="1.35",
        subnets={"us-east-1a": "subnet-0123456789abcdef0"},
        instance_types=["g6.2xlarge"],
        # Its nodes bring the device plugin.
        ami_type="BOTTLEROCKET_x86_64_NVIDIA",
        market="standard",
        max=pulumi.Config().get_int("max") or 2,
    ),
)
proof = SmokeJob(
    "l4-smoke",
    SmokeJobArgs(
        namespace=namespace,
        pool="l4",
        image=f"ghcr.io/acme/cuda-runner@sha256:{'a1' * 32}",
        gpu="NVIDIA L4",
        nodes=2,
        namespace_gpus=2,
        rerun_on=[nodes.generation],
    ),
    pulumi.ResourceOptions(transforms=[impatient], depends_on=[nodes]),
)
kubernetes.core.v1.ConfigMap("behind", opts=pulumi.ResourceOptions(depends_on=[proof]))
pulumi.export("verdict", proof.verdict)
pulumi.export("provenNodes", proof.proven_nodes)
