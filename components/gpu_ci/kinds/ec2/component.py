"""The component Ec2RunnerPool: GPU runners on EC2, without a cluster."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pulumi
import pulumi_aws as aws
from gpu_catalog import cost

from ... import naming, payload
from ...args import Args
from ...aws.mailbox import Mailbox, MailboxArgs
from ...aws.smoke_gate import SmokeGate, SmokeGateArgs
from ...component import Component
from ...labels import merge
from ...machines.agent_config import config_of
from ...mailbox.boot import Definition
from ...pool_args import ManagedPool
from .args import Ec2RunnerPoolArgs
from .kind import KIND

_TAGGED = ("instance", "volume", "network-interface")
_ROOT_DEVICE = "/dev/sda1"
"""The device of the root disk of Canonical's and AWS's images with Ubuntu."""


class Ec2RunnerPool(Component):
    """GPU runners on Amazon EC2 that start on demand. Each machine checks its GPU before it takes a job.

    Creates: a security group without incoming connections, and a launch template. With `ladder`: also a launch template
    for each other instance type and region, and a security group for each other region. Machines have no public
    address and no role: they get no credentials of AWS. Their disk is encrypted and deleted with them.
    The manager gets a version of a template after its smoke check on one machine has passed (aws.SmokeGate).
    Costs: nothing while no machine runs, except for the disks of stopped machines. Each new version costs one machine
    for the minutes of its check.
    Does not: start machines. The runner manager starts them from the template, and registers their runners. A machine
    whose own check fails takes no job. Stopped machines stay if the pool is deleted; `gpu-ci manager reap` deletes
    them.
    Replaces on change of: the security group for another VPC. Other changes create a new version of the template.
    """

    TYPE: ClassVar[str] = KIND.resource_type
    ARGS: ClassVar[type[Args]] = Ec2RunnerPoolArgs
    ENTRY_NAME: ClassVar[str] = KIND.entry_name
    EXAMPLE: ClassVar[dict[str, Any]] = KIND.example

    template: pulumi.Output[str]
    """Id and version of the launch template, such as lt-0a1b2c3d4e5f60718:3."""
    security_group_id: pulumi.Output[str]
    """Id of the machines' security group. Add rules for what jobs need, such as a registry on another port."""
    verdict: pulumi.Output[str]
    """Verdict of the template's check: pass, or unproven."""

    def __init__(self, name: str, args: Ec2RunnerPoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        self._name, self._args = name, args
        self._tags = merge(args.tags, {"gpu-ci-pool": name})
        self._account = aws.get_caller_identity_output(opts=pulumi.InvokeOptions(parent=self)).account_id
        self._groups: dict[str, aws.ec2.SecurityGroup] = {}
        self._egress: list[pulumi.Resource] = []
        gates: dict[tuple[str, str], SmokeGate] = {}
        for rung in args.rungs:
            key = (rung.region, rung.machine_type)
            if key not in gates:
                gates[key] = self._gate(rung, self._template(rung))
        self._rungs = [(rung, gates[rung.region, rung.machine_type].checked_template) for rung in args.rungs]
        self.template, self.verdict = self._rungs[0][1], gates[args.region, args.machine_type].verdict
        self.security_group_id = self._groups[args.region].id
        self.register()

    @classmethod
    def shared(cls, pools: Mapping[str, Any], managers: Sequence[str]) -> dict[str, dict[str, Any]]:
        buckets: dict[str, pulumi.Output[str]] = {}
        for args in pools.values():
            if args.region not in buckets:
                given = MailboxArgs(region=args.region, managers=list(managers), gate=True, tags=args.tags)
                buckets[args.region] = Mailbox(f"mailbox-{args.region}", given).bucket
        return {name: {"mailbox_bucket": buckets[args.region]} for name, args in pools.items()}

    def managed(self) -> ManagedPool | None:
        name, args = self._name, self._args
        if args.github is None:
            return None
        return ManagedPool(
            {
                **args.managed_entry(name),
                "supplier": "ec2",
                "account": self._account,
                "template": self.template,
                "maxRunDurationSec": args.max_run_duration_sec,
                **({"priceCeilingUsd": args.price_ceiling_usd} if args.price_ceiling_usd else {}),
                "mailbox": {"bucket": args.mailbox_bucket, "region": args.region},
                "rungs": [place for rung, template in self._rungs for place in self._places(rung, template)],
            },
            service_account_email=None,
            standby_templates=[],
        )

    def _places(self, rung: Ec2RunnerPoolArgs, template: pulumi.Output[str]) -> Iterator[dict[str, Any]]:
        """Yield a place for each zone of a rung. The pool's own template is omitted."""
        [found] = cost.of_stack([rung.demand(self._name)]).pools
        for zone in rung.zones:
            yield {
                "zone": zone,
                "machineType": rung.machine_type,
                "market": rung.market,
                "gpu": rung.machine.gpu.key,
                "usdPerHour": found.price.usd_per_hour if found.price else None,
                "subnet": rung.subnets[zone],
                "securityGroups": [self._groups[rung.region].id],
                **({"reservation": rung.capacity_reservation_id} if rung.capacity_reservation_id else {}),
                **({} if template is self.template else {"template": template}),
            }

    def _role(self, rung: Ec2RunnerPoolArgs, role: str, *, of_region: bool = False) -> str:
        """Return the name of a resource of the pool or of a rung with another region or type."""
        own = self._args
        if rung.region == own.region and (of_region or rung.machine_type == own.machine_type):
            return f"{self._name}-{role}"
        other = rung.region if of_region else f"{rung.region}-{rung.machine_type}"
        return f"{naming.fit(f'{self._name}-{other}', 80)}-{role}"

    def _security_group(self, rung: Ec2RunnerPoolArgs) -> aws.ec2.SecurityGroup:
        """Return the security group of the rung's region. It allows no incoming connection."""
        region = rung.region
        if region not in self._groups:
            subnet = aws.ec2.get_subnet_output(
                id=rung.subnets[rung.zones[0]], region=region, opts=pulumi.InvokeOptions(parent=self)
            )
            group = aws.ec2.SecurityGroup(
                self._role(rung, "security-group", of_region=True),
                description=f"machines of the GPU runner pool {self._name}",
                vpc_id=subnet.vpc_id,
                region=region,
                tags=self._tags,
                opts=self.child(),
            )
            for port in rung.egress_ports:
                rule = aws.vpc.SecurityGroupEgressRule(
                    self._role(rung, f"egress-{port}", of_region=True),
                    security_group_id=group.id,
                    cidr_ipv4="0.0.0.0/0",
                    ip_protocol="tcp",
                    from_port=port,
                    to_port=port,
                    region=region,
                    tags=self._tags,
                    opts=self.child(),
                )
                self._egress.append(rule)
            self._groups[region] = group
        return self._groups[region]

    def _template(self, rung: Ec2RunnerPoolArgs) -> pulumi.Output[str]:
        """Create the launch template of a rung, and return its id with its version.

        The runner manager adds the market, the subnet and the machine's own user data to each request.
        """
        template = aws.ec2.LaunchTemplate(
            self._role(rung, "template"),
            region=rung.region,
            description=f"machines of the GPU runner pool {self._name}",
            image_id=self._image(rung),
            instance_type=rung.machine_type,
            instance_initiated_shutdown_behavior="terminate",
            block_device_mappings=[
                {
                    "device_name": _ROOT_DEVICE,
                    "ebs": {
                        "volume_type": "gp3",
                        "volume_size": rung.disk_gib,
                        "encrypted": "true",
                        "delete_on_termination": "true",
                    },
                }
            ],
            # With a hop limit of 1, a container of a job cannot reach the service. The agent blocks it for other jobs.
            metadata_options={
                "http_endpoint": "enabled",
                "http_tokens": "required",
                "http_put_response_hop_limit": 1,
                "instance_metadata_tags": "disabled",
            },
            network_interfaces=[
                {
                    "device_index": 0,
                    "associate_public_ip_address": "false",
                    "delete_on_termination": "true",
                    "security_groups": [self._security_group(rung).id],
                }
            ],
            user_data=self._definition(rung),
            update_default_version=True,
            tag_specifications=[{"resource_type": kind, "tags": self._tags} for kind in _TAGGED],
            tags=self._tags,
            opts=self.child(),
        )
        return pulumi.Output.concat(template.id, ":", template.latest_version.apply(str))

    def _gate(self, rung: Ec2RunnerPoolArgs, template: pulumi.Output[str]) -> SmokeGate:
        """Create the check of a template in a zone of the rungs that use it, in the first one's market."""
        machine = (rung.region, rung.machine_type)
        users = [each for each in self._args.rungs if (each.region, each.machine_type) == machine]
        return SmokeGate(
            self._role(rung, "gate"),
            SmokeGateArgs(
                region=rung.region,
                template=template,
                zones=list(dict.fromkeys(zone for each in users for zone in each.zones)),
                subnets=rung.subnets,
                security_groups=[self._groups[rung.region].id],
                market=rung.market,
                capacity_reservation_id=rung.capacity_reservation_id,
                mailbox_bucket=self._args.mailbox_bucket,
                mailbox_region=self._args.region,
                pool=self._name,
                tags=self._tags,
                deadline_sec=rung.smoke.deadline_sec,
                on_no_capacity=rung.smoke.on_no_capacity,
            ),
            # Without the rules, the machine reaches nothing.
            opts=self.child(depends_on=self._egress),
        )

    def _image(self, rung: Ec2RunnerPoolArgs) -> pulumi.Input[str]:
        """Return the id of the image, which an SSM parameter may have."""
        image = rung.chosen_image
        if not image.startswith("/"):
            return image
        options = pulumi.InvokeOptions(parent=self)
        # The provider marks the field `value` as a secret, so the SDK marks the whole result.
        return pulumi.Output.unsecret(
            aws.ssm.get_parameter_output(name=image, region=rung.region, opts=options).insecure_value
        )

    def _definition(self, rung: Ec2RunnerPoolArgs) -> pulumi.Output[str]:
        """Return what the runner manager needs for the boot document of a machine, in base64. It has no secret."""
        registration = rung.registration_of(self._name)
        config = config_of(
            self._name,
            rung.machine,
            rung.smoke.deadline_sec,
            registration,
            torch=rung.torch,
            driver={"source": "image"},
        )

        def encoded(text: str) -> str:
            return base64.b64encode(Definition(json.loads(text), payload.digests()).text().encode()).decode()

        return pulumi.Output.from_input(config).apply(encoded)
