"""The component ContainerImagePipeline: builds a container image by Cloud Build, and checks it on the CPU."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

import pulumi
import pulumi_gcp as gcp
from pydantic import ConfigDict, Field, ValidationInfo, field_validator

from .. import naming
from ..args import Args, Input, Integer, StrictBool
from ..component import ImagePipeline
from ..errors import at_path, invalid, raise_problems
from ..labels import Labels, merge
from ..pool_args import EntryArgs
from . import identities, schedules
from .build import image_names, rules
from .build.image_steps import ImageSigning, image_steps
from .build.models import ImageBuild, PushEvent, RepositoryName, RepositoryResource, Text
from .build.trigger import TriggeredBuild, source_trigger
from .regions import CLOUD_BUILD
from .resource_names import Project

_DAY_SEC = 86400
# buildx pushes an index, the image, and one attestation with SBOM and provenance. Each is a version of its own. A
# signature is one more.
_VERSIONS_OF_BUILD = 3
# cosign reads the key and its version before it signs (sigstore/sigstore v1.10.8: pkg/signature/kms/gcp/client.go).
# signerVerifier does not contain these permissions.
_KEY_ROLES = {"key-signer": "roles/cloudkms.signerVerifier", "key-viewer": "roles/cloudkms.viewer"}
# What `sign-and-create --validate` calls: attestors.get, attestors.validateAttestationOccurrence and occurrences.create
# (docs.cloud.google.com/binary-authorization/docs/audit-logging; sign_and_create.py of the Google Cloud SDK). The
# predefined role for occurrences may also delete the attestations of other images.
_ATTESTS = (
    "binaryauthorization.attestors.get",
    "binaryauthorization.attestors.verifyImageAttested",
    "containeranalysis.notes.attachOccurrence",
    "containeranalysis.occurrences.create",
)
# A regular expression that matches one branch. Only dots are escaped, as other characters of a branch need no escape.
_ONE_BRANCH = re.compile(r"\^((?:[\w/-]|\\\.)+)\$")
_DIGESTS = ["sha256:4bcfbc3e1b210f36ac1a8c4f5ec9c1bb1b5a9e4b1a6f2a9d3c0e7f8a6b5c4d3e"]


class ImageSource(Args):
    """The GitHub repository with the Dockerfile. A push to the branch starts a build."""

    repository: RepositoryName = Field(
        description="the GitHub repository, as owner/name; without repositoryResource, the repository must be "
        "connected to Cloud Build as 1st gen in the pipeline's region",
    )
    repository_resource: RepositoryResource | None = Field(
        default=None,
        description="the resource name of the same repository if it is connected as 2nd gen: "
        "projects/<project>/locations/<region>/connections/<connection>/repositories/<name>",
        examples=["projects/acme-ci/locations/us-central1/connections/github/repositories/images"],
    )
    branch: Text = Field(
        default="^main$", description="branches whose pushes start a build, as a regular expression (RE2)"
    )
    included_files: list[Text] = Field(
        default=[], description="globs, such as images/**; a build starts only if a changed file matches"
    )
    ignored_files: list[Text] = Field(
        default=[], description="globs, such as docs/**; no build starts if all changed files match"
    )
    approval: StrictBool = Field(default=False, description="whether a user must approve each build before it starts")

    @property
    def one_branch(self) -> str | None:
        """The branch, or None if the regular expression can match several."""
        found = _ONE_BRANCH.fullmatch(self.branch)
        return found[1].replace("\\.", ".") if found else None

    @property
    def event(self) -> PushEvent:
        return PushEvent(kind="push", branch=self.branch)


class ImageRegistry(Args):
    """The retention and scanning of the pipeline's images. Images that pools of the stack name are always kept."""

    keep_most_recent: Integer = Field(
        default=10, ge=1, le=100, description="number of builds whose images are kept at any age, 1 to 100"
    )
    delete_after_days: Integer = Field(
        default=90, ge=1, le=3650, description="days after which other images are deleted, 1 to 3650"
    )
    scanning: StrictBool = Field(
        default=False,
        description="whether to scan images for vulnerabilities if the project has the Container Scanning API "
        "enabled; Google bills this per image",
    )


def _add_to_schema(schema: dict[str, Any]) -> None:
    """Add the known regions to the schema, for editors of stack files."""
    schema["properties"]["region"]["enum"] = list(CLOUD_BUILD)


class ContainerImagePipelineArgs(EntryArgs):
    """The arguments of a pipeline for container images."""

    model_config = ConfigDict(json_schema_extra=_add_to_schema)
    WIRING: ClassVar[frozenset[str]] = frozenset({"project", "labels", "pinned"})
    CREATES: ClassVar[tuple[str, ...]] = (
        "gcp:artifactregistry/repository:Repository",
        "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember",
        "gcp:cloudbuild/trigger:Trigger",
        *identities.TYPES,
    )
    CREATES_WITH: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "schedule": ("gcp:cloudscheduler/job:Job", "gcp:pubsub/topic:Topic"),
        "sign": ("gcp:kms/cryptoKeyIAMMember:CryptoKeyIAMMember",),
    }

    region: str = Field(description="the region of the registry and of the builds, such as us-central1")
    source: ImageSource = Field(description="the GitHub repository with the Dockerfile")
    build: ImageBuild = Field(description="the image to build, from the repository")
    # At least 1: without a check, no image would become a candidate.
    check: list[Text] = Field(
        default=["gpu-smoke", "--device", "cpu"],
        min_length=1,
        description="the command that checks the image in a container without network and GPU; the image becomes a "
        "candidate if the exit code is 0",
    )
    sign: ImageSigning | None = Field(
        default=None,
        description="signs each image that passed its check, before it becomes a candidate; by default no image is "
        "signed",
    )
    schedule: schedules.Schedule = Field(
        default=None,
        examples=["0 4 * * 1"],
        description="when to build source.branch without a push and without cached layers, as a schedule of Cloud "
        "Scheduler in UTC; by default never",
    )
    registry: ImageRegistry = Field(
        default=ImageRegistry(), validate_default=True, description="the pipeline's Artifact Registry repository"
    )
    keep_digests: list[Annotated[str, Field(pattern=rf"^{image_names.DIGEST}$")]] = Field(
        default=[],
        # A conditional policy is stored in the repository, so the number is limited to keep it small.
        max_length=100,
        examples=[_DIGESTS],
        description="digests that pools of other stacks name, each sha256:<64 hexadecimal digits>; their images are "
        "never deleted",
    )
    skip: list[Annotated[str, Field(pattern=rf"^{image_names.DIGEST}$")]] = Field(
        default=[],
        examples=[_DIGESTS],
        description="digests that gpu-ci images promote never writes, such as one that was rolled back",
    )
    machine_type: Literal["E2_MEDIUM", "E2_HIGHCPU_8", "E2_HIGHCPU_32"] = Field(
        default="E2_HIGHCPU_8", description="the machine type of builds, a value of Cloud Build's API"
    )
    disk_gib: Integer = Field(default=100, ge=100, le=4000, description="size of a build's disk in GiB, 100 to 4000")
    timeout_sec: Integer = Field(
        default=3600, ge=60, le=86400, description="maximum duration of the build in seconds, 60 to 86400"
    )

    project: Input[Project] = Field(description="the id (not the number) of the Google Cloud project of the pipeline")
    labels: Labels = Field(default={}, description="labels of every resource that supports labels")
    pinned: list[str] = Field(
        default=[], description="the images that pools of the stack name; those of this pipeline are never deleted"
    )

    def prerequisites(self, path: str) -> Iterator[str]:
        if not self.source.repository_resource:
            yield f"{path}.source: {rules.connect(self.source.repository, self.region)}"

    @field_validator("region")
    @classmethod
    def _region(cls, value: str) -> str:
        return rules.region(value)

    @field_validator("build")
    @classmethod
    def _build(cls, value: ImageBuild) -> ImageBuild:
        if value.image.split("/")[0] == "cache":
            problem = invalid(
                "is below cache/, which has the cached layers", "reserved-name", hint="such as image: gpu-runner"
            )
            raise_problems([at_path(problem, value.image, "image")])
        return value

    @field_validator("schedule")
    @classmethod
    def _schedule(cls, value: str | None, info: ValidationInfo) -> str | None:
        source = info.data.get("source")
        if value and source and not source.one_branch:
            raise invalid(
                f"has no branch to build, because source.branch is {source.branch}",
                "no-branch",
                expected="source.branch for one branch, with ^ and $",
                hint="such as source: {branch: ^main$}",
            )
        return value


class ContainerImagePipeline(ImagePipeline):
    """Builds a container image on each push, checks it on the CPU, and keeps it in a registry.

    Creates: an Artifact Registry repository with cleanup policies, a Cloud Build trigger, and the service account of
    its builds. The account may write logs, and write to this repository only. A build pushes the image with an SBOM
    and provenance, runs the check in it, and then adds the tag of a candidate. With `sign`, the build also signs the
    image, and the account may use and view this key only; with `sign.attestor`, it makes an attestation, and a custom
    role lets the account make attestations in the project. With `schedule`, a Cloud Scheduler job publishes a message
    to a Pub/Sub topic, which starts the builds of a second trigger.
    Costs: nothing while no build runs. Builds are billed by the minute, and images by the GiB stored. Cloud KMS bills
    each signature. Cloud Scheduler costs for each job above three.
    Does not: change a pool. `gpu-ci images promote` writes the digest of a candidate into stack files. It does not
    check the image on a GPU, because Cloud Build has none. The smoke check of the pool does that at `pulumi up`. It
    does not connect the GitHub repository to Cloud Build.
    Replaces on change of: everything, including all images, for region. Other fields are changed in place.
    """

    TYPE: ClassVar[str] = "gpu-ci:gcp:ContainerImagePipeline"
    ARGS: ClassVar[type[Args]] = ContainerImagePipelineArgs
    IMAGE_KIND: ClassVar[str] = "container"
    ENTRY_NAME: ClassVar[str] = "runner"
    PINS: ClassVar[tuple[tuple[str, ...], ...]] = (("runner", "image"), ("smoke", "image"), ("driver", "checkImage"))
    EXAMPLE: ClassVar[dict[str, Any]] = {
        "region": "us-central1",
        "source": {"repository": "acme/images", "includedFiles": ["images/**"]},
        "build": {"image": "gpu-runner", "dockerfile": "images/runner/Dockerfile"},
    }

    registry: pulumi.Output[str]
    """Address of the image registry, such as us-central1-docker.pkg.dev/acme-ci/images-runner-prod."""
    image: pulumi.Output[str]
    """Address of the image without tag and digest."""
    trigger_id: pulumi.Output[str]
    """Id of the trigger, for `gcloud builds triggers run`."""
    service_account_email: pulumi.Output[str]
    """Service account of the builds."""

    def __init__(self, name: str, args: ContainerImagePipelineArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        self._name, self._args = name, args
        repository = self._repository()
        account, grants = self._account(repository)
        host = f"{args.region}-docker.pkg.dev/"
        self.registry = pulumi.Output.concat(host, args.project, "/", repository.repository_id)
        self.image = pulumi.Output.concat(self.registry, f"/{args.build.image}")
        trigger = source_trigger(
            f"{name}-trigger",
            naming.fit(f"images-{name}-{pulumi.get_stack()}", 64),  # unique in the project, which stacks may share
            args.source,
            args.project,
            args.region,
            TriggeredBuild(account.name, self._build(reads_cache=True)),
            # A push can start a build as soon as the trigger exists. The grants must exist before.
            self.child(depends_on=grants),
        )
        if args.schedule:
            self._scheduled(args.schedule, account, grants)
        self.trigger_id = trigger.trigger_id
        self.service_account_email = account.email
        self.register()

    def _build(self, *, reads_cache: bool) -> gcp.cloudbuild.TriggerBuildArgs:
        args = self._args
        return gcp.cloudbuild.TriggerBuildArgs(
            steps=image_steps(args.build, args.check, self.registry, args.sign, reads_cache=reads_cache),
            timeout=f"{args.timeout_sec}s",
            # With a custom service account, the log mode must be set.
            options=gcp.cloudbuild.TriggerBuildOptionsArgs(
                logging="CLOUD_LOGGING_ONLY", machine_type=args.machine_type, disk_size_gb=args.disk_gib
            ),
        )

    def _scheduled(self, schedule: str, account: gcp.serviceaccount.Account, grants: list[pulumi.Resource]) -> None:
        """Create the trigger of scheduled builds. It needs no account that may start builds, as it reads a topic."""
        name, args, source = self._name, self._args, self._args.source
        unique = naming.fit(f"rebuild-{name}-{pulumi.get_stack()}", 63)
        tags = merge(args.labels, {"gpu-ci-pool": name})
        topic = gcp.pubsub.Topic(f"{name}-builds", project=args.project, labels=tags, opts=self.child())
        trigger = gcp.cloudbuild.Trigger(
            f"{name}-scheduled-trigger",
            name=unique,
            project=args.project,
            location=args.region,
            description=f"scheduled builds of {source.repository}",
            pubsub_config=gcp.cloudbuild.TriggerPubsubConfigArgs(topic=topic.id),
            source_to_build=gcp.cloudbuild.TriggerSourceToBuildArgs(
                ref=f"refs/heads/{source.one_branch}",
                repo_type="GITHUB",
                repository=source.repository_resource,
                uri=None if source.repository_resource else f"https://github.com/{source.repository}",
            ),
            approval_config=gcp.cloudbuild.TriggerApprovalConfigArgs(approval_required=source.approval),
            service_account=account.name,
            build=self._build(reads_cache=False),
            opts=self.child(depends_on=grants),
        )
        schedules.job(
            f"{name}-schedule",
            unique,
            f"builds the images of the pipeline {name}",
            schedule,
            topic,
            "build",
            args.project,
            args.region,
            self.child(depends_on=[trigger]),
        )

    def _repository(self) -> gcp.artifactregistry.Repository:
        args, settings = self._args, self._args.registry
        repository_id = image_names.repository_id(self._name, pulumi.get_stack())
        kept = sorted({*args.keep_digests, *image_names.pinned_digests(args.pinned, repository_id)})
        # If a KEEP and a DELETE policy match a version, Artifact Registry keeps the version.
        policies: list[Any] = [
            {
                "id": "keep-most-recent",
                "action": "KEEP",
                "most_recent_versions": {
                    "keep_count": settings.keep_most_recent * (_VERSIONS_OF_BUILD + bool(args.sign)),
                    "package_name_prefixes": [args.build.image],
                },
            },
            _policy("delete-old", "DELETE", tag_state="ANY", older_than=f"{settings.delete_after_days * _DAY_SEC}s"),
        ]
        if kept:  # the name of a version of a container image is its digest
            policies.append(_policy("keep-pinned", "KEEP", tag_state="ANY", version_name_prefixes=kept))
        if args.sign:  # the tag of a signature is sha256-<hexadecimal digits of the image's digest>.sig
            policies.append(_policy("keep-signatures", "KEEP", tag_state="TAGGED", tag_prefixes=["sha256-"]))
        return gcp.artifactregistry.Repository(
            f"{self._name}-registry",
            project=args.project,
            location=args.region,
            repository_id=repository_id,
            description=f"images of the pipeline {self._name}",
            format="DOCKER",
            labels=merge(args.labels, {"gpu-ci-pool": self._name}),
            cleanup_policies=policies,
            vulnerability_scanning_config={"enablement_config": "INHERITED" if settings.scanning else "DISABLED"},
            opts=self.child(),
        )

    def _account(
        self, repository: gcp.artifactregistry.Repository
    ) -> tuple[gcp.serviceaccount.Account, list[pulumi.Resource]]:
        """Create the service account of the builds, with the grants that a build needs."""
        args = self._args
        account = identities.service_account(
            f"{self._name}-account",
            "image",
            self._name,
            f"builds of the image pipeline {self._name}",
            args.project,
            self.child(),
        )
        grants: list[pulumi.Resource] = [
            identities.in_project(
                f"{self._name}-log-writer", "roles/logging.logWriter", account, args.project, self.child()
            ),
            identities.on_registry(
                f"{self._name}-registry-writer", "writer", account, args.project, args.region, repository.name,
                self.child(),
            ),
        ]  # fmt: skip
        if args.sign:
            grants += (
                gcp.kms.CryptoKeyIAMMember(
                    f"{self._name}-{right}",
                    crypto_key_id=args.sign.key,
                    role=role,
                    member=identities.member(account),
                    opts=self.child(),
                )
                for right, role in _KEY_ROLES.items()
            )
        if args.sign and args.sign.attestor:
            role = identities.custom_role(
                f"{self._name}-attest-role",
                f"gpu-ci-{self._name}-attest",
                f"image pipeline {self._name}: attestations",
                _ATTESTS,
                args.project,
                self.child(),
            )
            grants.append(identities.in_project(f"{self._name}-attest", role, account, args.project, self.child()))
        return account, grants


def _policy(name: str, action: str, **condition: Any) -> dict[str, Any]:
    return {"id": name, "action": action, "condition": condition}
