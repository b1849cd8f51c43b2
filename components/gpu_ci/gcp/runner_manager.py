"""The component RunnerManager: runs the runner manager on Cloud Run, with the permissions that it needs."""

from __future__ import annotations

import hashlib
import re
from typing import Annotated, Any, ClassVar

import pulumi
import pulumi_gcp as gcp
from gpu_common import google_permissions
from pydantic import AfterValidator, Field, field_validator

from .. import naming
from ..args import Args, ComponentArgs, Input, Integer, PlainInput, StrictBool
from ..component import Component
from ..errors import invalid
from ..labels import Labels, merge
from ..secret_manager import SecretName
from . import identities, manager_permissions
from .manager_metrics import BUDGETS, LATE, MEASURED, PASSES, ManagerAlerts, ManagerMetrics
from .network_choices import network_region
from .resource_names import REGION, Project, ServiceAccountEmail, Template
from .stopped_machines import StoppedMachines, StoppedMachinesArgs

_DIGEST = r"@sha256:[0-9a-f]{64}$"
_IMAGE = rf"^[a-z0-9][a-z0-9.-]*(:[0-9]+)?(/[a-z0-9._-]+)+(:[A-Za-z0-9._-]+)?{_DIGEST}"
_KEY_FOLDER, _KEY_FILE = "/secrets/manager-app", "key.pem"
# Discovery document run v2, workerPools.create, workerPoolId: fewer than 50 characters.
_POOL_NAME_MOST = 49


class ManagerChoices(Args):
    """The settings of one runner manager."""

    EXAMPLE: ClassVar[dict[str, Any]] = {
        "image": f"us-central1-docker.pkg.dev/acme-ci/build-builds-prod/runner-manager@sha256:{'0123456789abcdef' * 4}",
        "region": "us-central1",
    }

    image: str = Field(
        description="the container image of the manager, by its digest, as registry/name@sha256:…; build it with "
        "manager/Dockerfile",
        json_schema_extra={"pattern": _IMAGE},
    )
    region: Annotated[str, Field(pattern=REGION), AfterValidator(network_region)] = Field(
        description="the region where the manager runs and stores its state, such as us-central1"
    )
    instances: Integer = Field(
        default=1,
        ge=1,
        le=20,
        description="the number of manager processes, 1 to 20; one of them acts, and the others wait until it ends",
    )
    alerts: ManagerAlerts | None = Field(
        default=None,
        description="alert policies for a stalled manager, for jobs that wait too long, and for budgets of teams; by "
        "default none",
    )
    metrics: StrictBool = Field(
        default=False,
        description="whether to create log-based metrics in Cloud Monitoring from the manager's measurements, which "
        "cost by volume; the manager's log contains the measurements in any case",
    )
    binary_authorization: StrictBool = Field(
        default=False,
        description="whether Cloud Run checks the image by the project's policy of Binary Authorization",
    )

    @field_validator("image")
    @classmethod
    def _image(cls, value: str) -> str:
        if not re.search(_DIGEST, value):
            hint = (
                "a tag can point to another image later; run gcloud artifacts docker images describe to "
                "print the digest"
            )
            raise invalid(
                "is not pinned by its digest", "no-digest", expected="registry/name@sha256:<64 hex digits>", hint=hint
            )
        if not re.fullmatch(_IMAGE, value):
            raise invalid(
                "is not the address of a container image",
                "not-an-image",
                expected="registry/name@sha256:<64 hex digits>",
            )
        return value


class ManagerSettings(ManagerChoices):
    """The settings of a runner manager in a stack file."""

    CREATES: ClassVar[tuple[str, ...]] = (
        "gcp:cloudrunv2/workerPool:WorkerPool",
        google_permissions.CUSTOM_ROLE,
        "gcp:serviceaccount/iAMMember:IAMMember",
        "gcp:storage/bucket:Bucket",
        "gcp:storage/bucketIAMMember:BucketIAMMember",
        "gcp:storage/bucketObject:BucketObject",
        *identities.TYPES,
        google_permissions.SECRET_MEMBER,
    )
    CREATES_WITH: ClassVar[dict[str, tuple[str, ...]]] = {
        "metrics": ("gcp:logging/metric:Metric",),
        "alerts": ("gcp:logging/metric:Metric", "gcp:monitoring/alertPolicy:AlertPolicy"),
    }

    others: dict[Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]{0,18}[a-z0-9])?$")], list[str]] = Field(
        default={},
        description="further managers with these settings: for each name, the pools that this manager serves; the "
        "first manager serves every other pool",
    )


class RunnerManagerArgs(ManagerChoices, ComponentArgs):
    """The arguments of a runner manager on Google Cloud."""

    WIRING: ClassVar[frozenset[str]] = frozenset(
        {"project", "labels", "configuration", "app_key", "machine_accounts", "budgets", "standby_templates",
         "bootstrap_roles"}
    )  # fmt: skip

    project: Input[Project] = Field(description="the id (not the number) of the Google Cloud project of the pools")
    labels: Labels = Field(default={}, description="labels of every resource that supports labels")
    configuration: PlainInput[Annotated[str, Field(min_length=2)]] = Field(
        description="the configuration of the manager in JSON, as in the stack's output `manager`; it contains no "
        "secrets"
    )
    app_key: SecretName = Field(
        description="the secret in Secret Manager that holds the private key of the manager's GitHub App, as "
        "projects/<project>/secrets/<name>"
    )
    machine_accounts: dict[str, Input[ServiceAccountEmail]] = Field(
        min_length=1,
        description="for each pool, by its name in the configuration, the service account of its machines, "
        "which the manager may use",
    )
    bootstrap_roles: identities.BootstrapRoles = False
    budgets: StrictBool = Field(
        default=False,
        description="whether teams in the configuration have a budget; `alerts` then warns when 80 % of it is spent, "
        "and when all of it is",
    )
    standby_templates: list[Input[Template]] = Field(
        default=[],
        description="self links of the instance templates of pools whose machines wait stopped; these machines are "
        "deleted with the manager",
    )


class RunnerManager(Component):
    """The runner manager on Cloud Run. It starts a machine for each queued job, and deletes the machine after the job.

    Creates: a worker pool of `instances` processes without a network address, and its service account. A bucket with
    the manager's state and configuration, and a custom role for that bucket only. Custom roles in the project of the
    machines, with the permissions that the manager's API calls need; changes are limited to machines and disks of the
    pools by their names. Permission to use the service accounts of the pools only. Permission to read the secret with
    the App's key only. With `alerts`: two alert policies, and the two
    log-based metrics that they read; with `budgets`, two more policies and one more metric. With `metrics`: the other
    log-based metrics. With `standbyTemplates`: a StoppedMachines resource, which deletes the stopped machines when the
    manager is deleted.
    Costs: CPU and memory of each instance for every second, even without jobs, and the writes of the state.
    Alert policies cost by condition, and log-based metrics by the volume of their points.
    Does not: put the App's key into state, environment variables or arguments. Cloud Run mounts the key as a file. The
    manager does not connect to your network, because it needs only the APIs of GitHub and Google.
    Replaces on change of: everything, including the state and the records of machines, for region. A new image or
    configuration creates a new revision of the worker pool. The new manager acts only after the previous manager has
    released its lease.
    """

    TYPE: ClassVar[str] = "gpu-ci:gcp:RunnerManager"
    ARGS: ClassVar[type[Args]] = RunnerManagerArgs
    FIXED: ClassVar[dict[str, tuple[str, ...]]] = {"configuration": ("*",)}
    EXAMPLE: ClassVar[dict[str, Any]] = ManagerChoices.EXAMPLE

    state_object: pulumi.Output[str]
    """Location of the manager's state, for the option --state of `gpu-ci manager status` and `gpu-ci explain`."""
    service_account_email: pulumi.Output[str]
    """Email of the manager's service account."""
    worker_pool: pulumi.Output[str]
    """Resource name of the worker pool."""

    def __init__(self, name: str, args: RunnerManagerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        self._name, self._args = name, args
        self._account = identities.service_account(
            f"{name}-account", "gpu", name, f"GPU runner manager {name}", args.project, self.child()
        )
        self._member = pulumi.Output.concat("serviceAccount:", self._account.email)
        bucket = gcp.storage.Bucket(
            f"{name}-state",
            project=args.project,
            location=args.region,
            labels=merge(args.labels, {"gpu-ci-pool": name}),
            uniform_bucket_level_access=True,
            public_access_prevention="enforced",
            versioning={"enabled": False},
            # The manager replaces its state every few seconds. By default, Cloud Storage would keep each old object for
            # a week, and bill it.
            soft_delete_policy={"retention_duration_seconds": 0},
            # The manager can rebuild its state. The records of machines are deleted with it.
            force_destroy=True,
            opts=self.child(),
        )
        configuration = gcp.storage.BucketObject(
            f"{name}-configuration",
            bucket=bucket.name,
            name="configuration.json",
            content=args.configuration,
            content_type="application/json",
            opts=self.child(),
        )
        grants = [*self._machine_grants(), *self._state_grants(bucket), self._key_grant(), *self._stopped_machines()]
        self.state_object = pulumi.Output.concat("gs://", bucket.name, "/state.json")
        pool = self._worker_pool(pulumi.Output.concat("gs://", bucket.name, "/", configuration.name), grants)
        self._metrics_and_alerts()
        self.service_account_email = self._account.email
        self.worker_pool = pool.id
        self.register()

    def _machine_grants(self) -> list[pulumi.Resource]:
        """Grant the manager permission to start and delete machines with the service accounts of the pools."""
        args = self._args
        name = self._name
        # decision/names.py of the manager has the names of machines.
        own = [f"{pool}-" for pool in sorted(args.machine_accounts)]
        granted = identities.on_own_machines(
            name,
            (f"{name}-machines-role", f"gpu-ci-{name}-machines", f"GPU runner manager {name}: machines"),
            manager_permissions.MACHINES,
            {"instances": own, "disks": own},
            self._account,
            args.project,
            self.child,
            manager_permissions.ON_ALL,
            "manager" if args.bootstrap_roles else "",
        )
        for pool, email in sorted(args.machine_accounts.items()):
            account = pulumi.Output.concat("projects/", args.project, "/serviceAccounts/", email)
            granted.append(
                gcp.serviceaccount.IAMMember(
                    f"{self._name}-{pool}-user",
                    service_account_id=account,
                    role="roles/iam.serviceAccountUser",
                    member=self._member,
                    opts=self.child(),
                )
            )
        return granted

    def _stopped_machines(self) -> list[pulumi.Resource]:
        """Create the resource that deletes the stopped machines when it is deleted.

        The manager depends on this resource, so `pulumi destroy` deletes the manager first. A running manager would
        create new machines.
        """
        args = self._args
        if not args.standby_templates:
            return []
        stopped = StoppedMachinesArgs(project=args.project, templates=args.standby_templates)
        return [StoppedMachines(f"{self._name}-stopped", stopped, opts=self.child())]

    def _state_grants(self, bucket: gcp.storage.Bucket) -> list[pulumi.Resource]:
        return [
            gcp.storage.BucketIAMMember(
                f"{self._name}-state-writer",
                bucket=bucket.name,
                role=identities.custom_role(
                    f"{self._name}-state-role",
                    f"gpu-ci-{self._name}-state",
                    f"GPU runner manager {self._name}: state",
                    google_permissions.of_calls(manager_permissions.STATE),
                    self._args.project,
                    self.child(),
                    "manager_state" if self._args.bootstrap_roles else "",
                ),
                member=self._member,
                opts=self.child(),
            )
        ]

    def _key_grant(self) -> pulumi.Resource:
        return gcp.secretmanager.SecretIamMember(
            f"{self._name}-app-key-reader",
            project=self._args.app_key.split("/")[1],
            secret_id=self._args.app_key,
            role="roles/secretmanager.secretAccessor",
            member=self._member,
            opts=self.child(),
        )

    def _worker_pool(
        self, configuration: pulumi.Output[str], grants: list[pulumi.Resource]
    ) -> gcp.cloudrunv2.WorkerPool:
        args = self._args
        command = ["manager", "run", "--json", "--app-key", f"{_KEY_FOLDER}/{_KEY_FILE}"]
        return gcp.cloudrunv2.WorkerPool(
            f"{self._name}-workers",
            project=args.project,
            location=args.region,
            name=self._pool_name(),
            labels=merge(args.labels, {"gpu-ci-pool": self._name}),
            # The launch stage is only needed for the creation. Later, the API returns the current stage of the
            # resource.
            launch_stage="BETA",
            deletion_protection=False,
            binary_authorization={"use_default": True} if args.binary_authorization else None,
            scaling={"manual_instance_count": args.instances},
            template={
                "service_account": self._account.email,
                # The manager reads its configuration when it starts. The annotation makes Cloud Run start a new
                # revision if the configuration changes.
                "annotations": {"gpu-ci-configuration": pulumi.Output.from_input(args.configuration).apply(_digest)},
                "containers": [
                    {
                        "image": args.image,
                        "args": [*command, "--config", configuration, "--state", self.state_object],
                        "resources": {"limits": {"cpu": "1", "memory": "512Mi"}},
                        "volume_mounts": [{"name": "app-key", "mount_path": _KEY_FOLDER}],
                    }
                ],
                "volumes": [
                    {
                        "name": "app-key",
                        "secret": {"secret": self._key_name(), "items": [{"path": _KEY_FILE, "version": "latest"}]},
                    }
                ],
            },
            opts=self.child(depends_on=grants, ignore_changes=["launchStage"]),
        )

    def _pool_name(self) -> str:
        return naming.fit(f"gpu-{self._name}-{pulumi.get_stack()}", _POOL_NAME_MOST)

    def _metrics_and_alerts(self) -> None:
        """Create metrics and alerts if `metrics` and `alerts` are set."""
        args = self._args
        labels = merge(args.labels, {"gpu-ci-pool": self._name})
        monitoring = ManagerMetrics(self._name, args.project, args.region, self._pool_name(), labels, self.child)
        if args.alerts:
            monitoring.alerts(args.alerts, monitoring.metrics((PASSES, LATE)))
            if args.budgets:
                monitoring.budget_alerts(args.alerts, monitoring.metrics((BUDGETS,)))
        if args.metrics:
            monitoring.metrics(MEASURED)

    def _key_name(self) -> pulumi.Output[str]:
        """Return the secret's name for Cloud Run: the short name if the secret is in the worker pool's project.

        Source: run v2, SecretVolumeSource.
        """
        _, project_of_key, _, name = self._args.app_key.split("/")
        project = pulumi.Output.from_input(self._args.project)
        return project.apply(lambda own: name if own == project_of_key else self._args.app_key)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
