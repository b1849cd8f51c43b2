"""The component BuildGpuBridge: GPU machines for single steps of Cloud Build builds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pulumi
import pulumi_gcp as gcp
from gpu_common import google_permissions

from ... import naming
from ...args import Args
from ...component import Component
from ...gcp import identities, schedules
from ...gcp.build_program import LOCK, archive
from ...gcp.gpu_bridge import steps
from ...gcp.gpu_bridge.protocol import OBJECT_SEC, ROLE
from ...gcp.pool import ladder
from ...gcp.pool.checked_template import checked_template
from ...gcp.smoke_gate import SmokeGate
from ...labels import merge
from .args import FETCH_SEC, BuildGpuBridgeArgs, around_sec
from .kind import KIND

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


def _without_id(link: Any) -> str:
    return str(link).partition("?")[0]


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

    TYPE: ClassVar[str] = KIND.resource_type
    ARGS: ClassVar[type[Args]] = BuildGpuBridgeArgs
    ENTRY_NAME: ClassVar[str] = KIND.entry_name
    FIXED: ClassVar[dict[str, tuple[str, ...]]] = {"settings": ("*",)}
    EXAMPLE: ClassVar[dict[str, Any]] = KIND.example

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
        build_sec = min(args.wait_sec + around_sec(args.smoke) + command_sec + _OTHER_STEPS_SEC, _LONGEST_BUILD_SEC)
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
            "fetch_sec": FETCH_SEC,
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
