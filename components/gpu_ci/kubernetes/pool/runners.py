"""The base class of pools on clusters: the check of the nodes, then the runners, and a DaemonSet that pulls images."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

import pulumi

from ... import naming
from ...component import Component
from ..image_pre_pull import ImagePrePull, ImagePrePullArgs
from ..runner_scale_set import RunnerScaleSet, RunnerScaleSetArgs
from ..scale_set import pod as runner_pod
from ..smoke_job import SmokeJob, SmokeJobArgs
from . import rules
from .args import RunnerPoolArgs
from .prover import create_prover


class ClusterRunnerPool(Component):
    """A pool of runners on the nodes of a cluster."""

    FIXED: ClassVar[dict[str, tuple[str, ...]]] = {"prover-settings": ("*",), "prover-check": ("*",)}

    scale_set_name: pulumi.Output[str]
    """The name for runs-on in workflows."""
    verdict: pulumi.Output[str]
    """Verdict of the check: pass."""
    smoke_summary: pulumi.Output[str]
    """The Job that reported the verdict."""
    proven_nodes: pulumi.Output[int]
    """The number of nodes that passed the check."""

    def add_runners(
        self,
        name: str,
        args: RunnerPoolArgs,
        nodes: pulumi.Resource,
        *,
        rerun_on: Sequence[pulumi.Input[str]],
        node_labels: Mapping[str, pulumi.Input[str]] = MappingProxyType({}),
        transformations: Sequence[pulumi.ResourceTransformation] = (),
    ) -> None:
        """Create the check of the nodes, and the runners, which are created or changed only after the check has passed.

        Args:
            name: The name of the pool.
            args: The arguments of the pool.
            nodes: The resource of the nodes, which the check waits for.
            rerun_on: The identifiers of the nodes' configuration. After a change, the check runs again.
            node_labels: The labels that only these nodes have. During a replacement, the old nodes have the labels of
                the pool, too.
            transformations: Transformations of the check, such as a hook that explains its failure.
        """
        machine, runner = args.node.machine, args.runner
        of_one_node = SmokeJobArgs(
            namespace=args.namespace,
            pool=name,
            image=args.smoke.image or runner.image,
            image_pull_secrets=runner.image_pull_secrets,
            # The runner image installs packages for its own user. The user of another image is unknown.
            run_as_user=None if args.smoke.image else runner_pod.RUNNER_UID,
            gpus=math.ceil(machine.gpu_count),
            # No source documents the device name of a fraction of a GPU.
            gpu=machine.gpu.device_name if machine.gpu_count >= 1 else "",
            min_compute_capability=machine.gpu.compute_capability,
            deadline_sec=args.smoke.deadline_sec,
            environment=dict(args.pod_environment),
            tolerations=list(args.pod_tolerations),
        )
        smoke = SmokeJob(
            naming.of_part(name, "smoke"),
            SmokeJobArgs(
                **{
                    **dict(of_one_node),
                    "nodes": args.smoke.nodes,
                    "namespace_gpus": args.namespace_gpus,
                    "closed_to_cluster": args.closed_to_cluster,
                    "node_labels": dict(node_labels),
                    "rerun_on": list(rerun_on),
                }
            ),
            self.child(depends_on=[nodes], transformations=list(transformations)),
        )
        if args.pre_pull is not None:
            # The nodes pull a changed image while the check of that image runs. So this does not depend on the check.
            ImagePrePull(
                naming.of_part(name, "pre-pull"),
                ImagePrePullArgs(
                    namespace=args.namespace,
                    pool=name,
                    images=rules.pre_pulled_images(runner, args.pre_pull.images),
                    image_pull_secrets=runner.image_pull_secrets,
                    tolerations=list(args.pod_tolerations),
                    pause_image=args.pre_pull.pause_image,
                ),
                self.child(),
            )
        if args.prove_nodes is not None:
            create_prover(self, name, args.prove_nodes, of_one_node, args.controller.namespace, smoke)
        runners = RunnerScaleSet(
            naming.of_part(name, "runners"),
            RunnerScaleSetArgs(
                **{**dict(runner), "scale_set_name": runner.scale_set_name or name},
                github_config_url=args.github_config_url,
                runner_group=args.runner_group,
                max=args.max_runners,
                min_idle=args.min_idle,
                pool=name,
                queue=args.queue,
                environment=dict(args.pod_environment),
                tolerations=list(args.pod_tolerations),
                namespace=args.namespace,
                controller=args.controller,
                app=args.app,
            ),
            self.child(depends_on=[smoke]),
        )
        self.scale_set_name = runners.scale_set_name
        self.verdict = smoke.verdict
        self.proven_nodes = smoke.proven_nodes
        self.smoke_summary = pulumi.Output.all(args.namespace, smoke.job_name, smoke.proven_nodes).apply(
            lambda values: (
                f"{name}: the check passed on {'1 node' if values[2] == 1 else f'{values[2]} nodes'}; its report is in "
                f"the log of the Job {values[0]}/{values[1]}"
            )
        )
