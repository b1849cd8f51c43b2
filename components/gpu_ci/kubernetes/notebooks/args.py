"""The arguments of a notebook pipeline: what a team writes in a stack file, and what its pool provides."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import InitErrorDetails

from ...args import Args, ComponentArgs, Input, Integer, SecretInput
from ...errors import at_path, invalid, raise_problems
from .. import gpu_nodes
from ..gpu_namespace import CachedDns, DnsAddress, ImagePullSecret, PrivateRange
from ..name_types import (
    EachOnce,
    Environment,
    GpuResource,
    Image,
    Name,
    NamespaceName,
    PullSecrets,
    Tolerations,
)


def _short(value: str) -> str:
    """Return a branch. GitHub's payload has refs/heads/BRANCH, to which the filter adds the first part."""
    if value.startswith("refs/"):
        raise invalid("is a ref, so no push would start a run", "wrong-form", safe_hint="such as branches: [main]")
    return value


def _each_repository_once(values: list[str]) -> list[str]:
    """Return the repositories. GitHub's names are the same in upper and lower case."""
    lower = [each.lower() for each in values]
    error = invalid("is a duplicate", "duplicate", safe_hint="remove it")
    raise_problems([at_path(error, value, at) for at, value in enumerate(values) if value.lower() in lower[:at]])
    return values


Repository = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,100}$")]
Host = Annotated[str, Field(pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?\.)+[a-z]{2,}$", max_length=253)]
Branch = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,200}$"), AfterValidator(_short)]

CLAIM_PATH = "/storage"
"""The folder at which a task mounts the claim."""
FINALLY_MIN = 10
"""The limit of `publish`."""
START_MIN = 10
"""What an execution may need besides its notebook: to pull the image, and to transfer files."""
# The default classes of GKE, EKS and small clusters whose disks one node mounts at a time
# (docs.cloud.google.com/kubernetes-engine/docs/concepts/storage-overview, docs.aws.amazon.com/eks/latest/userguide/
# create-storage-class.html, docs.k3s.io/storage).
_ONE_NODE = {"standard", "standard-rwo", "premium-rwo", "gp2", "gp3", "auto-ebs-sc", "local-path", "hostpath"}


def _inside(value: str) -> str:
    """Return a path or pattern. It must not leave the folder of the repository."""
    if value.startswith("/") or ".." in value.split("/"):
        raise invalid(
            "leaves the folder of the repository", "path-outside", safe_hint="a path from the root of the repository"
        )
    return value


PathInside = Annotated[str, Field(min_length=1), AfterValidator(_inside)]


def _many_nodes(value: str) -> str:
    if value in _ONE_NODE:
        raise invalid(
            "has disks that only one node can mount, and tasks of a run are on several nodes",
            "one-node-volume",
            hint="a class with ReadWriteMany, such as standard-rwx or efs, or storage: {kind: bucket, …}",
        )
    return value


Minutes = Annotated[Integer, Field(ge=1, le=10080)]


class Tests(Args):
    """The tests of the notebooks' results: a folder of the pushed repository, or of another one at a revision."""

    path: PathInside = Field(
        default="tests", description="the folder with the tests that pytest runs", examples=["tests"]
    )
    repository: Repository | None = Field(
        default=None,
        description="the repository of the same owner with the tests; by default the pushed repository",
        examples=["kernels-tests"],
    )
    revision: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,200}$")] | None = Field(
        default=None, description="the tag or commit of `repository`", examples=["v1.4.0"]
    )

    @model_validator(mode="after")
    def _together(self) -> Self:
        fields = {"repository": self.repository, "revision": self.revision}
        if len(missing := [name for name, value in fields.items() if value is None]) == 1:
            [other] = fields.keys() - missing
            error = invalid(
                f"is missing, and {other} has no effect without it",
                "missing",
                expected="both fields, or neither for tests in the pushed repository",
                safe_hint="such as revision: v1.4.0"
                if missing == ["revision"]
                else "such as repository: kernels-tests",
            )
            raise_problems([at_path(error, None, *missing)])
        return self


class Timeouts(Args):
    """The limits of a run, in minutes. Time in the queue is not time of a notebook."""

    notebook_min: Minutes = Field(default=60, description="the limit of one notebook, without its wait for a GPU")
    queue_min: Minutes = Field(default=30, description="the longest wait of a notebook for a node with a free GPU")
    pipeline_min: Minutes = Field(default=120, description="the limit of a whole run, with every wait")


class Bucket(Args):
    """A bucket for sources, results and reports."""

    kind: Literal["bucket"] = Field(default="bucket", description="an object storage")
    url: Annotated[str, Field(pattern=r"^(gs|s3)://[a-z0-9][a-z0-9._-]{1,61}[a-z0-9](/[A-Za-z0-9._/-]+)?$")] = Field(
        description="the bucket and a folder of it: gs://BUCKET/FOLDER or s3://BUCKET/FOLDER",
        examples=["gs://acme-notebooks/ci"],
    )


class Claim(Args):
    """A volume that many nodes mount, such as Filestore or EFS."""

    kind: Literal["claim"] = Field(description="a volume of the cluster")
    storage_class: Annotated[Name, AfterValidator(_many_nodes)] = Field(
        description="a storage class with the access mode ReadWriteMany", examples=["standard-rwx"]
    )
    size_gib: Integer = Field(default=1024, ge=1, le=65536, description="the size of the volume in GiB")


class Ingress(Args):
    """A webhook address by an Ingress of the cluster."""

    kind: Literal["ingress"] = Field(description="the way by an Ingress")
    host: Host = Field(
        description="the host of the address, which must resolve to the Ingress", examples=["n.acme.dev"]
    )
    ingress_class_name: Name = Field(description="the IngressClass, such as gce, alb or nginx", examples=["nginx"])
    tls_secret: Name | None = Field(
        default=None, description="the Secret with the certificate; by default that of the IngressClass"
    )


class Gateway(Args):
    """A webhook address by a Gateway that the cluster has."""

    kind: Literal["gateway"] = Field(description="the way by a Gateway")
    host: Host = Field(
        description="the host of the address, which must resolve to the Gateway", examples=["n.acme.dev"]
    )
    gateway: Name = Field(description="the name of the Gateway", examples=["external"])
    gateway_namespace: NamespaceName = Field(description="the namespace of the Gateway", examples=["gateways"])


class GithubAccess(Args):
    """A GitHub App that reads the repositories and writes commit statuses, with its private key."""

    id: str = Field(description="the ID of the App", examples=["123456"])
    installation_id: str = Field(description="the ID of its installation in the organization", examples=["7890123"])
    private_key: SecretInput[Annotated[str, Field(min_length=1)]] = Field(
        description="the private key of the App, in PEM"
    )


class Ends(Args):
    """The ends of runs that are reported."""

    on: Annotated[list[Literal["failure", "recovery", "success"]], EachOnce] = Field(
        default=["failure", "recovery"],
        min_length=1,
        description="the ends that are reported: failure, recovery (the first good run after a failure), success",
    )


class Notify(Ends):
    """Notifications of ended runs."""

    url: SecretInput[Annotated[str, Field(min_length=1)]] = Field(
        description="the address of the receiver in the form of Apprise, such as slack://… or mailgun://…, "
        "which must use port 443"
    )


class NotebookChoices(ComponentArgs):
    """What a user chooses for a notebook pipeline."""

    image: Image = Field(
        description="the image of every task, with the team's libraries: images/notebook, or an image built from it",
        examples=[f"ghcr.io/acme/notebook:1@sha256:{'a1' * 32}"],
    )
    repositories: Annotated[list[Repository], AfterValidator(_each_repository_once)] = Field(
        min_length=1, description="the repositories whose pushes start a run, without the owner", examples=[["kernels"]]
    )
    branches: Annotated[list[Branch], EachOnce] = Field(
        default=[],
        examples=[["main"]],
        description="the branches whose pushes start a run; by default the default branch",
    )
    notebooks: Annotated[list[PathInside], EachOnce] = Field(
        default=["notebooks/**/*.ipynb"],
        min_length=1,
        description="patterns of the notebooks' paths in a repository; a run without a notebook fails",
    )
    tests: Tests = Field(default=Tests(), description="the tests of the results; a run without a test fails")
    gpus: Integer = Field(default=1, ge=1, le=16, description="the GPUs of one notebook")
    cpus: Integer = Field(default=2, ge=1, le=384, description="the CPUs that one notebook requests")
    memory_gib: Integer = Field(default=8, ge=1, le=4096, description="the memory of one notebook in GiB")
    max_gpus: Integer | None = Field(
        default=None,
        ge=1,
        examples=[4],
        description="the GPUs of all running notebooks together; by default those of one node",
    )
    retries: Integer = Field(
        default=1, ge=0, le=5, description="how often a task is repeated after a lost node; a bad notebook is not"
    )
    timeouts: Timeouts = Field(default=Timeouts(), description="the limits of a run")
    storage: Annotated[Bucket | Claim, Field(discriminator="kind")] = Field(
        description="where sources, results and reports are",
        examples=[{"kind": "bucket", "url": "gs://acme-notebooks"}],
    )
    report_url: Annotated[str, Field(pattern=r"^https://\S+$")] | None = Field(
        default=None,
        description="the address of the storage for a browser; by default that of the bucket, which asks for a login",
    )
    access: Annotated[Ingress | Gateway, Field(discriminator="kind")] | None = Field(
        default=None, description="how GitHub reaches the listener; by default not at all, and no webhook is created"
    )
    rollout_percent: Integer = Field(
        default=100, ge=1, le=100, description="the share of the listed repositories whose pushes start a run"
    )
    namespace: NamespaceName | None = Field(
        default=None, description="the namespace that is created; by default the name of the component"
    )
    private_ranges: Annotated[list[PrivateRange], EachOnce] = Field(
        default=[], description="private addresses that notebooks may connect to on port 443"
    )
    image_pull_secrets: PullSecrets = Field(
        default=[], description="Secrets of the namespace with logins of registries"
    )

    @model_validator(mode="after")
    def _enough(self) -> Self:
        """Refuse what Tekton accepts, and what would then wait for ever or end too early."""
        found = []
        if self.max_gpus is not None and self.max_gpus < self.gpus:
            error = invalid(
                f"is less than the {self.gpus} of one notebook, so no notebook would start",
                "quota-below-need",
                hint=f"maxGpus: {self.gpus}, or more",
            )
            found.append(at_path(error, self.max_gpus, "max_gpus"))
        limits = self.timeouts
        needed = limits.queue_min + limits.notebook_min + START_MIN + FINALLY_MIN
        if limits.pipeline_min < needed:
            error = invalid(
                f"ends a run before its notebook: queueMin and notebookMin, with {START_MIN} minutes to start and "
                f"{FINALLY_MIN} for the report, are {needed}",
                "ends-too-early",
                hint=f"pipelineMin: {needed}, or more",
            )
            found.append(at_path(error, limits.pipeline_min, "timeouts", "pipeline_min"))
        raise_problems(found)
        return self

    @property
    def store(self) -> str:
        """The URL of the storage inside a task."""
        return self.storage.url.rstrip("/") if isinstance(self.storage, Bucket) else f"file://{CLAIM_PATH}"


def too_many_gpus(gpus: int, node_gpus: int) -> InitErrorDetails:
    """Return the problem of a notebook that fits on no node."""
    error = invalid(
        f"is more than the {node_gpus} of a node of the pool, so no notebook would start",
        "too-large-for-node",
        hint=f"gpus: {node_gpus}, or a pool with larger nodes",
    )
    return at_path(error, gpus, "gpus")


class NotebookPipelineArgs(NotebookChoices):
    """The arguments of a notebook pipeline."""

    WIRING: ClassVar[frozenset[str]] = frozenset(
        {
            "owner",
            "pool",
            "webhook_secret",
            "node_gpus",
            "gpu_resource",
            "environment",
            "tolerations",
            "github_host",
            "logins",
            "dns_addresses",
            "cached_dns",
            "credentials",
        }
    )

    webhook_secret: SecretInput[Annotated[str, Field(min_length=16)]] = Field(
        description="the secret that signs the deliveries of GitHub's webhook"
    )
    github: GithubAccess | None = Field(
        default=None, description="the App for private repositories and commit statuses; by default neither"
    )
    notify: Notify | None = Field(default=None, description="notifications; by default none")
    owner: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,39}$")] = Field(
        description="the organization or user on GitHub", examples=["acme"]
    )
    pool: Name = Field(description="the pool whose nodes run the notebooks", examples=["l4-gke"])
    node_gpus: Integer = Field(default=1, ge=1, description="the GPUs of one node of the pool")
    gpu_resource: GpuResource = Field(default=gpu_nodes.RESOURCE, description="the resource of the pool's GPUs")
    environment: Environment = Field(default={}, description="environment variables of the notebook's container")
    tolerations: Tolerations = Field(default=[], description="taints of the pool besides that of GPU nodes")
    github_host: Host = Field(default="github.com", description="the host of GitHub")
    logins: list[ImagePullSecret] = Field(
        default=[], description="the logins of registries that become Secrets of the namespace"
    )
    dns_addresses: list[DnsAddress] = Field(default=[], description="the addresses of more DNS servers of the cluster")
    cached_dns: Input[list[CachedDns]] = Field(
        default=[], description="the addresses at which NodeLocal DNSCache answers, besides its own"
    )
    credentials: dict[str, Integer] = Field(
        default={}, description="the ports of the addresses that give tasks their access to the bucket, by the address"
    )

    @model_validator(mode="after")
    def _on_a_node(self) -> Self:
        raise_problems([too_many_gpus(self.gpus, self.node_gpus)] if self.gpus > self.node_gpus else [])
        return self
