"""The gate of a pool of nodes: a Job that proves CUDA on them before anything that depends on it is made."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, ClassVar, cast

import pulumi
import pulumi_kubernetes as kubernetes

from ..args import Args
from ..component import Component
from ..payload import smoke_archive
from . import gpu_nodes
from .failure_hints import after_failure
from .smoke import cluster_events, events, pod
from .smoke import peers as smoke_peers
from .smoke.args import SmokeJobArgs

__all__ = ["SmokeJob", "SmokeJobArgs"]

_AFTER_FAILURE = (
    "{pool}: the check did not pass, so nothing behind it was made or changed: a scale set that was there keeps its "
    "image and settings, and a new one is not there. The nodes are changed already"
)
_HINT = "mend what the error names, or put back what was changed; the next pulumi up asks again"
_NO_EVENTS = "the events of its pods could not be read: {why}; kubectl get events --namespace {namespace} shows them"


class SmokeJob(Component):
    """Nodes of a pool that have proven their GPUs, or an error that says what the check found.

    Creates: a config map with the check, and a Job that runs it on one node with all of that node's GPUs, and beside it
    a container that asked for none and must see none; for several nodes one such pod on each, and a headless Service by
    which these know of each other. None ends before all run, so a node that does not come fails the check, as a GPU
    does that computes wrong. The Job stays when it has ended, so that the next preview knows of it.
    Costs: as many nodes as are proven, where they do not run, for the minutes of the check; with several, until the
    last of them is there and a minute longer.
    Does not: prove nodes beyond that number, nor again those that come later. A node whose GPUs jobs have takes no pod
    of the check before these end.
    Replaces on change of: all but the deadline of Pulumi's own waiting; a Job cannot change, so each difference is a
    new check, and the old one goes when the new one has passed. A check that failed is asked again by the next `up`.
    """

    TYPE: ClassVar[str] = "gpu-ci:kubernetes:SmokeJob"
    ARGS: ClassVar[type[Args]] = SmokeJobArgs
    EXAMPLE: ClassVar[dict[str, Any]] = {
        "pool": "l4",
        "image": f"docker.io/pytorch/pytorch:2.10.0-cuda13.0-cudnn9-runtime@sha256:{'0' * 64}",
        "gpu": "NVIDIA L4",
        "minComputeCapability": "8.9",
    }

    verdict: pulumi.Output[str]
    """pass; where the check does not pass, there is an error and no output."""
    job_name: pulumi.Output[str]
    """The Job that said so, whose log has what it found."""
    proven_nodes: pulumi.Output[int]
    """How many nodes have passed; which, kubectl get pods --selector gpu-ci-pool=<pool> --output wide tells."""

    def __init__(self, name: str, args: SmokeJobArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        archive = kubernetes.core.v1.ConfigMap(
            f"{name}-check",
            # No name of its own: another check is another map, and with it another Job.
            metadata={"namespace": args.namespace, "labels": {gpu_nodes.POOL_LABEL: args.pool}},
            binary_data={pod.ARCHIVE: smoke_archive()},
            immutable=True,
            opts=self.child(),
        )
        peers = None
        if args.nodes > 1:
            peers = smoke_peers.service(f"{name}-peers", args.namespace, args.pool, self.child()).metadata.name
        kubeconfig: list[str] = []
        if args.kubeconfig is not None:
            pulumi.Output.from_input(args.kubeconfig).apply(kubeconfig.append)
        job = kubernetes.batch.v1.Job(
            f"{name}-job",
            metadata={
                "namespace": args.namespace,
                "labels": {gpu_nodes.POOL_LABEL: args.pool},
                # A Job that failed stays failed: the next `up` makes another one.
                "annotations": {"pulumi.com/replaceUnready": "true"},
            },
            spec=cast("Any", _job(args, archive.metadata.name, peers)),
            # Pulumi's own deadline starts anew at every event; the Job's is the one that counts, and comes first.
            opts=self.child(
                custom_timeouts=pulumi.CustomTimeouts(create=f"{args.deadline_sec + 300}s"),
                **after_failure(
                    self, f"{name}-job-failed", lambda failed: _explained(args.pool, failed, kubeconfig), ("create",)
                ),
            ),
        )
        self.proven_nodes = job.status.apply(lambda status: _proven(status, args.nodes))
        self.verdict = self.proven_nodes.apply(lambda _: "pass")
        self.job_name = job.metadata.name
        self.register()


def _job(args: SmokeJobArgs, archive: pulumi.Output[str], peers: pulumi.Output[str] | None) -> dict[str, Any]:
    """The Job, in the API's own words; with `peers`, the Service that names its pods, one of several pods."""
    return {
        # One try. Pulumi waits on where a Job fails by a podFailurePolicy or backoffLimitPerIndex, whose reasons it
        # does not know (pulumi/pulumi-kubernetes v4.34.0, provider/pkg/await/checker/job).
        "backoffLimit": 0,
        # Counted from the Job's start, pending pods too.
        "activeDeadlineSeconds": args.deadline_sec,
        **(smoke_peers.counts(args.nodes) if peers is not None else {}),
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


def _explained(pool: str, failed: pulumi.ErrorHookArgs, kubeconfig: Sequence[str]) -> str:
    """What a failed check means, and why its pods did not run, as far as the cluster's events say."""
    meta = (failed.new_inputs or {}).get("metadata") or {}
    namespace, job = str(meta.get("namespace")), str(meta.get("name"))
    try:
        lines = events.causes(cluster_events.events(kubeconfig[0], namespace), job) if kubeconfig else []
    except cluster_events.UnreadableEventsError as error:
        lines = [_NO_EVENTS.format(why=error, namespace=namespace)]
    return "\n".join([_AFTER_FAILURE.format(pool=pool), *(f"  {line}" for line in lines), f"  hint: {_HINT}"])


def _fingerprint(values: list[str]) -> str:
    """What the nodes are made of, as one short text that fits an annotation whatever it is made from."""
    return hashlib.sha256("\n".join(values).encode()).hexdigest()[:16]


def _proven(status: kubernetes.batch.v1.outputs.JobStatus | None, nodes: int) -> int:
    """A Job that Pulumi waited for has succeeded; what says otherwise was not waited for, and proves nothing."""
    if status is None or status.succeeded != nodes:
        raise pulumi.RunError("the smoke Job has not succeeded, so it proves nothing\n  hint: pulumi up --refresh")
    return nodes
