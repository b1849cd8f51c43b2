"""The component BuildGpuBridge: GPU machines for single steps of Cloud Build builds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pulumi
import pulumi_gcp as gcp
from gpu_catalog import Demand
from gpu_common import google_permissions
from pydantic import Field, ValidationInfo, field_validator

from .. import naming
from ..args import Args, Integer
from ..component import Component
from ..errors import at_path, invalid, raise_problems
from ..labels import merge
from ..pool_args import PoolArgs
from . import identities, schedules
from .build import rules as build_rules
from .build_program import LOCK, TYPES, archive
from .gpu_bridge import steps
from .gpu_bridge.protocol import OBJECT_SEC, REPORT_SEC, ROLE
from .machine.args import GpuMachineArgs
from .machine.rules import DEFAULT_RUN_LIMIT_SEC
from .pool import ladder, rules
from .pool.checked_template import checked_template
from .pool.ladder import Ladder, LadderSubnetworks
from .pool.settings import SmokeSettings
from .regions import BUILDS_OF_RESTRICTED_PROJECTS
from .resource_names import ImageRepositories
from .smoke_gate import SmokeGate

# Seconds that a machine may need for its sources and container image.
_FETCH_SEC = 900
_SHORTEST_TIMEOUT_SEC = 60
_REAPER_SEC = 600
# A successful build has ended its steps, and so its machines. Cloud Build sends a message for each change of the state,
# and the filter of a trigger has substitutions with parts of the message (cloud.google.com/build/docs/
# subscribe-build-notifications, and cloud.google.com/build/docs/automate-builds-pubsub-events).
_STATUS = {"_STATUS": "$(body.message.attributes.status)"}
_UNSUCCESSFUL = '_STATUS.matches("^(FAILURE|INTERNAL_ERROR|TIMEOUT|CANCELLED|EXPIRED)$")'
# The output cloudbuild: the time of its command, and of what its build does before and after the step's own limits.
_COMMAND_SEC, _OTHER_STEPS_SEC = 1800, 1200
# "must be less than or equal to 24 hours" (cloud.google.com/build/docs/build-config-file-schema, "timeout").
_LONGEST_BUILD_SEC = 86_400
_DAY_SEC = 86_400


def _around_sec(smoke: SmokeSettings) -> int:
    """Return the time of a machine that is not for the command."""
    return smoke.deadline_sec + _FETCH_SEC + REPORT_SEC


def _without_id(link: Any) -> str:
    return str(link).partition("?")[0]


class BuildGpuBridgeArgs(GpuMachineArgs, PoolArgs):
    """The arguments of a bridge: its machines, and the limits of the steps that use them."""

    WIRING: ClassVar[frozenset[str]] = GpuMachineArgs.WIRING | {"ladder_subnetworks", "bootstrap_roles"}
    HAS_GATE: ClassVar[bool] = True
    CREATES: ClassVar[tuple[str, ...]] = (
        *TYPES,
        "gcp:pubsub/topicIAMMember:TopicIAMMember",
        "gcp:serviceaccount/iAMMember:IAMMember",
    )
    CREATES_WITH: ClassVar[Mapping[str, tuple[str, ...]]] = identities.WITH_IMAGES
    LATER_MACHINES: ClassVar[str] = "a build the rights of the pool's output serviceAccountEmail"

    max: Integer = Field(ge=1, le=100, description="the maximum number of machines at any time, 1 to 100")
    wait_sec: Integer = Field(
        default=3600,
        ge=60,
        le=82_800,
        description="seconds that a step waits while other builds use all machines, 60 to 82800",
    )
    source_mib: Integer = Field(
        default=4096, ge=1, le=65_536, description="the maximum size of a workspace in MiB, 1 to 65536"
    )
    artifact_mib: Integer = Field(
        default=2048, ge=1, le=65_536, description="the maximum size of the artifacts of a step in MiB, 1 to 65536"
    )
    image_repositories: ImageRepositories = Field(
        default=[],
        description="Artifact Registry repositories with private images for --image, as "
        "projects/<project>/locations/<location>/repositories/<name>; the machines may read them",
    )
    reap_schedule: schedules.Schedule = Field(
        default="0 * * * *",
        examples=["*/10 * * * *"],
        description="when a build deletes machines that no step needs, as a schedule of Cloud Scheduler in UTC; by "
        "default each hour. Independent of the schedule, such a build starts when a build with the topic of the bridge "
        "fails or is cancelled",
    )
    build_region: build_rules.BuildRegion = Field(
        default=None,
        examples=["us-central1"],
        description="the region of builds that delete machines, by default that of the machines; Google restricts some "
        "projects to a few regions of Cloud Build",
    )
    smoke: SmokeSettings = Field(
        default=SmokeSettings(),
        validate_default=True,
        description="the smoke check of the template, and of each machine before its command",
    )
    ladder: Ladder = Field(
        default=[],
        max_length=20,
        examples=[[{"region": "us-east1"}]],
        description="other zones, regions, machine types and markets that a step tries, in order, when the bridge's "
        "own zones have no capacity; each machine must be at least as capable as the bridge's machine, because a "
        "command may get any of them",
    )
    ladder_subnetworks: LadderSubnetworks = Field(default={})
    bootstrap_roles: identities.BootstrapRoles = False

    @field_validator("market")
    @classmethod
    def _market(cls, value: str) -> str:
        if value == "flex-start":
            raise invalid(
                "is not supported: a step cannot wait for a flex-start machine",
                expected="spot, standard or reservation",
                hint="use market: spot, and --retry-preempted in the step",
            )
        return value

    @field_validator("driver")
    @classmethod
    def _driver(cls, value: Any) -> Any:
        if value.source == "cos":
            raise invalid(
                "is Container-Optimized OS, on which commands of builds cannot be isolated",
                expected="source: image or source: installer",
                hint="remove driver and image",
            )
        return value

    @field_validator("smoke")
    @classmethod
    def _smoke(cls, value: Any, info: ValidationInfo) -> Any:
        limit = info.data.get("max_run_duration_sec") or DEFAULT_RUN_LIMIT_SEC
        if limit - _around_sec(value) < _SHORTEST_TIMEOUT_SEC:
            problem = invalid(
                f"leaves no time for a command: maxRunDurationSec is {limit}, the start of the command has "
                f"{_FETCH_SEC} s, and its artifacts and output have {REPORT_SEC} s",
                expected=f"maxRunDurationSec of at least {_around_sec(value) + _SHORTEST_TIMEOUT_SEC}",
                hint="raise maxRunDurationSec, or lower smoke.deadlineSec",
            )
            raise_problems([at_path(problem, value.deadline_sec, "deadlineSec")])
        return value

    @classmethod
    def placeholder_wiring(cls, region: str, choices: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG003 - has its own
        return ladder.placeholder_wiring(region)

    def demand(self, name: str) -> Demand:
        """Return the machines and disks of the pool `name`, to compute its cost and its quotas."""
        return rules.demand(name, self, self.max, 0)

    def ladder_demands(self, name: str) -> list[Demand]:
        """Return the demand of each rung of the ladder, as if all machines of the pool came from this rung."""
        return [rung.demand(name) for rung in ladder.rungs(self)[1:]]

    def prerequisites(self, path: str) -> Iterator[str]:
        # Google reports a refused build that deletes machines to nobody.
        if (region := self.build_region or self.region) not in BUILDS_OF_RESTRICTED_PROJECTS:
            yield f"{path}: builds in {region}, and {build_rules.RESTRICTED}; hint: set buildRegion"

    @property
    def longest_timeout_sec(self) -> int:
        """The longest --timeout of a step, in seconds."""
        return self.run_limit_sec - _around_sec(self.smoke)


class BuildGpuBridge(Component):
    """GPU machines for steps of Cloud Build builds. A step runs one command on a machine that passed a GPU check.

    Creates: a regional instance template, and a smoke check of that template on one machine (the gate). With `ladder`:
    also a template and a smoke check for each other machine type and region. A bucket for workspaces, output,
    artifacts, the program of the step and its settings; workspaces, output and artifacts are deleted after a day. A
    service account for builds, with custom roles of the permissions that the program's API calls need, limited to
    machines and disks of the pool by their names. A service account for machines, which may read workspaces, write
    output and artifacts, and write logs. With `imageRepositories`, it may also read these repositories. A Pub/Sub topic
    for the states of builds, and a Cloud Build trigger. After a failed or cancelled build, the trigger starts a build
    that deletes machines which no step needs. With `reapSchedule`: another topic and trigger for the same build, and a
    Cloud Scheduler job.
    Costs: nothing while no step runs, except for the bucket and the minutes of the reaper's builds. Each step costs its
    machine from the start to the end of the step. Each new template costs one machine for the minutes of its check.
    Cloud Scheduler costs for each job above three.
    Does not: create triggers, or change cloudbuild.yaml; the output `cloudbuild` has the steps. The machines have no
    public address and no open port. To install torch on an image without it, the network needs internet access, such as
    Cloud NAT.
    Replaces on change of: the template and the gate, for every field that affects the boot of a machine (machineType,
    guestAccelerator, market, reservation, driver, image, torch, disks, nicType, smoke.deadlineSec, network, labels).
    """

    TYPE: ClassVar[str] = "gpu-ci:gcp:BuildGpuBridge"
    ARGS: ClassVar[type[Args]] = BuildGpuBridgeArgs
    KIND: ClassVar[str] = "cloud-build-gpu"
    ENTRY_NAME: ClassVar[str] = "gpu-tests"
    FIXED: ClassVar[dict[str, tuple[str, ...]]] = {"settings": ("*",)}
    EXAMPLE: ClassVar[dict[str, Any]] = {
        "machineType": "g2-standard-8",
        "zones": ["us-central1-a", "us-central1-b", "us-central1-c"],
        "market": "spot",
        "max": 4,
    }

    cloudbuild: pulumi.Output[str]
    """A cloudbuild.yaml with the steps that install the program, and one step that runs nvidia-smi on a machine."""
    settings: pulumi.Output[str]
    """Location of the settings, for the option --settings of a step."""
    program: pulumi.Output[str]
    """Location of the program and its lock, which a build downloads."""
    service_account_email: pulumi.Output[str]
    """Service account of builds. Grant it the access that other steps need, such as to a registry."""
    machine_account_email: pulumi.Output[str]
    """Service account of the machines. The command of a step has no access to it."""
    bucket: pulumi.Output[str]
    """Bucket of the bridge."""
    topic: pulumi.Output[str]
    """Pub/Sub topic for the states of builds, for the field options.pubsubTopic of a build."""
    template: pulumi.Output[str]
    """Self link of the template that passed its check."""
    verdict: pulumi.Output[str]
    """Verdict of the template's check: pass, or unproven."""
    smoke_summary: pulumi.Output[str]
    """Summary that the check reported about its machine."""

    def __init__(self, name: str, args: BuildGpuBridgeArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        self._name, self._args = name, args
        self._tags = merge(args.labels, {"gpu-ci-pool": name})
        self._builds = builds = self._account("account", "build-gpu", f"builds with GPUs of the pool {name}")
        self._machines = machines = self._account("machine-account", "gpu", f"machines of the GPU builds {name}")
        self._objects = bucket = self._bucket()
        # The check machine writes its result to the log, so the check waits for the grants.
        grants_of_machines = self._machine_grants()

        def check(logical_name: str, rung: BuildGpuBridgeArgs, zones: list[str]) -> SmokeGate:
            return checked_template(
                logical_name, name, rung, rung.smoke, zones, machines, self._tags, grants_of_machines, self.child
            )

        gate = check(name, args, args.zones)
        rungs = list(ladder.rung_templates(name, args, lambda *each: check(*each).checked_template))
        needed = [*self._build_grants(), *self._program(gate.checked_template, rungs)]
        topic = self._reaper_of_ended_builds(needed)
        if args.reap_schedule:
            self._scheduled_reaper(args.reap_schedule, needed)
        command_sec = min(_COMMAND_SEC, args.longest_timeout_sec)
        build_sec = min(args.wait_sec + _around_sec(args.smoke) + command_sec + _OTHER_STEPS_SEC, _LONGEST_BUILD_SEC)
        self.cloudbuild = pulumi.Output.all(bucket.name, builds.name, topic.id).apply(
            lambda each: steps.example(each[0], each[1], each[2], command_sec, build_sec)
        )
        self.settings = pulumi.Output.concat("gs://", bucket.name, "/", steps.SETTINGS_OBJECT)
        self.program = pulumi.Output.concat("gs://", bucket.name, "/", steps.folder())
        self.service_account_email = builds.email
        self.machine_account_email = machines.email
        self.bucket = bucket.name
        self.topic = topic.id
        self.template = gate.checked_template
        self.verdict = gate.verdict
        self.smoke_summary = gate.summary
        self.register()

    @property
    def _label(self) -> str:
        return naming.label_of(self._name, pulumi.get_stack())

    @classmethod
    def own_names(cls, name: str, stack: str) -> dict[str, list[str]]:
        own = [naming.machine_prefix(naming.label_of(name, stack), ROLE)]
        return {"instances": own, "disks": own}

    def _account(self, role: str, prefix: str, description: str) -> gcp.serviceaccount.Account:
        return identities.service_account(
            f"{self._name}-{role}", prefix, self._name, description, self._args.project, self.child()
        )

    def _bucket(self) -> gcp.storage.Bucket:
        return gcp.storage.Bucket(
            f"{self._name}-builds",
            project=self._args.project,
            location=self._args.region,
            labels=self._tags,
            uniform_bucket_level_access=True,
            public_access_prevention="enforced",
            versioning={"enabled": False},
            # By default, Cloud Storage would keep each deleted object for a week, and bill it.
            soft_delete_policy={"retention_duration_seconds": 0},
            lifecycle_rules=[
                {
                    "action": {"type": "Delete"},
                    "condition": {"age": OBJECT_SEC // _DAY_SEC, "matches_prefixes": list(steps.EXPIRING)},
                }
            ],
            # The objects are of builds that have ended, or the stack has them.
            force_destroy=True,
            opts=self.child(),
        )

    def _machine_grants(self) -> list[pulumi.Resource]:
        """Grant the machines: read workspaces, create output and artifacts, write logs, read the given repositories."""
        args, machines = self._args, self._machines
        reads, writes = steps.READ_BY_MACHINES, steps.WRITTEN_BY_MACHINES
        return [
            self._in_project("machine-log-writer", "roles/logging.logWriter", machines),
            self._on_objects("machine-reader", "roles/storage.objectViewer", machines, *reads),
            self._on_objects("machine-writer", "roles/storage.objectCreator", machines, *writes),
            *identities.image_readers(self._name, args.image_repositories, machines, self.child()),
        ]

    def _build_grants(self) -> list[pulumi.Resource]:
        """Grant builds the calls of the program, their log, their objects, and the use of the machines' account."""
        builds, name = self._builds, self._name
        reader, writer = self._role("reader", steps.READ), self._role("writer", steps.CHANGE)
        return [
            *identities.on_own_machines(
                name,
                (f"{name}-machines-role", f"gpu-ci-bridge-{name}-machines", f"GPU builds {name}: machines"),
                steps.CALLS,
                self.own_names(name, pulumi.get_stack()),
                builds,
                self._args.project,
                self.child,
                made="bridge" if self._args.bootstrap_roles else "",
            ),
            self._in_project("log-writer", "roles/logging.logWriter", builds),
            gcp.serviceaccount.IAMMember(
                f"{self._name}-machine-account-user",
                service_account_id=self._machines.name,
                role="roles/iam.serviceAccountUser",
                member=identities.member(builds),
                opts=self.child(),
            ),
            self._on_objects("reader", reader, builds, *steps.READABLE, lists="program/"),
            self._on_objects("writer", writer, builds, *steps.CHANGED),
        ]

    def _in_project(
        self, role: str, granted: pulumi.Input[str], account: gcp.serviceaccount.Account
    ) -> pulumi.Resource:
        return identities.in_project(f"{self._name}-{role}", granted, account, self._args.project, self.child())

    def _on_objects(
        self,
        role: str,
        granted: pulumi.Input[str],
        account: gcp.serviceaccount.Account,
        *prefixes: str,
        lists: str = "",
    ) -> gcp.storage.BucketIAMMember:
        """Grant a role on the objects with these prefixes, and for lists of objects with the prefix `lists`."""
        condition: Any = {
            "title": f"objects of {' and '.join(each.rstrip('/') for each in prefixes)}",
            "expression": self._objects.name.apply(lambda name: steps.below(name, *prefixes, lists=lists)),
        }
        return gcp.storage.BucketIAMMember(
            f"{self._name}-{role}",
            bucket=self._objects.name,
            role=granted,
            member=identities.member(account),
            condition=condition,
            opts=self.child(),
        )

    def _role(self, purpose: str, calls: Mapping[str, tuple[str, ...]]) -> pulumi.Output[str]:
        """Create a custom role with the permissions of these calls."""
        return identities.custom_role(
            f"{self._name}-{purpose}-role",
            f"gpu-ci-bridge-{self._name}-{purpose}",
            f"GPU builds {self._name}: {purpose}",
            google_permissions.of_calls(calls),
            self._args.project,
            self.child(),
            f"bridge_{purpose}" if self._args.bootstrap_roles else "",
        )

    def _program(
        self, template: pulumi.Output[str], rungs: Sequence[tuple[BuildGpuBridgeArgs, pulumi.Output[str] | None]]
    ) -> list[gcp.storage.BucketObject]:
        """Create the settings (gpu_bridge/protocol.py) and the program with its lock."""
        args = self._args
        settings = {
            "project": args.project,
            "name": self._label,
            "template": template.apply(_without_id),
            "zones": args.zones,
            "bucket": self._objects.name,
            "max": args.max,
            "check_sec": args.smoke.deadline_sec,
            "fetch_sec": _FETCH_SEC,
            "wait_sec": args.wait_sec,
            "longest_timeout_sec": args.longest_timeout_sec,
            "source_mib": args.source_mib,
            "artifact_mib": args.artifact_mib,
            "labels": self._tags,
            "rungs": [
                {
                    "zone": zone,
                    "machine_type": rung.machine_type,
                    "market": rung.market,
                    "gpu": rung.guest_accelerator.type if rung.guest_accelerator else rung.machine.accelerator,
                    **({} if checked is None else {"template": checked.apply(_without_id)}),
                }
                for rung, checked in rungs
                for zone in rung.zones
            ],
        }
        contents: dict[str, dict[str, Any]] = {
            # Pulumi's Google package makes the field `content` a secret, and a preview would not show its changes.
            steps.SETTINGS_OBJECT: {
                "source": pulumi.Output.json_dumps(settings).apply(pulumi.StringAsset),
                "content_type": "application/json",
            },
            f"{steps.folder()}/{steps.ARCHIVE}": {"source": archive(steps.code())},
            f"{steps.folder()}/{steps.LOCK}": {
                "source": pulumi.StringAsset(steps.PROGRAM.files()[LOCK]),
                "content_type": "text/plain",
            },
        }
        roles = ("settings", "program", "lock")
        return [
            gcp.storage.BucketObject(
                f"{self._name}-{role}",
                bucket=self._objects.name,
                name=path,
                **content,
                # A cloudbuild.yaml names the folder of its version, so an upgrade keeps the older programs. The bucket
                # deletes them with itself.
                opts=self.child(retain_on_delete=role != "settings"),
            )
            for role, (path, content) in zip(roles, contents.items(), strict=True)
        ]

    def _reaper_of_ended_builds(self, needed: list[pulumi.Resource]) -> gcp.pubsub.Topic:
        """Create the topic that builds of the bridge name, and the trigger that reaps after an unsuccessful build.

        The topic belongs to one bridge. Without options.pubsubTopic, a build publishes to the topic cloud-builds, which
        a project has once. So other stacks may use cloud-builds, and builds of the reaper do not start the reaper.
        """
        name, args = self._name, self._args
        topic = gcp.pubsub.Topic(f"{name}-build-events", project=args.project, labels=self._tags, opts=self.child())
        # A build with a topic and an account of its own needs this role (cloud.google.com/build/docs/
        # configuring-notifications/notifiers, "Pub/Sub topics for build notifications").
        publisher = gcp.pubsub.TopicIAMMember(
            f"{name}-build-events-publisher",
            project=args.project,
            topic=topic.name,
            role="roles/pubsub.publisher",
            member=identities.member(self._builds),
            opts=self.child(),
        )
        self._trigger("ended", topic, [*needed, publisher], substitutions=_STATUS, filter=_UNSUCCESSFUL)
        return topic

    def _scheduled_reaper(self, when: str, needed: list[pulumi.Resource]) -> None:
        """Create a trigger that reaps on a schedule, whatever becomes of the messages about builds."""
        name, args = self._name, self._args
        topic = gcp.pubsub.Topic(f"{name}-reaper", project=args.project, labels=self._tags, opts=self.child())
        trigger = self._trigger("reaper", topic, needed)
        unique = self._unique("reaper")
        schedules.job(
            f"{name}-reaper-schedule",
            unique,
            f"starts the trigger {unique}",
            when,
            topic,
            "reap",
            args.project,
            args.build_region or args.region,
            self.child(depends_on=[trigger]),
        )

    def _trigger(
        self, role: str, topic: gcp.pubsub.Topic, needed: list[pulumi.Resource], **condition: Any
    ) -> gcp.cloudbuild.Trigger:
        """Create a trigger of a build that deletes machines which no step needs."""
        name, args = self._name, self._args
        build: Any = {
            "steps": self._objects.name.apply(self._reap_steps),
            "timeout": f"{_REAPER_SEC}s",
            "options": {"logging": "CLOUD_LOGGING_ONLY"},
        }
        return gcp.cloudbuild.Trigger(
            f"{name}-{role}-trigger",
            name=self._unique(role),
            project=args.project,
            location=args.build_region or args.region,
            description=f"deletes machines of the GPU builds {name} that no step needs",
            pubsub_config={"topic": topic.id},
            service_account=self._builds.name,
            build=build,
            opts=self.child(depends_on=needed),
            **condition,
        )

    def _unique(self, role: str) -> str:
        """Return a name for a trigger or job. Several stacks may share a project, so it contains the stack."""
        return naming.fit(f"{self._name}-{role}-{pulumi.get_stack()}", 63)

    def _reap_steps(self, bucket: str) -> list[dict[str, Any]]:
        reap = steps.step("reap", ["reap", "--project", "$PROJECT_ID", "--bridge", self._label])
        # Pulumi's package has envs, and the API has the field env.
        reap["envs"] = reap.pop("env")
        return [*steps.prepare_steps(bucket), reap]
