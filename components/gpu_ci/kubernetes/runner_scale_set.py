"""A runner scale set: pods with GPUs that each take one job of GitHub's and are gone."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import pulumi
import pulumi_kubernetes as kubernetes
from pydantic import Field, ValidationInfo, field_validator

from .. import versions
from ..args import Args, In, Whole
from ..component import Component
from ..errors import invalid
from .arc_controller import CHARTS
from .name_types import NamespaceName, Pool
from .scale_set import pod, rules
from .scale_set.args import RunnerChoices
from .scale_set.models import ControllerReference, GithubApp
from .scale_set.rules import ConfigUrl


class RunnerScaleSetArgs(RunnerChoices):
    """Whose jobs a scale set takes, how many at once, and what each of them gets."""

    DECIDED: ClassVar[dict[str, str]] = {
        "githubToken": "a token of a person is that person; the App's id, installation and key stand under app",
        "githubConfigSecret": "the secret is made from app",
        "version": "it is the package's, because the controller must be of the same minor version",
        "nodeSelector": "pods select the nodes of pool",
        "tolerations": "pods with GPUs tolerate the taint of GPU nodes, and no others do",
        "serviceAccountName": "the chart makes one without rights, or with those that container hooks need",
    }
    WIRING: ClassVar[frozenset[str]] = frozenset({"namespace", "controller", "app"})

    github_config_url: ConfigUrl = Field(
        examples=["https://github.com/acme"],
        description="whose jobs it takes: an organization's, repository's or enterprise's",
    )
    runner_group: In[Annotated[str, Field(min_length=1, max_length=100)]] | None = Field(
        default=None,
        validate_default=True,
        description="the group its runners join, which must be there; for organizations and enterprises, whose group "
        "default any repository may use",
    )
    max: Whole = Field(
        ge=1, le=1000, examples=[4], description="how many runners there may be at once, each with a job"
    )
    min_idle: Whole = Field(
        default=0, ge=0, description="how many wait for a job besides those that have one; each holds its GPUs"
    )
    pool: Pool = Field(examples=["l4"], description="the pool of nodes jobs run on, as their label gpu-ci-pool has it")
    namespace: In[NamespaceName] = Field(description="the namespace of its pods, as a GpuNamespace gives it out")
    controller: ControllerReference = Field(description="the controller that looks after it")
    app: GithubApp = Field(description="the GitHub App that registers its runners")

    @field_validator("runner_group")
    @classmethod
    def _runner_group(cls, value: Any, info: ValidationInfo) -> Any:
        url = info.data.get("github_config_url")
        if url is None:
            return value
        if rules.is_repository(url) and value is not None:
            raise invalid("is not for a repository, which has no groups", blind="remove it, or name the organization")
        if not rules.is_repository(url) and value is None:
            raise invalid("is missing", blind="name a group, such as that of github.RunnerGroup")
        return value

    @field_validator("min_idle")
    @classmethod
    def _min_idle(cls, value: int, info: ValidationInfo) -> int:
        if value > info.data.get("max", value):
            raise invalid(f"is more than max, which is {info.data['max']}", blind="lower it, or raise max")
        return value


class RunnerScaleSet(Component):
    """Runners in pods with GPUs, each started for one job that names the set, and gone after it.

    Creates: a secret with the App's key, the Helm release of the scale set with its listener and, where there are hooks
    or jobs have pods of their own, a config map.
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
    """What workflows write as runs-on; known once GitHub can be asked for it."""

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
        self.scale_set_name = release.id.apply(lambda _: called)
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
