"""The component RunnerPool: GPU runners on Compute Engine whose instance template has passed a smoke check."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

import pulumi
import pulumi_gcp as gcp
from gpu_catalog import cost

from ... import naming
from ...args import Args
from ...component import Component
from ...gcp import identities
from ...gcp.pool import ladder
from ...gcp.pool.checked_template import checked_template
from ...labels import merge
from ...machines.settings import Standby
from ...pool_args import ManagedPool
from .args import RunnerPoolArgs
from .kind import KIND


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

    TYPE: ClassVar[str] = KIND.resource_type
    ARGS: ClassVar[type[Args]] = RunnerPoolArgs
    FIXED: ClassVar[dict[str, tuple[str, ...]]] = {"group": ("versions", "all_instances_config")}
    EXAMPLE: ClassVar[dict[str, Any]] = KIND.example

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
        # A template for the machines of the pool or of a rung, and its check on one machine in one of the zones.
        checked = partial(
            checked_template,
            pool=name,
            account=account,
            tags=merge(args.labels, {"gpu-ci-pool": name}),
            grants=grants,
            child=self.child,
            registration=args.registration_of(name),
        )
        gate = checked(name, args=args, smoke=args.smoke, zones=args.zones)
        self.rung_templates = list(
            ladder.rung_templates(
                name,
                args,
                lambda logical_name, rung, zones: (
                    checked(logical_name, args=rung, smoke=rung.smoke, zones=zones).checked_template
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
        others = dict.fromkeys(each for _, each in self.rung_templates if each is not None)
        return ManagedPool(
            {
                **args.managed_entry(name),
                "project": args.project,
                "template": self.template,
                "rungs": [place for each in self.rung_templates for place in _places(name, *each)],
            },
            self.service_account_email,
            [self.template, *others] if args.standby else [],
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
