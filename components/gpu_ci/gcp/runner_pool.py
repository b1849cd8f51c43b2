"""GPU runners on Compute Engine: one regional managed instance group whose machines have proven their GPU."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import pulumi
import pulumi_gcp as gcp
from gpu_catalog import Demand, Machine, region_of
from pydantic import ConfigDict, Field, ValidationInfo, field_validator

from .. import naming, versions
from ..args import Args, In, Whole
from ..component import Component
from ..labels import Labels, merge
from . import pool_rules, stack_schema
from .machine_template import machine_template
from .places import Network, Project, Subnetwork
from .pool_parts import GuestAccelerator, RunnerLabel, SmokeSettings
from .pool_rules import default_runner_labels
from .smoke_gate import SmokeGate, SmokeGateArgs


class RunnerPoolArgs(Args):
    """What a GCE runner pool is made of."""

    model_config = ConfigDict(json_schema_extra=stack_schema.add_machines)
    WIRING: ClassVar[frozenset[str]] = frozenset({"project", "network", "subnetwork", "labels"})

    machine_type: str = Field(description="a GCE machine type with a GPU, such as g2-standard-8")
    guest_accelerator: GuestAccelerator | None = Field(
        default=None, validate_default=True, description="the GPUs to attach; for n1 machine types, and only for them"
    )
    zones: list[str] = Field(
        min_length=1, description="zones of one region that have the GPU, such as [us-central1-a, us-central1-b]"
    )
    market: Literal["spot", "standard"] = Field(
        default="spot",
        validate_default=True,
        description="how machines are bought: spot (cheaper, can be taken away) or standard",
    )
    max: Whole = Field(ge=1, le=1000, description="the most machines there may be at any time, 1 to 1000")
    image: str = Field(
        default=versions.GCE_IMAGE,
        validate_default=True,
        pattern=r"^(https://[a-z.]+/compute/v1/)?projects/[a-z0-9.:-]+/global/images/(family/)?[a-z0-9-]+$",
        description="a boot image with an NVIDIA driver, as projects/<project>/global/images/<name>",
    )
    disk_gib: Whole = Field(default=100, ge=30, le=65536, description="size of the boot disk in GiB, 30 to 65536")
    disk_type: Literal["pd-balanced", "pd-ssd", "pd-standard", "hyperdisk-balanced"] | None = Field(
        default=None, description="type of the boot disk; by default pd-balanced where the series takes it"
    )
    runner_labels: list[RunnerLabel] | None = Field(
        default=None,
        min_length=1,
        max_length=100,
        description="labels jobs ask for in runs-on; by default self-hosted, gpu and the pool's name",
    )
    max_run_duration_sec: Whole = Field(
        default=14400,
        ge=600,
        le=604800,
        description="seconds after which a machine is deleted, whatever runs on it, 600 to 604800",
    )
    smoke: SmokeSettings = Field(
        default=SmokeSettings(), validate_default=True, description="the check before the pool takes a template"
    )

    project: In[Project] = Field(description="the id (not the number) of the Google Cloud project the pool is in")
    subnetwork: In[Subnetwork] = Field(
        description="the subnetwork the machines join, in the region of the zones, as "
        "projects/<project>/regions/<region>/subnetworks/<name>"
    )
    network: In[Network] | None = Field(
        default=None,
        description="the network, as projects/<project>/global/networks/<name>; by default the subnetwork's",
    )
    labels: Labels = Field(default={}, description="labels put on everything that takes them")

    @field_validator("machine_type")
    @classmethod
    def _machine_type(cls, value: str) -> str:
        return pool_rules.machine_type(value)

    @field_validator("guest_accelerator", "zones", "market", "image", "disk_type", "smoke")
    @classmethod
    def _against_machine(cls, value: Any, info: ValidationInfo) -> Any:
        rule = "accelerator" if info.field_name == "guest_accelerator" else str(info.field_name)
        return getattr(pool_rules, rule)(value, info.data)

    @field_validator("runner_labels")
    @classmethod
    def _runner_labels(cls, value: list[str] | None) -> list[str] | None:
        return pool_rules.runner_labels(value)

    @classmethod
    def stand_in_wiring(cls, region: str) -> dict[str, Any]:
        return {"project": "acme-ci", "subnetwork": f"projects/acme-ci/regions/{region}/subnetworks/ci"}

    @property
    def region(self) -> str:
        """The region all zones are in."""
        return region_of(self.zones[0])

    @property
    def machine(self) -> Machine:
        """The machine type with its GPUs."""
        found = pool_rules.machine_of(dict(self))
        assert found is not None, "validated arguments always name a machine"  # noqa: S101 - for the type checker
        return found

    def runner_labels_of(self, name: str) -> list[str]:
        """The labels runners of the pool `name` carry."""
        return self.runner_labels or default_runner_labels(name)

    def demand(self, name: str) -> Demand:
        """What the pool `name` asks of Google; its cost and the quotas it needs follow from it."""
        return pool_rules.demand(name, self)


class RunnerPool(Component):
    """GPU runners on Compute Engine, started on demand, each of which has proven its GPU before it takes a job.

    Creates: a service account that may write logs, a regional instance template, a check of that very template on one
    machine (the gate), and a regional managed instance group that takes the template once the check has passed.
    Costs: nothing while no machine runs; each new template costs one machine for the minutes of its check.
    Does not: start runners or register them; the group is made at size 0 and its size is left to whatever resizes it.
    Machines have no public address: to install torch, where the image has none, the network needs a way out.
    Replaces on change of: the template, and with it the gate, for everything a machine boots with (machineType,
    guestAccelerator, market, image, disk, maxRunDurationSec, smoke.deadlineSec, network, labels); the group for zones.
    """

    TYPE: ClassVar[str] = "gpu-ci:gcp:RunnerPool"
    ARGS: ClassVar[type[Args]] = RunnerPoolArgs
    KIND: ClassVar[str] = "gce-runners"
    EXAMPLE: ClassVar[dict[str, Any]] = {
        "machineType": "g2-standard-8",
        "zones": ["us-central1-a", "us-central1-b", "us-central1-c"],
        "market": "spot",
        "max": 4,
    }

    instance_group: pulumi.Output[str]
    """URL of the managed instance group's instances, for what resizes or watches it."""
    template: pulumi.Output[str]
    """Self link of the template the group runs: the last one whose check passed."""
    service_account_email: pulumi.Output[str]
    """The identity of the machines, for grants of what their jobs need."""
    verdict: pulumi.Output[str]
    """What the check of the template said: pass, or unproven."""
    smoke_summary: pulumi.Output[str]
    """The check's own sentence about the machine it ran on."""

    def __init__(self, name: str, args: RunnerPoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        tags = merge(args.labels, {"gpu-ci-pool": name})
        account = gcp.serviceaccount.Account(
            f"{name}-account",
            account_id=naming.fit(f"gpu-{name}-{pulumi.get_stack()}", 30),  # Google's limit; it has no automatic name
            display_name=f"machines of the GPU runner pool {name}",
            project=args.project,
            opts=self.child(),
        )
        # The one right a machine has. What its jobs need is granted by whoever owns it, on this account.
        gcp.projects.IAMMember(
            f"{name}-log-writer",
            member=pulumi.Output.concat("serviceAccount:", account.email),
            project=args.project,
            role="roles/logging.logWriter",
            opts=self.child(),
        )
        template = machine_template(f"{name}-template", name, args, account.email, tags, self.child())
        gate = SmokeGate(
            f"{name}-gate",
            SmokeGateArgs(
                project=args.project,
                zones=args.zones,
                template=template.self_link,
                pool=name,
                labels=tags,
                deadline_sec=args.smoke.deadline_sec,
                on_no_capacity=args.smoke.on_no_capacity,
            ),
            opts=self.child(),
        )
        group = self._group(name, args, gate.checked_template)
        self.instance_group = group.instance_group
        self.template = gate.checked_template
        self.service_account_email = account.email
        self.verdict = gate.verdict
        self.smoke_summary = gate.summary
        self.register()

    def _group(
        self, name: str, args: RunnerPoolArgs, template: pulumi.Output[str]
    ) -> gcp.compute.RegionInstanceGroupManager:
        """The group that runs them: it takes machines where there are any, and never replaces one that has a job."""
        return gcp.compute.RegionInstanceGroupManager(
            f"{name}-group",
            project=args.project,
            region=args.region,
            base_instance_name=name,
            distribution_policy_zones=args.zones,
            # EVEN waits for the zone that has none left; ANY needs redistribution switched off.
            distribution_policy_target_shape="ANY",
            versions=[{"instance_template": template}],
            update_policy={
                "type": "OPPORTUNISTIC",  # PROACTIVE would end running jobs
                "minimal_action": "REPLACE",
                "instance_redistribution_type": "NONE",
                # A regional group takes 0 or at least its number of zones.
                "max_surge_fixed": 0,
                "max_unavailable_fixed": len(args.zones),
            },
            # A machine that fails its check switches itself off; repairing it would only boot the same fault again.
            instance_lifecycle_policy={"default_action_on_failure": "DO_NOTHING"},
            target_size=0,
            wait_for_instances=False,
            opts=self.child(ignore_changes=["targetSize"]),
        )
