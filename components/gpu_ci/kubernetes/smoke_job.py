"""The component SmokeJob: a Job that runs the smoke check on Kubernetes nodes. It is the gate of a pool on EKS."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, ClassVar, cast

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi.runtime.proto import resource_pb2
from pulumi.runtime.settings import monitor_supports_feature

from ..args import Args
from ..component import Component
from ..payload import smoke_archive
from . import gpu_nodes
from .smoke import pod
from .smoke.args import SmokeJobArgs


def after_failure(
    owner: pulumi.Resource, hook: str, text: Callable[[pulumi.ErrorHookArgs], str], operations: tuple[str, ...]
) -> dict[str, Any]:
    """Return resource options that make `owner` log a warning if one of these operations fails.

    The options are empty for an engine without error hooks, and in a preview. A hook starts a callback server in the
    program. If a program with this server fails in a preview, it crashes in grpc (seen with grpcio on Python 3.11).
    """
    if pulumi.runtime.is_dry_run() or not monitor_supports_feature(resource_pb2.RESOURCE_MONITOR_FEATURE_ERROR_HOOKS):
        return {}

    def warn(failed: pulumi.ErrorHookArgs) -> bool:
        if failed.failed_operation in operations:
            pulumi.log.warn(text(failed), owner)
        return False  # do not retry; the next `pulumi up` creates the resource again

    return {"hooks": pulumi.ResourceHookBinding(on_error=[pulumi.ErrorHook(hook, warn)])}


__all__ = ["SmokeJob", "SmokeJobArgs"]

_AFTER_FAILURE = (
    "{pool}: the check did not pass, so no dependent resource was created or changed: an existing scale set keeps "
    "its image and settings, and a new scale set is not created. The nodes are already changed"
)
_HINT = (
    "kubectl get events --namespace {namespace} shows why a pod did not start; fix the cause, or revert the change; "
    "the next pulumi up repeats the check"
)


class SmokeJob(Component):
    """A check of the GPUs of a pool's nodes. The creation of the resource fails if the check fails.

    Creates: a ConfigMap with the check, and a Job. The Job's pod runs on one node with all GPUs of the node. A second
    container without a GPU request verifies that it sees no GPU. For several nodes, the Job has one pod on each node,
    and a headless Service by which the pods find each other. No pod ends before all pods run, so the check also fails
    if a node does not start. The Job stays after its end, so that the next preview finds it.
    Costs: the checked nodes for the minutes of the check, unless they run anyway. With several nodes, the check ends a
    minute after the last node has started.
    Does not: check more nodes than `nodes`, or nodes that start later. If jobs use the GPUs of a node, the check waits
    until they end.
    Replaces on change of: everything except Pulumi's own timeout. A Job is immutable, so each change is a new check.
    The old Job is deleted when the new check has passed. The next `up` repeats a failed check.
    """

    TYPE: ClassVar[str] = "gpu-ci:kubernetes:SmokeJob"
    ARGS: ClassVar[type[Args]] = SmokeJobArgs
    FIXED: ClassVar[dict[str, tuple[str, ...]]] = {"job": ("*",), "check": ("*",), "peers": ("*",)}
    EXAMPLE: ClassVar[dict[str, Any]] = {
        "pool": "l4",
        "image": f"docker.io/pytorch/pytorch:2.10.0-cuda13.0-cudnn9-runtime@sha256:{'0' * 64}",
        "gpu": "NVIDIA L4",
        "minComputeCapability": "8.9",
    }

    verdict: pulumi.Output[str]
    """Verdict of the check: pass. If the check fails, there is an error and no output."""
    job_name: pulumi.Output[str]
    """Name of the Job, whose log contains the report."""
    proven_nodes: pulumi.Output[int]
    """Number of nodes that passed. To list them, run kubectl get pods --selector gpu-ci-pool=<pool> --output wide."""

    def __init__(self, name: str, args: SmokeJobArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        archive = kubernetes.core.v1.ConfigMap(
            f"{name}-check",
            # Pulumi generates the name, so that a new version of gpu-smoke gets a new ConfigMap and a new Job.
            metadata={"namespace": args.namespace, "labels": {gpu_nodes.POOL_LABEL: args.pool}},
            binary_data={pod.ARCHIVE: smoke_archive()},
            immutable=True,
            opts=self.child(),
        )
        peers = None
        if args.nodes > 1:
            peers = pod.service_of_peers(f"{name}-peers", args.namespace, args.pool, self.child()).metadata.name
        job = kubernetes.batch.v1.Job(
            f"{name}-job",
            metadata={
                "namespace": args.namespace,
                "labels": {gpu_nodes.POOL_LABEL: args.pool},
                # A failed Job stays failed. With this annotation, the next `up` replaces it.
                "annotations": {"pulumi.com/replaceUnready": "true"},
            },
            spec=cast("Any", _job(args, archive.metadata.name, peers)),
            # The Job's deadline is the effective time limit. Pulumi's own timeout restarts at every event, and is
            # longer.
            opts=self.child(
                custom_timeouts=pulumi.CustomTimeouts(create=f"{args.deadline_sec + 300}s"),
                **after_failure(
                    self, f"{name}-job-failed", lambda failed: _failure_warning(args.pool, failed), ("create",)
                ),
            ),
        )
        self.proven_nodes = job.status.apply(lambda status: _passed_nodes(status, args.nodes))
        self.verdict = self.proven_nodes.apply(lambda _: "pass")
        self.job_name = job.metadata.name
        self.register()


def _job(args: SmokeJobArgs, archive: pulumi.Output[str], peers: pulumi.Output[str] | None) -> dict[str, Any]:
    """Return the Job. `peers` is the Service that gives the pods their DNS names, or None for a Job with one pod."""
    return {
        # The Job has one try. podFailurePolicy and backoffLimitPerIndex are not used: Pulumi does not know their
        # reasons for a failure, and would keep waiting (pulumi/pulumi-kubernetes v4.34.0,
        # provider/pkg/await/checker/job).
        "backoffLimit": 0,
        # The time counts from the Job's start and includes pending pods.
        "activeDeadlineSeconds": args.deadline_sec,
        **(pod.settings_of_several_nodes(args.nodes) if peers is not None else {}),
        "template": {
            "metadata": {
                "labels": {gpu_nodes.POOL_LABEL: args.pool},
                "annotations": {
                    "gpu-ci-proves": pulumi.Output.all(*args.rerun_on).apply(_fingerprint),
                    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
                    "karpenter.sh/do-not-disrupt": "true",
                },
            },
            "spec": pod.pod(args, archive, peers),
        },
    }


def _failure_warning(pool: str, failed: pulumi.ErrorHookArgs) -> str:
    """Return the warning about a failed check."""
    namespace = ((failed.new_inputs or {}).get("metadata") or {}).get("namespace")
    return f"{_AFTER_FAILURE.format(pool=pool)}\n  hint: {_HINT.format(namespace=namespace)}"


def _fingerprint(values: list[str]) -> str:
    """Return a short hash of the nodes' configuration for an annotation."""
    return hashlib.sha256("\n".join(values).encode()).hexdigest()[:16]


def _passed_nodes(status: kubernetes.batch.v1.outputs.JobStatus | None, nodes: int) -> int:
    """Return the number of nodes that passed. Raise RunError if the Job has not succeeded."""
    if status is None or status.succeeded != nodes:
        raise pulumi.RunError(
            "the smoke Job has not succeeded, so it does not prove the GPUs\n  hint: run pulumi up --refresh"
        )
    return nodes
