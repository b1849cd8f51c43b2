"""A runner scale set: pods with GPUs, each of which runs one GitHub job and ends."""

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
    """Runners in pods with GPUs. Each starts for one job that names the set, and ends with it.

    Creates: a Secret with the App's key; the Helm release of the scale set with its listener; a patch of the runner set
    that waits until GitHub has registered it; and a ConfigMap if there are hooks or jobs run in separate pods.
    Costs: nothing at rest in addition to the listener, on nodes without GPUs; with minIdle, nodes for that many
    runners.
    Does not: start nodes, which an autoscaler does for pending pods, or create the runner group. It rejects personal
    access tokens. The label self-hosted does not match the set, nor does a list of labels in runs-on.
    Replaces on change of: the release for scaleSetName, githubConfigUrl, runnerGroup, scaleSetLabels, namespace, and
    the controller's minor version. The old release is removed first, after running jobs have ended or drainTimeoutSec
    has passed. Jobs queue until the new release exists. To rename a set without a pause, add a second set and move the
    workflows.
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
    """The name for runs-on in workflows, known once GitHub has registered the scale set."""

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
            # Pulumi generates the name, so that a change creates another ConfigMap. Running runners keep the old one.
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
            # Removal waits for the set's finalizers, which wait for its jobs, so that no job loses its runner
            # (EphemeralRunnerSetReconciler.cleanUpEphemeralRunners in actions/actions-runner-controller@9bb16ae).
            timeout=args.drain_timeout_sec,
            values=_values(called, args, secret.metadata.name, mounted),
            # Two releases of one name cannot exist at the same time. Labels are sent only when a set is created
            # (createRunnerScaleSet in the same), and the listener's name depends on group and address
            # (scaleSetListenerName), so a changed set would keep the old ones.
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
                # The name depends on the release, so that another release gets another patch.
                "name": release.id.apply(lambda _: called),
                "namespace": args.namespace,
                # Helm does not wait for custom resources. The controller sets this annotation once GitHub has created
                # the scale set (createRunnerScaleSet in actions/actions-runner-controller@9bb16ae).
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
        # Without this value the chart searches the cluster for the controller, and fails in a preview if there is none.
        "controllerServiceAccount": {
            "name": args.controller.service_account_name,
            "namespace": args.controller.namespace,
        },
        **pod.container_mode(args),
        "listenerTemplate": pod.listener(),
        "template": pod.template(args, mounted),
    }
