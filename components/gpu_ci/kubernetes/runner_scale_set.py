"""The component RunnerScaleSet: a runner scale set of GitHub's Actions Runner Controller (ARC).

The Helm chart gha-runner-scale-set creates an AutoscalingRunnerSet. The controller (arc_controller.py) registers the
set at GitHub, and starts its listener. The listener is a pod that gets jobs from GitHub. For each job, the controller
then starts a runner: a pod with GPUs that runs the job and ends.
"""

from __future__ import annotations

from typing import Any, ClassVar

import pulumi
import pulumi_kubernetes as kubernetes

from .. import versions
from ..args import Args
from ..monitoring.kubernetes import listener_metrics
from .arc_controller import CHARTS
from .helm import HelmComponent
from .scale_set import pod, rules
from .scale_set.args import ControllerReference, GithubApp, RunnerScaleSetArgs

__all__ = ["ControllerReference", "GithubApp", "RunnerScaleSet", "RunnerScaleSetArgs"]


_CHART = "gha-runner-scale-set"
_REGISTER_SEC = 180
"""The maximum time for the controller to register the set at GitHub."""


class RunnerScaleSet(HelmComponent):
    """Runners in pods with GPUs. A runner starts for one job that names the set in runs-on, and ends with the job.

    Creates: a Secret with the App's key, and the Helm release of the scale set with its listener. A patch that waits
    until the set is registered at GitHub. A ConfigMap, if there are hooks or jobs run in separate pods.
    Costs: without jobs, only the listener, which runs on a node without GPUs. With minIdle, also the nodes of the idle
    runners.
    Does not: start nodes or create the runner group. An autoscaler starts nodes for pending pods. Personal access
    tokens are rejected. A job with the label self-hosted or with a list of labels in runs-on does not get these
    runners.
    Replaces on change of: the release for scaleSetName, githubConfigUrl, runnerGroup, scaleSetLabels, namespace, and
    the controller's minor version. The old release is removed first, after running jobs have ended or drainTimeoutSec
    has passed. Jobs queue until the new release exists. To rename a set without a pause, add a second set and move the
    workflows.
    """

    TYPE: ClassVar[str] = "gpu-ci:kubernetes:RunnerScaleSet"
    ARGS: ClassVar[type[Args]] = RunnerScaleSetArgs
    FIXED: ClassVar[dict[str, tuple[str, ...]]] = {
        "release": ("values.template.spec.nodeSelector",),
        "files": ("data",),  # the pods of jobs
    }
    EXAMPLE: ClassVar[dict[str, Any]] = {
        "githubConfigUrl": "https://github.com/acme",
        "runnerGroup": "gpu",
        "max": 4,
        "pool": "l4",
        "image": f"ghcr.io/acme/cuda-runner:2.336.0@sha256:{'a1' * 32}",
        "jobStartedHook": "#!/usr/bin/env bash\nnvidia-smi\n",
    }

    scale_set_name: pulumi.Output[str]
    """The name for runs-on in workflows. The output waits until GitHub has registered the scale set."""

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
        files_name = None
        if files := pod.files(args):
            # Pulumi generates the name, so that a change creates another ConfigMap. Busy runners keep the old
            # ConfigMap.
            files_name = kubernetes.core.v1.ConfigMap(
                f"{name}-files", metadata={"namespace": args.namespace}, data=files, opts=self.child()
            ).metadata.name
        set_name = args.scale_set_name or name
        release = self.install(
            f"{CHARTS}/{_CHART}",
            versions.ARC_CHARTS,
            args.namespace,
            _values(set_name, args, secret.metadata.name, files_name),
            digest=versions.ARC_CHART_DIGESTS[_CHART],
            release_name=set_name,
            # When Helm removes the release, it waits until the running jobs have ended, because the finalizers of the
            # set wait for them (EphemeralRunnerSetReconciler.cleanUpEphemeralRunners in
            # actions/actions-runner-controller@9bb16ae).
            timeout=args.drain_timeout_sec,
            # A change of these values replaces the release, because the controller does not apply all of them to an
            # existing set. For example, it sends labels to GitHub only for a new set (createRunnerScaleSet, in the same
            # repository).
            options={
                "replacement_trigger": [
                    args.github_config_url,
                    args.runner_group or "",
                    args.scale_set_labels,
                    pulumi.Output.from_input(args.controller.version).apply(rules.minor),
                ]
            },
        )
        registered = kubernetes.apiextensions.CustomResourcePatch(
            f"{name}-registered",
            api_version="actions.github.com/v1alpha1",
            kind="AutoscalingRunnerSet",
            metadata={
                # The name depends on an output of the release, so that a new release gets a new patch.
                "name": release.id.apply(lambda _: set_name),
                "namespace": args.namespace,
                # Helm does not wait for custom resources, so this patch waits. The controller sets the annotation after
                # GitHub has created the scale set (createRunnerScaleSet in actions/actions-runner-controller@9bb16ae).
                "annotations": {"pulumi.com/waitFor": 'jsonpath={.metadata.annotations["runner-scale-set-id"]}'},
            },
            opts=self.child(
                custom_timeouts=pulumi.CustomTimeouts(create=f"{_REGISTER_SEC}s", update=f"{_REGISTER_SEC}s"),
            ),
        )
        self.scale_set_name = registered.id.apply(lambda _: set_name)
        self.register()


def _values(
    set_name: str, args: RunnerScaleSetArgs, secret_name: pulumi.Output[str], files_name: pulumi.Output[str] | None
) -> dict[str, Any]:
    """Return the values of the chart."""
    return {
        "githubConfigUrl": args.github_config_url,
        "githubConfigSecret": secret_name,
        **({"runnerGroup": args.runner_group} if args.runner_group is not None else {}),
        "runnerScaleSetName": set_name,
        **({"scaleSetLabels": args.scale_set_labels} if args.scale_set_labels else {}),
        "maxRunners": args.max,
        "minRunners": args.min_idle,
        # Without this value, the chart searches the cluster for the controller. In a preview before the first
        # deployment, there is no controller, and the search would fail.
        "controllerServiceAccount": {
            "name": args.controller.service_account_name,
            "namespace": args.controller.namespace,
        },
        **pod.container_mode(args),
        "listenerTemplate": pod.listener(),
        "listenerMetrics": listener_metrics(),
        "template": pod.template(args, files_name),
    }
