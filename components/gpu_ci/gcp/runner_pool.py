"""The component RunnerPool: GPU runners on Compute Engine whose instance template has passed a smoke check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import pulumi
import pulumi_gcp as gcp
from gpu_catalog import Demand, cost
from gpu_common import google_permissions
from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from .. import naming
from ..args import Args, Integer
from ..component import Component
from ..errors import Problem
from ..labels import merge
from ..pool_args import ManagedPool, PoolArgs, Surroundings
from ..secret_manager import SecretName
from . import identities
from .machine.args import GpuMachineArgs
from .machine.runner import Registration, RunnerGithub, RunnerSettings
from .pool import ladder, rules
from .pool.checked_template import checked_template
from .pool.ladder import Ladder, LadderSubnetworks
from .pool.settings import RunnerLabel, SmokeSettings, Standby
from .smoke_gate import SmokeGate


class RunnerPoolArgs(GpuMachineArgs, PoolArgs):
    """The arguments of a Compute Engine runner pool: its machines, and the software that runs on them."""

    # The fields that the program sets, not the stack file.
    WIRING: ClassVar[frozenset[str]] = GpuMachineArgs.WIRING | {"github", "ladder_subnetworks"}
    REGISTERED_BY: ClassVar[Literal["machines"]] = "machines"
    HAS_GATE: ClassVar[bool] = True
    CREATES: ClassVar[tuple[str, ...]] = (
        "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager",
        "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate",
        *identities.TYPES,
    )
    CREATES_WITH: ClassVar[Mapping[str, tuple[str, ...]]] = {"secrets": (google_permissions.SECRET_MEMBER,)}

    max: Integer = Field(ge=1, le=1000, description="the maximum number of machines at any time, 1 to 1000")
    runner_labels: Annotated[list[RunnerLabel], AfterValidator(rules.runner_labels)] | None = Field(
        default=None,
        min_length=1,
        max_length=100,
        description="the labels that jobs name in runs-on; by default self-hosted, gpu and the pool's name",
    )
    wait_objective_sec: Integer | None = Field(
        default=None,
        ge=60,
        le=86400,
        description="seconds that a job may wait for its runner before the alert about late jobs, 60 to 86400; by "
        "default waitObjectiveSec of gpu-ci:manager.alerts",
    )
    github: RunnerGithub | None = Field(
        default=None,
        description="the registration of the machines' runners on GitHub; by default the pool has no runners",
    )
    standby: Standby | None = Field(
        default=None,
        description="machines that are stopped until a job needs them, and start faster; by default none. Not "
        "supported if machines register their runners themselves",
    )
    smoke: SmokeSettings = Field(
        default=SmokeSettings(),
        validate_default=True,
        description="the smoke check that a template must pass before the pool uses it",
    )
    runner: RunnerSettings = Field(
        default=RunnerSettings(),
        description="settings of the GitHub runner on each machine, for pools with runners",
    )
    secrets: Annotated[list[SecretName], AfterValidator(rules.each_once)] = Field(
        default=[],
        max_length=50,
        description="secrets in Secret Manager that the machines may read, as projects/<project>/secrets/<name>; in "
        "pools with runners this requires runner.docker: rootful, because other jobs have no access to the machine's "
        "identity",
    )
    ladder: Ladder = Field(
        default=[],
        max_length=20,
        examples=[[{"region": "us-east1"}]],
        description="other zones, regions and machine types that the runner manager tries, in order, when the pool's "
        "own zones have no capacity; each machine must be at least as capable as the pool's machine, because a job "
        "may get any of them",
    )
    price_ceiling_usd: float | None = Field(
        default=None,
        gt=0,
        description="the maximum catalog price of one machine, in USD per hour; the runner manager starts no machine "
        "above that price; by default no maximum",
    )
    ladder_subnetworks: LadderSubnetworks = Field(default={})

    @field_validator("price_ceiling_usd")
    @classmethod
    def _price_ceiling(cls, value: float | None, info: ValidationInfo) -> float | None:
        if value is None or "ladder" not in info.data or not ladder.own_machine(info.data):
            return value
        offers = [info.data, *(ladder.machine_fields(rung, info.data) for rung in info.data["ladder"])]
        return ladder.price_ceiling(value, offers)

    @field_validator("standby", "smoke", "runner", "github", "secrets")
    @classmethod
    def _check_with_earlier_pool_fields(cls, value: Any, info: ValidationInfo) -> Any:
        return getattr(rules, str(info.field_name))(value, info.data)

    @classmethod
    def placeholder_wiring(cls, region: str, choices: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG003 - EKS uses it
        return ladder.placeholder_wiring(region)

    def runner_labels_of(self, name: str) -> list[str]:
        """Return the runner labels of the pool `name`."""
        return self.runner_labels or rules.default_runner_labels(name)

    def demand(self, name: str) -> Demand:
        """Return the machines and disks of the pool `name`, to compute its cost and its quotas."""
        return rules.demand(name, self, self.max, self.standby.stopped_size if self.standby else 0)

    def ladder_demands(self, name: str) -> list[Demand]:
        """Return the demand of each rung of the ladder, as if all machines of the pool came from this rung."""
        return [rung.demand(name) for rung in self.rungs[1:]]

    @classmethod
    def default_labels(cls, name: str) -> list[str]:
        return rules.default_runner_labels(name)

    @classmethod
    def problems_with_runners(cls, choices: Mapping[str, Any], registers: bool) -> list[Problem]:
        return rules.problems_with_runners(choices, registers)

    @property
    def runner_version(self) -> str:
        return self.runner.version

    @property
    def registered_runner(self) -> str | None:
        return self.runner.version if self.github else None

    def with_runner_group(self, group: pulumi.Output[str]) -> RunnerPoolArgs:
        if self.github is None:
            return self
        return self.model_copy(update={"github": self.github.model_copy(update={"runner_group": group})})

    def outputs(self, name: str) -> dict[str, Any]:
        return {"runnerLabels": self.runner_labels_of(name), "registersRunners": self.github is not None}

    def warnings(self, path: str, around: Surroundings) -> Iterator[str]:
        yield from super().warnings(path, around)
        # docs/adr/0012
        if self.github and self.github.private_key and self.runner.docker == "rootful":
            yield (
                f"{path}.runner.docker: a job that has rootful Docker is root on its machine, and can read "
                f"{self.github.private_key}, with which it is the App in every repository the App is installed in; "
                "hint: docker: rootless, or trust every workflow that the runner group lets in"
            )
        if not around.missing_for_manager:
            return
        hint = f"hint: give {', '.join(around.missing_for_manager)}"
        if self.ladder:
            text = "its templates are checked, but only the runner manager starts machines there"
            yield f"{path}.ladder: {text}; {hint}, or leave ladder out"
        if self.price_ceiling_usd:
            text = "only the runner manager reads this field"
            yield f"{path}.priceCeilingUsd: {text}; {hint}, or remove priceCeilingUsd"
        if self.market == "flex-start":
            text = "a new size of the group gets no flex-start machine, only the runner manager does"
            yield f"{path}.market: {text}; {hint}"

    @property
    def rungs(self) -> list[RunnerPoolArgs]:
        """The arguments of the pool itself, followed by the arguments of a pool with the machine of each rung."""
        return ladder.rungs(self)

    def registration_of(self, name: str) -> Registration | None:
        """Return the registration settings of machines of the pool `name`, or None for a pool without runners."""
        return Registration(self.github, self.runner, self.runner_labels_of(name)) if self.github else None


class RunnerPool(Component):
    """GPU runners on Compute Engine that start on demand. Each machine checks its GPU before it takes a job.

    Creates: a service account that may write logs and read the secrets in `secrets`; a regional instance template; a
    smoke check of that template on one machine (the gate); and a regional managed instance group. The group gets the
    template after the check has passed. With `github`, the check also verifies that the machine can run a runner. Each
    machine then runs one runner for one job, and ends. With a GitHub App in `github`, the machines register their
    runners, and the service account may read the App's key. Without an App, the runner manager registers the runners,
    and no machine can read a key. With `ladder`: also a template and a smoke check for each other machine type and
    region.
    Costs: nothing while no machine runs. Each new template costs one machine for the minutes of its check.
    Does not: start machines. The runner manager starts machines from the same template. The group has the size 0.
    Machines have no public address. To install torch on an image without it, the network needs internet access, such as
    Cloud NAT. Resizing the group does not start flex-start machines; the manager requests each of them.
    Replaces on change of: the template and the gate, for every field that affects the boot of a machine (machineType,
    guestAccelerator, market, reservation, driver, image, torch, disks, nicType, maxRunDurationSec, smoke.deadlineSec,
    runner, runnerLabels and github where machines register runners, network, labels); the group for zones.
    """

    TYPE: ClassVar[str] = "gpu-ci:gcp:RunnerPool"
    ARGS: ClassVar[type[Args]] = RunnerPoolArgs
    KIND: ClassVar[str] = "gce-runners"
    INIT_OPTIONS: ClassVar[tuple[str, ...]] = ("project",)
    FIXED: ClassVar[dict[str, tuple[str, ...]]] = {"group": ("versions", "all_instances_config")}
    EXAMPLE: ClassVar[dict[str, Any]] = {
        "machineType": "g2-standard-8",
        "zones": ["us-central1-a", "us-central1-b", "us-central1-c"],
        "market": "spot",
        "max": 4,
    }

    instance_group: pulumi.Output[str]
    """URL of the instances of the managed instance group, for programs that resize or watch the group."""
    template: pulumi.Output[str]
    """Self link of the group's template: the most recent one that passed its check."""
    service_account_email: pulumi.Output[str]
    """Email of the machines' service account. Grant it the access that jobs need."""
    verdict: pulumi.Output[str]
    """Verdict of the template's check: pass, or unproven."""
    smoke_summary: pulumi.Output[str]
    """Summary that the check reported about its machine."""

    def __init__(self, name: str, args: RunnerPoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        self._name, self._args = name, args
        account = identities.service_account(
            f"{name}-account",
            "gpu",
            name,
            f"machines of the GPU runner pool {name}",
            args.project,
            self.child(),
        )
        # Apart from secrets, this is the only permission of a machine. To give jobs access to another resource, its
        # owner grants the access to this service account.
        log_writer = identities.in_project(
            f"{name}-log-writer", "roles/logging.logWriter", account, args.project, self.child()
        )
        for secret in args.secrets:
            self._grant_secret(f"{name}-{naming.fit(secret, 60)}-reader", secret, account)
        # The check machine writes its result to the log and reads the key, so the check waits for both grants.
        app_key = args.github.private_key if args.github else None
        key_grant = [self._grant_secret(f"{name}-app-key-reader", app_key, account)] if app_key else []
        grants = [log_writer, *key_grant]
        gate = self._checked_template(name, name, args, args.zones, account, grants)
        self.rung_templates = list(
            ladder.rung_templates(
                name,
                args,
                lambda logical_name, rung, zones: (
                    self._checked_template(logical_name, name, rung, zones, account, grants).checked_template
                ),
            )
        )
        """For the runner manager: the pool's own machine and the machine of each rung, with their checked templates.

        None stands for the pool's own template.
        """
        group = self._group(name, args, gate.checked_template)
        self.instance_group = group.instance_group
        self.template = gate.checked_template
        self.service_account_email = account.email
        self.verdict = gate.verdict
        self.smoke_summary = gate.summary
        self.register()

    def managed(self) -> ManagedPool | None:
        name, args = self._name, self._args
        if args.github is None:
            return None
        # A machine has registerSec to download the runner. If the manager registers the runner, the machine then waits
        # for the registration, for at most registerSec.
        ready_sec = args.runner.register_sec * (2 if args.github.registered_by == "manager" else 1)
        others = dict.fromkeys(each for _, each in self.rung_templates if each is not None)
        return ManagedPool(
            {
                **({} if args.wait_objective_sec is None else {"waitObjectiveSec": args.wait_objective_sec}),
                "name": name,
                "project": args.project,
                "template": self.template,
                "max": args.max,
                "labels": args.runner_labels_of(name),
                "runnerGroup": args.github.runner_group,
                "registeredBy": args.github.registered_by,
                "bootSec": args.smoke.deadline_sec + ready_sec,
                "idleSec": args.runner.idle_sec,
                **({"standby": args.standby.stopped_size} if args.standby else {}),
                **({"priceCeilingUsd": args.price_ceiling_usd} if args.price_ceiling_usd else {}),
                "rungs": [place for each in self.rung_templates for place in _places(name, *each)],
            },
            self.service_account_email,
            [self.template, *others] if args.standby else [],
        )

    def _checked_template(
        self,
        logical_name: str,
        name: str,
        args: RunnerPoolArgs,
        zones: list[str],
        account: gcp.serviceaccount.Account,
        grants: Sequence[pulumi.Resource],
    ) -> SmokeGate:
        """Create a template for the machines of `args`, and its check on one machine in one of the zones."""
        return checked_template(
            logical_name,
            name,
            args,
            args.smoke,
            zones,
            account,
            merge(args.labels, {"gpu-ci-pool": name}),
            grants,
            self.child,
            args.registration_of(name),
        )

    def _grant_secret(self, logical_name: str, secret: str, account: gcp.serviceaccount.Account) -> pulumi.Resource:
        """Grant the machines read access to one secret, and to no other secret of its project."""
        return gcp.secretmanager.SecretIamMember(
            logical_name,
            secret_id=secret,
            member=identities.member(account),
            role="roles/secretmanager.secretAccessor",
            opts=self.child(),
        )

    def _group(
        self, name: str, args: RunnerPoolArgs, template: pulumi.Output[str]
    ) -> gcp.compute.RegionInstanceGroupManager:
        """Create the managed instance group, which uses any zone with capacity and never replaces a busy machine."""
        return gcp.compute.RegionInstanceGroupManager(
            f"{name}-group",
            project=args.project,
            region=args.region,
            base_instance_name=name,
            distribution_policy_zones=args.zones,
            # With EVEN, the group would wait for a zone without capacity. ANY requires that redistribution is off.
            distribution_policy_target_shape="ANY",
            versions=[{"instance_template": template}],
            update_policy={
                "type": "OPPORTUNISTIC",  # PROACTIVE would stop running jobs
                "minimal_action": "REPLACE",
                "instance_redistribution_type": "NONE",
                # A regional group accepts 0, or at least its number of zones.
                "max_surge_fixed": 0,
                "max_unavailable_fixed": len(args.zones),
            },
            # A machine that fails its check turns itself off. Repairing it would repeat the same failure.
            instance_lifecycle_policy={"default_action_on_failure": "DO_NOTHING"},
            target_size=0,
            # In pools with runners, the manager stops and starts the machines, and they are not members of the group.
            **_standby(None if args.github else args.standby),
            wait_for_instances=False,
            opts=self.child(ignore_changes=["targetSize"]),
        )


def _places(name: str, rung: RunnerPoolArgs, template: pulumi.Output[str] | None) -> Iterator[dict[str, Any]]:
    """Yield a place for each zone of a rung. The pool's own template is omitted."""
    [found] = cost.of_stack([rung.demand(name)]).pools
    for zone in rung.zones:
        yield {
            "zone": zone,
            "machineType": rung.machine_type,
            "market": rung.market,
            "gpu": rung.guest_accelerator.type if rung.guest_accelerator else rung.machine.accelerator,
            "usdPerHour": found.price.usd_per_hour if found.price else None,
            **({} if template is None else {"template": template}),
        }


def _standby(chosen: Standby | None) -> dict[str, Any]:
    """Return the standby arguments of the managed instance group."""
    if chosen is None:
        return {
            "target_stopped_size": 0
        }  # without this, the stopped machines of an earlier setting would stay, and cost
    policy = {"mode": chosen.mode.upper().replace("-", "_"), "initial_delay_sec": chosen.initial_delay_sec}
    return {"standby_policy": policy, "target_stopped_size": chosen.stopped_size}
