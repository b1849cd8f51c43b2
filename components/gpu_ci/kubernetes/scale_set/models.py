"""Parts of a runner scale set's arguments that are models of their own: how it runs jobs, as whom, and under whom."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from ...args import Args, In, InSecret, Whole
from ..name_types import Name, NamespaceName
from .rules import AppId, ControllerVersion, InstallationId, PrivateKey

_PREPARE = "how long a job waits for its pod, the node's start included, 60 to 86400 seconds"
# The hooks' own limit is ten minutes (actions/runner-container-hooks@cf62bcc: packages/k8s/src/k8s/index.ts), less than
# a GPU node may take to start and pull.
PrepareTimeout = Annotated[Whole, Field(ge=60, le=86400)]


class OwnImage(Args):
    """The job runs in the runner's own container, which has the GPUs."""

    kind: Literal["none"] = Field(description="the job runs in the runner's container, which has the GPUs")


class KubernetesNovolume(Args):
    """Each job runs in a pod of its own with the GPUs; its files are copied there by the runner, which has none."""

    kind: Literal["kubernetes-novolume"] = Field(
        description="each job runs in a pod of its own with the GPUs, and needs container: in its workflow; its files "
        "are copied there"
    )
    prepare_timeout_sec: PrepareTimeout = Field(default=1800, description=_PREPARE)


class KubernetesVolume(Args):
    """Each job runs in a pod of its own with the GPUs, on the runner's node, with which it shares a volume."""

    kind: Literal["kubernetes"] = Field(
        description="each job runs in a pod of its own with the GPUs, and needs container: in its workflow; it shares "
        "a volume with its runner"
    )
    storage_class: Name = Field(examples=["gp3"], description="storage class of the volume, such as gp3")
    work_gib: Whole = Field(ge=1, le=16384, examples=[100], description="size of the volume in GiB, 1 to 16384")
    prepare_timeout_sec: PrepareTimeout = Field(default=1800, description=_PREPARE)


class Dind(Args):
    """Jobs have a Docker daemon beside them; it is privileged, so that it could take any GPU of the node."""

    kind: Literal["dind"] = Field(
        description="jobs have a Docker daemon beside them, whose containers have no GPU; for runners that have all of "
        "a node's GPUs alone, as the daemon is privileged and sees every one"
    )
    node_gpus: Whole = Field(ge=1, examples=[1], description="how many GPUs a node of the pool has")


ContainerMode: TypeAlias = Annotated[
    OwnImage | KubernetesNovolume | KubernetesVolume | Dind, Field(discriminator="kind")
]


class GithubApp(Args):
    """The GitHub App that registers the runners."""

    id: InSecret[AppId] = Field(description="the App's id or client id, as a secret Output")
    installation_id: InSecret[InstallationId] = Field(description="the id of its installation, as a secret Output")
    private_key: InSecret[PrivateKey] = Field(description="its private key in PEM form, as a secret Output")


class ControllerReference(Args):
    """The controller that looks after the set: three outputs of an ArcController."""

    service_account_name: In[Name] = Field(description="what it runs as")
    namespace: In[NamespaceName] = Field(description="the namespace it runs in")
    version: In[ControllerVersion] = Field(description="the version of its chart, of the same minor as the set's")
