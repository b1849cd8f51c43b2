"""The fields of a runner pool that do not depend on the cloud of its nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, cast

from pydantic import Field, ValidationInfo, field_validator

from ... import versions
from ...args import Args, Input, Integer, MayBeOpen, StrictBool
from ...pool_args import PoolArgs, Surroundings
from ...validation_errors import join
from ..kueue_labels import QueueName
from ..name_types import EachOnce, Image, NamespaceName, Toleration
from ..scale_set.args import ControllerReference, GithubApp, RunnerChoices
from ..scale_set.rules import ConfigUrl
from . import rules
from .rules import Node


class JobSmokeSettings(Args):
    """Settings of the smoke check that must pass before runners start on the pool's nodes."""

    deadline_sec: Integer = Field(
        default=1800,
        ge=600,
        le=7200,
        description="seconds from the check's start to its end, 600 to 7200, including the start of a node and the "
        "pull of the image; with several nodes, the first node waits for the last one at most half of that time",
    )
    nodes: Integer = Field(
        default=1,
        ge=1,
        le=100,
        description="the number of nodes to check, all at the same time; all of them cost; max checks the whole pool",
    )
    image: Image | None = Field(
        default=None,
        description="the container image with Python and torch for the check, by its digest, which runs as user "
        "1000; by default the runner's image as its user 1001, which must then contain both",
    )


class PrePull(Args):
    """Images that every node of the pool pulls before a job needs them. The runner's image is always one of them."""

    images: Annotated[list[Image], EachOnce] = Field(
        default=[],
        max_length=19,
        description="more images by their digests, at most 19, such as the images of container: in workflows; a node "
        "pulls them after the runner's image, in this order. Each image must contain the command true",
    )
    pause_image: Image = Field(
        default=versions.PAUSE_IMAGE,
        description="the image of the container that keeps the pod running, for clusters that cannot reach "
        "registry.k8s.io",
    )


class ProveNodes(Args):
    """A check of each node before it takes jobs. Each new node has a taint, which only a passed check removes."""

    repeat_after_hours: Integer | None = Field(
        default=None,
        ge=1,
        le=8760,
        examples=[24],
        description="hours after which one idle node at a time is checked again, 1 to 8760; after twice the time, "
        "a busy node takes no more jobs until its check; by default only after a restart or fault",
    )
    image: Image = Field(
        default=f"docker.io/library/{versions.PYTHON_IMAGE}",
        description="an image with Python 3.11 or newer, for the program that starts the checks",
    )


class RunnerPoolArgs(PoolArgs):
    """The software on the nodes of a pool: the runners, their smoke check, and images that nodes pull early.

    The arguments of a kind of pool derive from this class first, and then from the arguments of its nodes. Pydantic
    then reads the fields of the nodes before these fields, whose rules depend on them.
    """

    REGISTERED_BY: ClassVar[Literal["cluster"]] = "cluster"
    # The cluster of a pool is a field of the stack file, so it is not wiring.
    WIRING: ClassVar[frozenset[str]] = frozenset(
        {
            "namespace",
            "namespace_gpus",
            "closed_to_cluster",
            "controller",
            "app",
            "github_config_url",
            "runner_group",
        }
    )

    if TYPE_CHECKING:
        max: Integer
        """The maximum number of nodes. The arguments of the nodes define this and the next field."""
        cluster_name: Any

    runner: RunnerChoices = Field(description="the runner's image, its resources, and how jobs run")
    min_idle: Integer = Field(
        default=0,
        ge=0,
        description="the number of runners that wait for a job in addition to busy ones; each holds its GPUs, and "
        "its node costs",
    )
    queue: QueueName | None = Field(
        default=None,
        examples=["vision"],
        description="the queue of Kueue whose quota the runners use; required on a cluster with kueue",
    )
    smoke: JobSmokeSettings = Field(
        default=JobSmokeSettings(), description="the check that must pass before runners start on the pool's nodes"
    )

    prove_nodes: ProveNodes | None = Field(
        default=None,
        examples=[{}],
        description="keeps jobs away from each node until it has passed a check; {} for the defaults; by default, only "
        "smoke.nodes nodes are checked",
    )
    pre_pull: PrePull | None = Field(
        default=None,
        examples=[{}],
        description="pulls images on every node when it starts and when an image changes, for the next jobs on the "
        "node; {} for the runner's image only. By default a node pulls an image for the first job that needs it",
    )

    namespace: Input[NamespaceName] = Field(description="the namespace of the pods, from the output of a GpuNamespace")
    namespace_gpus: Integer | None = Field(default=None, ge=1, description="the GPU quota of the namespace, if known")
    closed_to_cluster: StrictBool = Field(
        default=False,
        description="whether the namespace's network policies block the cluster's API server; the check then fails "
        "if the cluster does not enforce them",
    )
    controller: ControllerReference = Field(description="the controller of the scale set")
    app: GithubApp = Field(description="the GitHub App that registers the runners")
    github_config_url: Annotated[ConfigUrl, MayBeOpen] = Field(
        description="the GitHub URL whose jobs the runners take, such as https://github.com/acme"
    )
    runner_group: Input[Annotated[str, Field(min_length=1, max_length=100)]] | None = Field(
        default=None, description="the runner group, for an organization or an enterprise"
    )

    @field_validator("runner")
    @classmethod
    def _runner(cls, value: RunnerChoices, info: ValidationInfo) -> RunnerChoices:
        return rules.runner(value, cls.node_of(info.data), info.data)

    @field_validator("min_idle")
    @classmethod
    def _min_idle(cls, value: int, info: ValidationInfo) -> int:
        return rules.min_idle(value, cls.node_of(info.data), info.data)

    @field_validator("smoke")
    @classmethod
    def _smoke(cls, value: JobSmokeSettings, info: ValidationInfo) -> JobSmokeSettings:
        rules.nodes_of_check(value.nodes, info.data)
        return value

    @field_validator("pre_pull")
    @classmethod
    def _pre_pull(cls, value: PrePull | None, info: ValidationInfo) -> PrePull | None:
        if value is not None:
            rules.images_to_pull(value.images, info.data)
        return value

    @classmethod
    def node_of(cls, fields: Mapping[str, Any]) -> Node | None:
        """Return the smallest node of a pool with these fields. Return None if its machine is invalid.

        Invalid fields are missing.
        """
        raise NotImplementedError

    def runner_labels_of(self, name: str) -> list[str]:
        """Return the name of the scale set, which is the only label of its runners."""
        return [self.runner.scale_set_name or name]

    def warnings(self, path: str, around: Surroundings) -> Iterator[str]:
        yield from super().warnings(path, around)
        yield from rules.idle_gpus(path, self.node, self.runner)
        cluster = str(self.cluster_name)
        # GitHub's container hooks also require the rights to read Secrets, and refuse each job without them
        # (actions/runner-container-hooks: packages/k8s/src/k8s/index.ts, requiredPermissions).
        if self.runner.jobs_in_pods:
            yield (
                f"{path}.runner.containerMode: a job that gets the token of its runner can read every Secret of the "
                "pool's namespace, also the key of the GitHub App, and run commands in the pool's other runners; hint: "
                "containerMode: {kind: none}, or trust every workflow that the runner group lets in "
                "(docs/guides/kubernetes.md#jobs-in-pods-of-their-own)"
            )
            if cluster in around.closed_clusters:
                yield (
                    f"{path}.runner.containerMode: network policies block private addresses, so jobs fail unless the "
                    "API server has a public one; hint: list its addresses under "
                    f"{join('gpu-ci:clusters', cluster)}.privateRanges (docs/guides/kubernetes.md#where-jobs-run)"
                )
        # The stack creates the namespace. At the first `up`, another tool cannot create the Secrets before the check
        # pulls its image.
        for secret in self.runner.image_pull_secrets:
            if secret not in around.logins.get(cluster, ()):
                yield (
                    f"{path}.runner.imagePullSecrets: the stack does not create the Secret {secret}, and nodes cannot "
                    "pull private images without it; hint: describe its login under "
                    f"{join('gpu-ci:clusters', cluster)}.imagePullSecrets, or create it in the namespace within "
                    "smoke.deadlineSec"
                )

    @property
    def node(self) -> Node:
        """The smallest node of the pool."""
        return cast("Node", self.node_of(dict(self)))  # the machine of valid arguments is valid

    @property
    def pod_environment(self) -> Mapping[str, str]:
        """The environment variables that containers with GPUs need on nodes of the pool."""
        return {}

    @property
    def pod_tolerations(self) -> Sequence[Toleration]:
        """The tolerations of taints that nodes of the pool have in addition to the taint of GPU nodes."""
        return ()

    @property
    def max_runners(self) -> int:
        """The maximum number of runners on all nodes."""
        return self.max * self.node.runners(self.runner)

    @property
    def max_gpus(self) -> int:
        """The maximum number of GPUs that pods request: runners of all nodes of the pool, and checks of its nodes.

        While a check runs on each new node, the runners for these nodes wait.
        """
        checked = self.smoke.nodes + (self.max if self.prove_nodes else 0)
        return (self.max + checked) * self.node.devices

    def fields_of(self, model: type[Args]) -> dict[str, Any]:
        """Return the values of the fields of `model`, all of which these arguments have.

        The pool itself applies `transform`, also to the resources of its parts.
        """
        return {name: getattr(self, name) for name in model.model_fields if name != "transform"}
