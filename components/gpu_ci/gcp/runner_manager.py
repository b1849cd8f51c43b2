"""The component RunnerManager: runs the runner manager on Cloud Run, with the permissions that it needs."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, ClassVar

import pulumi
import pulumi_gcp as gcp
from gpu_common import google_permissions
from pydantic import AfterValidator, Field

from .. import naming
from ..args import Args, ComponentArgs, Input, PlainInput, StrictBool
from ..component import Component
from ..labels import Labels, merge
from ..runner_manager import ALERTS, BINARY_AUTHORIZATION, METRICS, ManagerAlerts, ManagerChoices
from ..secret_manager import SecretName
from . import identities, manager_permissions
from .manager_metrics import BUDGETS, LATE, MEASURED, PASSES, ManagerMetrics
from .network_choices import network_region
from .resource_names import REGION, BucketName, Project, ServiceAccountEmail, Template
from .stopped_machines import StoppedMachines, StoppedMachinesArgs

_KEY_FOLDER, _KEY_FILE = "/secrets/manager-app", "key.pem"
# Discovery document run v2, workerPools.create, workerPoolId: fewer than 50 characters.
_POOL_NAME_MOST = 49


class GoogleChoices(ManagerChoices):
    """The settings of one runner manager on Cloud Run."""

    EXAMPLE: ClassVar[dict[str, Any]] = {**ManagerChoices.EXAMPLE, "region": "us-central1"}

    region: Annotated[str, Field(pattern=REGION), AfterValidator(network_region)] = Field(
        description="the region where the manager runs and stores its state, such as us-central1"
    )
    alerts: ManagerAlerts | None = ALERTS
    metrics: StrictBool = METRICS
    binary_authorization: StrictBool = BINARY_AUTHORIZATION


class RunnerManagerArgs(GoogleChoices, ComponentArgs):
    """The arguments of a runner manager on Google Cloud."""

    WIRING: ClassVar[frozenset[str]] = frozenset(
        {"project", "labels", "configuration", "app_key", "machine_accounts", "budgets", "standby_templates",
         "bootstrap_roles", "secret_files", "mailboxes"}
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
        default={},
        description="for each pool on Compute Engine, by its name in the configuration, the service account of its "
        "machines, which the manager may use",
    )
    secret_files: dict[Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]{0,60}$")], SecretName] = Field(
        default={},
        description="further secrets in Secret Manager, which the manager reads as files, by the environment variable "
        "with the path of the file",
    )
    mailboxes: dict[str, Input[BucketName]] = Field(
        default={},
        description="the buckets of each gcp.Mailbox, by any name; the manager may read and write their objects, and "
        "sign URLs of them",
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
    the App's key only, and those of `secretFiles`. With `mailboxes`: permission to read and write their objects. With
    `alerts`: two alert policies, and the two
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
    EXAMPLE: ClassVar[dict[str, Any]] = GoogleChoices.EXAMPLE

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
        grants = [
            *(self._machine_grants() if args.machine_accounts else []),
            *self._state_grants(bucket),
            self._secret_grant("app-key", args.app_key),
            *(self._secret_grant(_folder_of(name), secret) for name, secret in args.secret_files.items()),
            *self._mailbox_grants(),
            *self._stopped_machines(),
        ]
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

    def _mailbox_grants(self) -> list[pulumi.Resource]:
        """Grant access to the objects of mailboxes, and the signature of URLs as the manager's own account."""
        granted: list[pulumi.Resource] = [
            gcp.storage.BucketIAMMember(
                f"{self._name}-{name}-user",
                bucket=bucket,
                role="roles/storage.objectUser",
                member=self._member,
                opts=self.child(),
            )
            for name, bucket in sorted(self._args.mailboxes.items())
        ]
        if granted:
            signer = gcp.serviceaccount.IAMMember(
                f"{self._name}-signer",
                service_account_id=self._account.name,
                role="roles/iam.serviceAccountTokenCreator",
                member=self._member,
                opts=self.child(),
            )
            granted.append(signer)
        return granted

    def _secret_grant(self, role: str, secret: str) -> pulumi.Resource:
        return gcp.secretmanager.SecretIamMember(
            f"{self._name}-{role}-reader",
            project=secret.split("/")[1],
            secret_id=secret,
            role="roles/secretmanager.secretAccessor",
            member=self._member,
            opts=self.child(),
        )

    def _worker_pool(
        self, configuration: pulumi.Output[str], grants: list[pulumi.Resource]
    ) -> gcp.cloudrunv2.WorkerPool:
        args = self._args
        command = ["manager", "run", "--json", "--app-key", f"{_KEY_FOLDER}/{_KEY_FILE}"]
        files = {_folder_of(variable): variable for variable in sorted(args.secret_files)}
        envs = [{"name": variable, "value": f"/secrets/{each}/{_KEY_FILE}"} for each, variable in files.items()]
        secrets = {"app-key": (_KEY_FOLDER, args.app_key)} | {
            each: (f"/secrets/{each}", args.secret_files[variable]) for each, variable in files.items()
        }
        template: Any = {
            "service_account": self._account.email,
            # The manager reads its configuration when it starts. The annotation makes Cloud Run start a new
            # revision if the configuration changes.
            "annotations": {"gpu-ci-configuration": pulumi.Output.from_input(args.configuration).apply(_digest)},
            "containers": [
                {
                    "image": args.image,
                    "args": [*command, "--config", configuration, "--state", self.state_object],
                    "resources": {"limits": {"cpu": "1", "memory": "512Mi"}},
                    **({"envs": envs} if envs else {}),
                    # Cloud Run mounts each secret in a folder of its own.
                    "volume_mounts": [{"name": each, "mount_path": folder} for each, (folder, _) in secrets.items()],
                }
            ],
            "volumes": [
                {
                    "name": each,
                    "secret": {
                        "secret": self._secret_name(secret),
                        "items": [{"path": _KEY_FILE, "version": "latest"}],
                    },
                }
                for each, (_, secret) in secrets.items()
            ],
        }
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
            template=template,
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

    def _secret_name(self, secret: str) -> pulumi.Output[str]:
        """Return the secret's name for Cloud Run: the short name if the secret is in the worker pool's project.

        Source: run v2, SecretVolumeSource.
        """
        _, project_of_secret, _, name = secret.split("/")
        project = pulumi.Output.from_input(self._args.project)
        return project.apply(lambda own: name if own == project_of_secret else secret)


def _folder_of(variable: str) -> str:
    """Return the folder and the volume of a secret, such as gpu-ci-jarvislabs-token."""
    return variable.removesuffix("_FILE").lower().replace("_", "-")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
