"""The component RentedRunnerPool: GPU runners on rented VMs."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pulumi
from gpu_catalog import cost

from ... import naming, payload
from ...args import Args
from ...component import Component
from ...labels import merge
from ...machines.agent_config import config_of
from ...mailbox.boot import Definition
from ...pool_args import ManagedPool
from .args import RentedRunnerPoolArgs
from .kind import KIND

_MAILBOX = "mailbox-rented"


class RentedRunnerPool(Component):
    """GPU runners on rented VMs that start on demand. Each machine checks its GPU before it takes a job.

    Creates: one object in the mailbox for each machine type and runner manager, with the configuration of the boot
    agent, which has no secret.
    Costs: nothing while no machine runs, except for the disks of paused machines.
    Does not: create anything at the vendor. The runner manager starts the machines, sends them their boot script over
    SSH, and registers their runners. A machine whose own check fails takes no job. Machines have the vendor's public
    address, and no firewall of this package. Paused machines stay if the pool is deleted; `gpu-ci manager reap` deletes
    them.
    Replaces on change of: the object for every field that affects the boot of a machine.
    """

    TYPE: ClassVar[str] = KIND.resource_type
    ARGS: ClassVar[type[Args]] = RentedRunnerPoolArgs
    ENTRY_NAME: ClassVar[str] = KIND.entry_name
    EXAMPLE: ClassVar[dict[str, Any]] = KIND.example

    template: pulumi.Output[str]
    """SHA-256 of the definition of the pool's machines, an object <manager>/templates/<sha256>.json of the mailbox."""
    verdict: pulumi.Output[str]
    """Verdict of a check before the first job: always unproven, because each machine checks itself only."""

    def __init__(self, name: str, args: RentedRunnerPoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        self._name, self._args = name, args
        self._templates = {rung.machine_type: rung for rung in reversed(args.rungs)}
        self._digests = {machine_type: self._template(rung) for machine_type, rung in self._templates.items()}
        self.template = self._digests[args.machine_type]
        self.verdict = pulumi.Output.from_input("unproven")
        self.register()

    @classmethod
    def shared(cls, pools: Mapping[str, Any], managers: Sequence[str]) -> dict[str, dict[str, Any]]:
        args = next(iter(pools.values()))  # the pools have the same mailbox (args.problems_of_all)
        given = {"region": args.mailbox_region, "managers": list(managers)}
        mailbox: Any
        if args.on_google:
            from ...gcp import mailbox as google

            made = google.MailboxArgs(**given, project=args.project, labels=args.labels)
            mailbox = google.Mailbox(_MAILBOX, made)
        else:
            from ...aws import mailbox as amazon

            mailbox = amazon.Mailbox(_MAILBOX, amazon.MailboxArgs(**given, tags=args.tags))
        return {name: {"mailbox_bucket": mailbox.bucket, "managers": list(managers)} for name in pools}

    def managed(self) -> ManagedPool | None:
        name, args = self._name, self._args
        if args.github is None:
            return None
        scheme, region = ("gs", {}) if args.on_google else ("s3", {"region": args.mailbox_region})
        secrets = {"TOKEN": args.api_key, "SSH_KEY": args.ssh_key}
        return ManagedPool(
            {
                **args.managed_entry(name),
                "supplier": args.vendor,
                "account": args.account,
                "template": self.template,
                "storageGb": args.storage_gb,
                "maxRunDurationSec": args.max_run_duration_sec,
                **({"reuse": args.reuse.max_jobs} if args.reuse else {}),
                **({"priceCeilingUsd": args.price_ceiling_usd} if args.price_ceiling_usd else {}),
                "mailbox": {"address": pulumi.Output.concat(scheme, "://", args.mailbox_bucket), **region},
                "rungs": [place for rung in args.rungs for place in self._places(rung)],
            },
            service_account_email=None,
            standby_templates=[],
            secret_files={
                f"GPU_CI_{args.vendor.upper()}_{key}_FILE": secret for key, secret in secrets.items() if secret
            },
            mailboxes={_MAILBOX: args.mailbox_bucket} if args.on_google else {},
        )

    def _places(self, rung: RentedRunnerPoolArgs) -> Iterator[dict[str, Any]]:
        """Yield a place for each zone of a rung. The pool's own template is omitted."""
        [found] = cost.of_stack([rung.demand(self._name)]).pools
        for zone in rung.zones:
            yield {
                "zone": zone,
                "machineType": rung.machine_type,
                "market": "standard",
                "gpu": rung.machine.gpu.key,
                "usdPerHour": found.price.usd_per_hour if found.price else None,
                **(
                    {"template": self._digests[rung.machine_type]}
                    if rung.machine_type != self._args.machine_type
                    else {}
                ),
            }

    def _template(self, rung: RentedRunnerPoolArgs) -> pulumi.Output[str]:
        """Write what the runner manager needs for the boot documents of machines, and return its SHA-256."""
        config = config_of(
            self._name,
            rung.machine,
            rung.smoke.deadline_sec,
            rung.registration_of(self._name),
            torch=rung.torch,
            driver={"source": "image"},
            reuse=rung.reuse is not None,
        )
        text = pulumi.Output.from_input(config).apply(
            lambda given: Definition(json.loads(given), payload.digests()).text()
        )
        sha256 = text.apply(lambda given: hashlib.sha256(given.encode()).hexdigest())
        other = "" if rung.machine_type == self._args.machine_type else f"-{rung.machine_type}"
        written = [
            self._object(
                f"{naming.fit(f'{self._name}{other}', 80)}-{manager}-definition",
                pulumi.Output.concat(manager, "/templates/", sha256, ".json"),
                text,
            )
            for manager in self._args.managers
        ]
        # The manager gets the template after it exists.
        ready = pulumi.Output.all(sha256, *(each.urn for each in written))
        return ready.apply(lambda values: str(values[0]))

    def _object(self, logical_name: str, key: pulumi.Output[str], text: pulumi.Output[str]) -> pulumi.Resource:
        """Write an object of the mailbox. It is kept, because a running manager may still have its name."""
        args, options = self._args, self.child(retain_on_delete=True)
        if args.on_google:
            import pulumi_gcp as gcp

            # The field `content` is a secret, and a preview would not show its changes.
            source = text.apply(pulumi.StringAsset)
            return gcp.storage.BucketObject(
                logical_name, bucket=args.mailbox_bucket, name=key, source=source, content_type="application/json",
                opts=options,
            )  # fmt: skip
        import pulumi_aws as aws

        content = text.apply(lambda given: base64.b64encode(given.encode()).decode())
        return aws.s3.BucketObjectv2(
            logical_name, region=args.mailbox_region, bucket=args.mailbox_bucket, key=key, content_base64=content,
            content_type="application/json", tags=merge(args.tags, {"gpu-ci-pool": self._name}), opts=options,
        )  # fmt: skip
