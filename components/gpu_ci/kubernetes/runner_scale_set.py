"""A runner scale set: pods with GPUs that each take one job of GitHub's and are gone."""

from __future__ import annotations

from typing import Any, ClassVar

import pulumi
import pulumi_kubernetes as kubernetes

from .. import versions
from ..args import Args
from ..component import Component
from .arc_controller import CHARTS
from .scale_set import pod, rules
from .scale_set.args import ControllerReference, GithubApp, RunnerScaleSetArgs

__all__ = ["ControllerReference", "GithubApp", "RunnerScaleSet", "RunnerScaleSetArgs"]


_REGISTER_SEC = 180


class RunnerScaleSet(Component):
    """Runners in pods with GPUs, each started for one job that names the set, and gone after it.

    Creates: a secret with the App's key, the Helm release of the scale set with its listener, a patch of the runner set
    that waits until GitHub has registered it and, where there are hooks or jobs have pods of their own, a config map.
    Costs: nothing at rest beyond the listener, on nodes without GPUs; with minIdle, nodes for that many runners.
    Does not: start nodes, which an autoscaler does for the pods it sees waiting, or make the runner group. It refuses
    tokens of persons. The label self-hosted does not lead to it, and a list of labels in runs-on matches none of it.
    Replaces on change of: the release for scaleSetName, githubConfigUrl, runnerGroup, scaleSetLabels, namespace, and
    the controller's minor version. It is removed first, which waits for running jobs up to drainTimeoutSec, and made
    anew; jobs queue meanwhile. To rename a set without a pause, add a second one and move the workflows.
    """

    TYPE: ClassVar[str] = "gpu-ci:kubernetes:RunnerScaleSet"
    ARGS: ClassVar[type[Args]] = RunnerScaleSetArgs
    EXAMPLE: ClassVar[dict[str, Any]] = {
        "githubConfigUrl": "https://github.com/acme",
        "runnerGroup": "gpu",
        "max": 4,
        "pool": "l4",
        "image": f"ghcr.io/acme/cuda-runner:2.336.0@sha256:{'a1' * 32}",
        "jobStartedHook": "#!/usr/bin/env bash\nnvidia-smi\n",
    }

    scale_set_name: pulumi.Output[str]
    """What workflows write as runs-on; known once GitHub has registered the scale set."""

    def __init__(self, name: str, args: RunnerScaleSetArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        secret = kubernetes.core.v1.Secret(
            f"{name}-app",
            metadata={"namespace": args.namespace},
            string_data={
                "github_app_id": args.app.id,
                "github_app_installation_id": args.app.installation_id,
                "github_app_private_key": args.app.private_key,
            },
            opts=self.child(),
        )
        mounted = None
        if found := pod.files(args):
            # It has no name of its own, so that a changed one is another: runners that run keep theirs.
            mounted = kubernetes.core.v1.ConfigMap(
                f"{name}-files", metadata={"namespace": args.namespace}, data=found, opts=self.child()
            ).metadata.name
        called = args.scale_set_name or name
        release = kubernetes.helm.v3.Release(
            f"{name}-release",
            name=called,
            namespace=args.namespace,
            chart=f"{CHARTS}/gha-runner-scale-set",
            version=versions.ARC_CHARTS,
            # The removal waits for the set's finalizers, and these for its jobs: neither takes a job's runner away
            # (EphemeralRunnerSetReconciler.cleanUpEphemeralRunners in actions/actions-runner-controller@9bb16ae).
            timeout=args.drain_timeout_sec,
            values=_values(called, args, secret.metadata.name, mounted),
            # Two releases of one name cannot be at once. Labels are sent when a set is made and never again
            # (createRunnerScaleSet in the same), and its listener is named after group and address
            # (scaleSetListenerName): a changed set would keep the old ones.
            opts=self.child(
                delete_before_replace=True,
                replacement_trigger=[
                    args.github_config_url,
                    args.runner_group or "",
                    args.scale_set_labels,
                    pulumi.Output.from_input(args.controller.version).apply(rules.minor),
                ],
            ),
        )
        registered = kubernetes.apiextensions.CustomResourcePatch(
            f"{name}-registered",
            api_version="actions.github.com/v1alpha1",
            kind="AutoscalingRunnerSet",
            metadata={
                # From the release, so that another release has a patch of its own.
                "name": release.id.apply(lambda _: called),
                "namespace": args.namespace,
                # Helm waits for no custom resource. The controller sets this once GitHub has made the scale set
                # (createRunnerScaleSet in actions/actions-runner-controller@9bb16ae).
                "annotations": {"pulumi.com/waitFor": 'jsonpath={.metadata.annotations["runner-scale-set-id"]}'},
            },
            opts=self.child(
                custom_timeouts=pulumi.CustomTimeouts(create=f"{_REGISTER_SEC}s", update=f"{_REGISTER_SEC}s"),
            ),
        )
        self.scale_set_name = registered.id.apply(lambda _: called)
        self.register()


def _values(
    called: str, args: RunnerScaleSetArgs, secret: pulumi.Output[str], mounted: pulumi.Output[str] | None
) -> dict[str, Any]:
    return {
        "githubConfigUrl": args.github_config_url,
        "githubConfigSecret": secret,
        **({"runnerGroup": args.runner_group} if args.runner_group is not None else {}),
        "runnerScaleSetName": called,
        **({"scaleSetLabels": args.scale_set_labels} if args.scale_set_labels else {}),
        "maxRunners": args.max,
        "minRunners": args.min_idle,
        # Left out, the chart looks for the controller in the cluster, and fails in a preview before there is one.
        "controllerServiceAccount": {
            "name": args.controller.service_account_name,
            "namespace": args.controller.namespace,
        },
        **pod.container_mode(args),
        "listenerTemplate": pod.listener(),
        "template": pod.template(args, mounted),
    }
