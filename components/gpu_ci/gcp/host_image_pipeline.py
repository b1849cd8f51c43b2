"""The component HostImagePipeline: builds boot images for GPU machines, and checks them on a GPU."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pulumi
import pulumi_gcp as gcp
from gpu_common import google_permissions
from pydantic import Field, ValidationInfo, field_validator

from .. import naming, versions
from ..args import Args, Integer
from ..component import ImagePipeline
from ..errors import invalid
from ..labels import merge
from ..machines.rules import machine_of
from ..machines.runner import Registration, RunnerGithub, RunnerSettings
from ..payload import lock
from ..pool_args import EntryArgs
from . import identities, schedules
from .build.rules import BuildRegion
from .build_program import LOCK, PIP_INSTALL, TYPES, BuildProgram, archive
from .machine.args import GpuMachineArgs, ImageDriver
from .machine.software import INSTALLER_BRANCHES
from .machine.template import machine_template

# The provisioning needs a CPU for the driver's modules and for the archives, and no GPU.
_BUILDERS = {"x86_64": "e2-standard-8", "arm64": "c4a-standard-8"}
# For the start of the machines in each zone (10 minutes) and for the image (30 minutes). With the longest deadlines and
# four zones, a build stays below Cloud Build's limit of 24 hours (discovery document cloudbuild v1, Build.timeout).
_AROUND_SEC = 7_200
_IMAGE_NAME = r"^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$"
_IMAGE = rf"^projects/[a-z0-9.:-]+/global/images/{_IMAGE_NAME[1:]}"
PROGRAM = BuildProgram("gcp/host_image", ("api", "build"))
"""The files of the program that the steps of the build run."""
_PACKAGES = "/workspace/packages"
CALLS: Mapping[str, tuple[str, ...]] = {
    # The builder and the check machine have no service account.
    "compute.instances.insert": tuple(
        each for each in google_permissions.INSERT if each != "compute.instances.setServiceAccount"
    ),
    "compute.instances.delete": ("compute.instances.delete",),
    "compute.instances.get": ("compute.instances.get",),
    "compute.instances.getGuestAttributes": ("compute.instances.getGuestAttributes",),
    "compute.instances.getSerialPortOutput": ("compute.instances.getSerialPortOutput",),
    "compute.instances.list": ("compute.instances.list",),
    "compute.instances.stop": ("compute.instances.stop",),
    "compute.instanceTemplates.aggregatedList": ("compute.instanceTemplates.list",),
    "compute.regionInstanceTemplates.get": ("compute.instanceTemplates.get",),
    "compute.zoneOperations.get": ("compute.zoneOperations.get",),
    "compute.globalOperations.get": ("compute.globalOperations.get",),
    # cloud.google.com/compute/docs/images/create-custom, "Required roles": for an image of a disk.
    "compute.images.insert": ("compute.images.create", "compute.images.setLabels", "compute.disks.useReadOnly"),
    "compute.images.list": ("compute.images.list",),
    "compute.images.setLabels": ("compute.images.setLabels",),
    "compute.images.delete": ("compute.images.delete",),
}
"""The permissions of the build in the project of the pipeline, by its API calls."""
SETTINGS_KEY, LOCK_KEY = "gpu-image-settings", "gpu-image-lock"
"""The metadata key of provision.sh's settings: lines with a name and a value of letters, digits and :/._+-."""
# GitHub's names of the architectures.
_ARCHITECTURES = {"x86_64": "x64", "arm64": "arm64"}


class BuilderSettings(Args):
    """Settings of the builder machine, which has no GPU."""

    machine_type: str | None = Field(
        default=None,
        pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)+$",
        description="a machine type without a GPU, of the same architecture as machineType; by default e2-standard-8, "
        "or c4a-standard-8 for arm64",
    )
    deadline_sec: Integer = Field(
        default=3600,
        ge=900,
        le=14_400,
        description="seconds from the start of the builder machine to the end of its provisioning, 900 to 14400",
    )


class HostImagePipelineArgs(GpuMachineArgs, EntryArgs):
    """The arguments of a pipeline for host images: the base image, the software, and the machine of the check."""

    WIRING: ClassVar[frozenset[str]] = GpuMachineArgs.WIRING | {"pinned", "bootstrap_roles"}
    CREATES: ClassVar[tuple[str, ...]] = TYPES

    runner: RunnerSettings = Field(
        default=RunnerSettings(docker="rootless"),
        description="the GitHub runner in the image, and the Docker mode whose packages it contains; without "
        "docker, the mode is rootless",
    )
    builder: BuilderSettings = Field(default=BuilderSettings(), description="settings of the builder machine")
    check_deadline_sec: Integer = Field(
        default=1200,
        ge=120,
        le=3600,
        description="seconds from the start of the check machine to its verdict, 120 to 3600",
    )
    schedule: schedules.Schedule = Field(
        default=None,
        examples=["0 4 * * 1"],
        description="when to build, as a schedule of Cloud Scheduler in UTC; by default only manually",
    )
    build_region: BuildRegion = Field(
        default=None,
        examples=["us-central1"],
        description="the region of the builds, by default that of the machines; Google restricts some "
        "projects to a few regions of Cloud Build",
    )
    refresh_days: Integer = Field(
        default=7,
        ge=1,
        le=90,
        description="days after which unchanged settings give a new image with newer packages, 1 to 90; a build before "
        "that creates no image",
    )
    keep: Integer = Field(
        default=3,
        ge=2,
        le=50,
        description="number of images that passed their check to keep, 2 to 50; images that an instance template or a "
        "pool of the stack file names are always kept",
    )
    keep_images: list[Annotated[str, Field(pattern=_IMAGE)]] = Field(
        default=[],
        examples=[["projects/acme-ci/global/images/gpu-host-prod-6765ba29b805"]],
        description="images that are always kept, such as those of pools in other projects, as "
        "projects/<project>/global/images/<name>",
    )
    skip: list[Annotated[str, Field(pattern=_IMAGE_NAME)]] = Field(
        default=[],
        examples=[["gpu-host-prod-6765ba29b805"]],
        description="names of candidates that gpu-ci images promote must not use, such as after a rollback",
    )
    pinned: list[str] = Field(default=[], description="images that pools of the stack file name, which are kept")
    bootstrap_roles: identities.BootstrapRoles = False

    @field_validator("driver")
    @classmethod
    def _driver_in_image(cls, value: Any, info: ValidationInfo) -> Any:
        machine = machine_of(info.data)
        if value.source == "installer" and machine and machine.gpu_count < 1:
            raise invalid(
                f"cannot put a driver for {machine.machine_type} into an image: it has a fraction of a GPU, whose vGPU "
                "guest driver is installed only on such a machine",
                hint="use a machine type with a whole GPU, or a pool with driver: {source: installer} and no image",
            )
        if value.source == "cos":
            raise invalid(
                "installs its driver at every boot, so an image cannot contain the driver",
                expected="source: image or source: installer",
                hint="remove driver, to use Google's image with a driver as the base image",
            )
        return value

    @field_validator("runner", mode="before")
    @classmethod
    def _rootless(cls, value: Any) -> Any:
        """Keep the default of docker if the stack file has only other fields of the runner, such as its version."""
        return {"docker": "rootless", **value} if isinstance(value, Mapping) else value

    @field_validator("runner")
    @classmethod
    def _runner(cls, value: RunnerSettings, info: ValidationInfo) -> RunnerSettings:
        if value.docker == "rootful":
            raise invalid(
                "has docker: rootful, for which gpu-ci has no packages in host images",
                expected="docker: rootless or docker: none",
                hint="use docker: rootless",
            )
        machine = machine_of(info.data)
        if machine is None:
            return value
        name = _ARCHITECTURES[machine.architecture]
        if name not in value.archives:
            raise invalid(
                f"has no checksum of the {name} archive, which {machine.machine_type} needs",
                expected=f"sha256.{name}",
                hint=f"copy the checksum from the release notes of the runner {value.version}",
            )
        return value

    @property
    def builder_type(self) -> str:
        """The machine type of the builder machine."""
        return self.builder.machine_type or _BUILDERS[self.machine.architecture]

    @property
    def made_from(self) -> dict[str, str]:
        """The inputs of the image, by name. Equal inputs give an image of the same name until the next refresh."""
        chosen = {name.lower(): value for name, value in provision_settings(self).items() if name != "SHA256"}
        return {"base": self.image, **chosen, "script": _digest(script()), "lock": _digest(_lock(self))}


class HostImagePipeline(ImagePipeline):
    """Builds a boot image with driver, GitHub's runner, torch and rootless Docker, and checks it on a GPU.

    Creates: a Cloud Build trigger on messages of a Pub/Sub topic, and the topic; with `schedule`, a Cloud Scheduler job
    that publishes a message. A bucket with the program of the build. A service account for builds, with custom roles
    of the permissions that the program's API calls need, limited to machines, disks and images of the pipeline by their
    names. Instance templates of the builder machine and of the check
    machine. Both machines have no service account and no public address.
    Costs: the builder machine, the check machine with its GPU, and the minutes of Cloud Build, for each build. The
    images by the GiB stored, and the bucket. Cloud Scheduler costs for each job above three.
    Does not: change a pool. A build creates a candidate, and gpu-ci images promote writes its name into stack files.
    The network of the machines needs internet access, such as Cloud NAT.
    Replaces on change of: both instance templates for almost every field. The next build uses the new templates.
    """

    TYPE: ClassVar[str] = "gpu-ci:gcp:HostImagePipeline"
    ARGS: ClassVar[type[Args]] = HostImagePipelineArgs
    IMAGE_KIND: ClassVar[str] = "host"
    ENTRY_NAME: ClassVar[str] = "gpu-host"
    PINS: ClassVar[tuple[tuple[str, ...], ...]] = (("image",),)
    EXAMPLE: ClassVar[dict[str, Any]] = {
        "machineType": "g2-standard-8",
        "zones": ["us-central1-a", "us-central1-b"],
        "schedule": "0 4 * * 1",
    }

    trigger: pulumi.Output[str]
    """Name of the trigger, for `gcloud builds triggers run`."""
    region: pulumi.Output[str]
    """Region of the trigger."""
    pipeline: pulumi.Output[str]
    """Value of the label gpu-ci-image of the pipeline's images."""
    service_account_email: pulumi.Output[str]
    """Service account of builds."""

    def __init__(self, name: str, args: HostImagePipelineArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        self._name, self._args = name, args
        self._tags = merge(args.labels, {"gpu-ci-pool": name})
        label = naming.label_of(name, pulumi.get_stack())
        self._account = account = identities.service_account(
            f"{name}-account", "image", name, f"builds of the host images {name}", args.project, self.child()
        )
        bucket = gcp.storage.Bucket(
            f"{name}-source",
            project=args.project,
            location=args.region,
            labels=self._tags,
            uniform_bucket_level_access=True,
            public_access_prevention="enforced",
            force_destroy=True,  # the stack has the content of the bucket
            opts=self.child(),
        )
        source = gcp.storage.BucketObject(
            f"{name}-program",
            bucket=bucket.name,
            name=f"program-{PROGRAM.digest()}.zip",
            source=archive(PROGRAM.files()),  # Cloud Build unpacks it into /workspace
            opts=self.child(),
        )
        grants = self._grants(bucket)
        topic = gcp.pubsub.Topic(f"{name}-builds", project=args.project, labels=self._tags, opts=self.child())
        builder, check = self._builder_template(), self._check_template()
        trigger = self._trigger(topic, source, self._settings(label, builder, check), grants)
        if args.schedule:
            schedules.job(
                f"{name}-schedule",
                naming.fit(f"{name}-image-{pulumi.get_stack()}", 63),
                f"builds the host images of the pipeline {name}",
                args.schedule,
                topic,
                "build",
                args.project,
                args.build_region or args.region,
                self.child(depends_on=[trigger]),
            )
        self.trigger = trigger.name
        self.region = pulumi.Output.from_input(args.build_region or args.region)
        self.pipeline = pulumi.Output.from_input(label)
        self.service_account_email = account.email
        self.register()

    @classmethod
    def own_names(cls, name: str, stack: str) -> dict[str, list[str]]:
        label = naming.label_of(name, stack)
        own = [naming.machine_prefix(label, role) for role in ("build", "check")]
        return {"instances": own, "disks": own, "images": [f"{label}-"]}

    def _grants(self, bucket: gcp.storage.Bucket) -> list[pulumi.Resource]:
        """Grant the account the calls of the program, its log, and its source."""
        name, project, account = self._name, self._args.project, self._account
        return [
            *identities.on_own_machines(
                name,
                (f"{name}-role", f"gpu-ci-image-{name}", f"builds of the host images {name}"),
                CALLS,
                self.own_names(name, pulumi.get_stack()),
                account,
                project,
                self.child,
                made="image" if self._args.bootstrap_roles else "",
            ),
            identities.in_project(f"{name}-log-writer", "roles/logging.logWriter", account, project, self.child()),
            gcp.storage.BucketIAMMember(
                f"{name}-source-reader",
                bucket=bucket.name,
                role="roles/storage.objectViewer",
                member=identities.member(account),
                opts=self.child(),
            ),
        ]

    def _builder_template(self) -> gcp.compute.RegionInstanceTemplate:
        args = self._args
        return gcp.compute.RegionInstanceTemplate(
            f"{self._name}-builder",
            project=args.project,
            region=args.region,
            machine_type=args.builder_type,
            disks=[
                {
                    "boot": True,
                    "auto_delete": True,
                    "source_image": args.image,
                    "disk_size_gb": args.disk_gib,
                    "disk_type": "hyperdisk-balanced" if args.builder_type.startswith("c4a-") else "pd-balanced",
                    "labels": self._tags,
                }
            ],
            network_interfaces=[{"network": args.network, "subnetwork": args.subnetwork}],
            # The program sets the maximum run duration from builder.deadlineSec. This one is for a machine that a user
            # creates from the template.
            scheduling={
                "automatic_restart": False,
                "on_host_maintenance": "MIGRATE",
                "instance_termination_action": "DELETE",
                "max_run_duration": {"seconds": args.builder.deadline_sec},
            },
            # The modules of cuda_installer are not signed.
            shielded_instance_config={
                "enable_vtpm": True,
                "enable_integrity_monitoring": True,
                "enable_secure_boot": False,
            },
            metadata=_metadata(args),
            labels=self._tags,
            opts=self.child(),
        )

    def _check_template(self) -> gcp.compute.RegionInstanceTemplate:
        """Create the template of the check machine. The program replaces its image by the new one."""
        args = self._args
        # As in a pool whose runners the runner manager registers, so no secret and no GitHub App is needed.
        registration = Registration(RunnerGithub(owner="gpu-ci"), args.runner, [])
        return machine_template(
            f"{self._name}-check",
            self._name,
            args.model_copy(update={"driver": ImageDriver(source="image")}),
            account=None,
            tags=self._tags,
            deadline_sec=args.check_deadline_sec,
            opts=self.child(),
            registration=registration,
            checks_image=True,
        )

    def _settings(
        self, label: str, builder: gcp.compute.RegionInstanceTemplate, check: gcp.compute.RegionInstanceTemplate
    ) -> pulumi.Output[str]:
        """Return the settings of the program (host_image/build.py) as JSON."""
        args = self._args
        return pulumi.Output.json_dumps(
            {
                "project": args.project,
                "pipeline": label,
                "builder": {
                    "template": builder.self_link,
                    "zones": args.zones,
                    "deadline_sec": args.builder.deadline_sec,
                },
                "check": {"template": check.self_link, "zones": args.zones, "deadline_sec": args.check_deadline_sec},
                "made_from": args.made_from,
                "keep": args.keep,
                "refresh_days": args.refresh_days,
                "in_use": sorted({*args.pinned, *args.keep_images}),
                "labels": self._tags,
                "storage_location": args.region,
            }
        )

    def _trigger(
        self,
        topic: gcp.pubsub.Topic,
        source: gcp.storage.BucketObject,
        settings: pulumi.Output[str],
        grants: list[pulumi.Resource],
    ) -> gcp.cloudbuild.Trigger:
        name, args = self._name, self._args
        deadlines_sec = (args.builder.deadline_sec + args.check_deadline_sec) * len(args.zones)
        build: Any = {
            "source": {"storage_source": {"bucket": source.bucket, "object": source.name}},
            "steps": _steps(settings),
            "timeout": f"{deadlines_sec + _AROUND_SEC}s",
            "options": {"logging": "CLOUD_LOGGING_ONLY"},
        }
        return gcp.cloudbuild.Trigger(
            f"{name}-trigger",
            name=naming.fit(f"{name}-image-{pulumi.get_stack()}", 64),
            project=args.project,
            location=args.build_region or args.region,
            description=f"host images of the pipeline {name}",
            pubsub_config={"topic": topic.id},
            service_account=self._account.name,
            build=build,
            opts=self.child(depends_on=grants),
        )


def _metadata(args: HostImagePipelineArgs) -> dict[str, str]:
    """Return the metadata of a builder machine. It has no secrets."""
    lines = "".join(f"{name}={value}\n" for name, value in provision_settings(args).items())
    return {
        "enable-guest-attributes": "TRUE",
        "enable-oslogin": "TRUE",
        "block-project-ssh-keys": "TRUE",
        "serial-port-enable": "FALSE",
        "startup-script": script(),
        SETTINGS_KEY: lines,
        LOCK_KEY: _lock(args),
    }


def provision_settings(args: HostImagePipelineArgs) -> dict[str, str]:
    """Return the settings of provision.sh. They are the same versions that a machine installs from another image."""
    architecture = _ARCHITECTURES[args.machine.architecture]
    driver = args.driver
    return {
        "DRIVER": driver.source,
        **(
            {
                "BRANCH": INSTALLER_BRANCHES[driver.branch],
                "INSTALLER": versions.CUDA_INSTALLER,
                "INSTALLER_SHA256": driver.sha256,
            }
            if driver.source == "installer"
            else {}
        ),
        "RUNNER": args.runner.version,
        "SHA256": args.runner.archives[architecture],
        "ARCHITECTURE": architecture,
        "TORCH": args.torch or versions.TORCH,
        "DOCKER": args.runner.docker,
    }


def _lock(args: HostImagePipelineArgs) -> str:
    """Return the lock of the default torch, or that of uv, which installs other versions."""
    return lock("torch.lock" if args.torch in (None, versions.TORCH) else "uv.lock")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@cache
def script() -> str:
    """Return the provisioning script from provision.sh."""
    return Path(__file__).with_name("host_image").joinpath("provision.sh").read_text(encoding="utf-8")


def _steps(settings: pulumi.Input[str]) -> list[dict[str, Any]]:
    """Return the steps of the build: install the libraries by their hashes, build the image, check it."""
    commands: dict[str, list[pulumi.Input[str]]] = {
        "install": [*PIP_INSTALL, "--target", _PACKAGES, "--requirement", f"/workspace/{LOCK}"],
        **{each: ["-m", "gpu_ci.gcp.host_image", each, "--settings", settings] for each in ("build", "check")},
    }
    return [
        {
            "id": name,
            "name": versions.PYTHON_IMAGE,
            "entrypoint": "python",
            "args": args,
            "envs": [f"PYTHONPATH=/workspace:{_PACKAGES}", "PYTHONUNBUFFERED=1"],
        }
        for name, args in commands.items()
    ]
