"""EC2 as a supplier of machines. The records and the channel of its machines are in a mailbox (gpu_manager/mailboxes).

A record is written before EC2 is asked for its instance. Its id is the client token and a tag of the instance, so
that a repeated request starts no second one. An instance that ends is terminated by EC2, and EC2 lists it for about an
hour. The manager lists the machine until it has read its end and has deleted its record.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from gpu_catalog.locations import region_of
from gpu_ci.aws.ec2_requests import market_options
from gpu_ci.mailbox.boot import mail_key

from ...mailboxes.channel import converted_errors as converted_object_errors
from ...mailboxes.mailboxes import END, Record
from ...mailboxes.supplier import Known, MailboxSupplier, Row
from ...model import Machine, Offer, Pool
from ...ports import Refused, Unavailable
from .api import Body, Clients, converted_errors, converted_insert_errors, reason, start_error, state, tags
from .pool import Ec2Offer, Ec2Pool

MANAGER, POOL, JOB, TEMPLATE = "gpu-ci:manager", "gpu-ci:pool", "gpu-ci:job", "gpu-ci:template"
"""Tags of the instances, their volumes and their Spot requests."""
ID = "gpu-ci:machine-id"
"""Tag with the id of the machine (Record.id)."""
REGISTERED_BY = "gpu-ci:registered-by"
_STATUS = {
    "pending": "PROVISIONING", "running": "RUNNING", "shutting-down": "STOPPING", "stopping": "STOPPING",
    "stopped": "STOPPED", "terminated": "TERMINATED",
}  # fmt: skip
_MARKETS = {"spot": "spot", "capacity-block": "reservation"}
"""Values of Instance.InstanceLifecycle, which a machine of the market standard does not have."""
_PREEMPTED_WITHIN_SEC = 3600.0
_STOPPED = "stopped"
"""The object that the manager writes when it stops a machine for standby."""


def request(record: Record, pool: Ec2Pool, offer: Ec2Offer, manager: str) -> Body:
    """Return the parameters of RunInstances. They are equal for a repeated request, as its client token requires."""
    template, _, version = record.template.rpartition(":")
    labels = {
        "Name": record.name, MANAGER: manager, POOL: record.pool, JOB: record.job, ID: record.id,
        TEMPLATE: record.template, REGISTERED_BY: record.registered_by,
    }  # fmt: skip
    tagged = ["instance", "volume", *(["spot-instances-request"] if offer.market == "spot" else [])]
    written = [{"Key": key, "Value": value} for key, value in labels.items()]
    return {
        "MinCount": 1,
        "MaxCount": 1,
        "ClientToken": record.id,
        "LaunchTemplate": {"LaunchTemplateId": template, "Version": version},
        "InstanceType": record.machine_type,
        "UserData": record.user_data,
        "InstanceInitiatedShutdownBehavior": "terminate",
        "NetworkInterfaces": [
            {"DeviceIndex": 0, "SubnetId": offer.subnet, "Groups": list(offer.security_groups),
             "AssociatePublicIpAddress": False, "DeleteOnTermination": True}
        ],
        "TagSpecifications": [{"ResourceType": each, "Tags": written} for each in tagged],
        **market_options(offer.market, offer.reservation, pool.price_ceiling_usd),
    }  # fmt: skip


class Ec2(MailboxSupplier):
    """The machines of one manager, for use by one thread. It changes only instances with the manager's tag."""

    TITLE = "EC2"
    POOL = Ec2Pool
    # AWS names no limit, and expects seconds.
    LISTED_WITHIN_SEC = 120.0
    HOST = "ec2"
    REPEATS = True

    def __init__(self, *args: Any, **values: Any) -> None:
        super().__init__(*args, **values)
        self._clients = Clients()
        self._deleted: set[str] = set()
        """The machines that this process has deleted, until EC2 no longer lists them."""

    def _request(self, pool: Pool, record: Record, subject: str) -> None:
        # EC2 recognizes a client token for at least 24 hours after its instance's termination (docs.aws.amazon.com/ec2/
        # latest/devguide/ec2-api-idempotency.html). The record may be of another place than the new request.
        place = (record.zone, record.machine_type, record.market, record.template)
        for offer in pool.rungs:
            if (offer.zone, offer.machine_type, offer.market, pool.template_of(offer)) == place:
                body = request(record, cast(Ec2Pool, pool), cast(Ec2Offer, offer), self._manager)
                with converted_insert_errors(subject):
                    self._clients(region_of(record.zone)).run_instances(**body)
                return
        # A further request opens another record.
        self._mailboxes.close(record)
        raise Unavailable(f"{record.name} was requested in {record.zone}, which is no longer a place of the pool")

    def list(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
        listed = self._listed(pools)
        for record, row, mail, _ in listed:
            if row and row.status == "TERMINATED" and END not in mail:
                self._mailboxes.end(record.id, "stopped", f"EC2 terminated the instance: {reason(row.value)}")
        return tuple(map(self._machine, listed))

    def start_again(self, machine: Machine, request_id: str) -> str:  # noqa: ARG002 - EC2 has none for this request
        subject = f"the start of {machine.name} in {machine.zone}"
        row = self._find(machine.id, machine.region, subject)
        if row and row.status in ("PROVISIONING", "RUNNING"):
            return machine.id
        if row is None or row.status != "STOPPED":
            raise Unavailable(f"{subject}: the instance is {state(row.value) if row else 'missing'}, and not stopped")
        definition = self._defined(machine.region, machine.template, subject)
        self._mailboxes.renew(machine)
        # The URLs of the earlier script may have ended with the credentials that signed them.
        script, ec2 = self._mailboxes.boot_again(machine, definition, self.HOST), self._clients(machine.region)
        with converted_insert_errors(subject):
            ec2.modify_instance_attribute(InstanceId=row.key, UserData={"Value": script.encode()})
            ec2.start_instances(InstanceIds=[row.key])
        return machine.id

    def preempted(self, pools: Sequence[Pool]) -> frozenset[str]:
        # Only AWS's times are compared, because this computer's clock may be wrong.
        found = [
            (each["Status"]["UpdateTime"].timestamp(), tags(each))
            for region in dict.fromkeys(rung.region for pool in pools for rung in pool.rungs if rung.preemptible)
            for each in self._clients.interrupted(region, {f"tag:{MANAGER}": self._manager})
        ]
        since = max((at for at, _ in found), default=0.0) - _PREEMPTED_WITHIN_SEC
        return frozenset(f"{own.get('Name')}-{own.get(ID)}" for at, own in found if at >= since)

    def _account(self, region: str) -> str:
        return self._clients.account(region)

    def _rows(self, regions: Collection[str]) -> Iterable[Row]:
        rows = [row for region in sorted(regions) for row in self._instances(region, f"tag:{MANAGER}", self._manager)]
        self._deleted &= {row.record.id for row in rows}
        return _ordered(rows)

    def _find(self, machine_id: str, region: str, subject: str) -> Row | None:
        name = "instance-id" if machine_id.startswith("i-") else f"tag:{ID}"
        row = next(iter(_ordered(self._instances(region, name, machine_id))), None)
        if row and tags(row.value).get(MANAGER) != self._manager:
            raise Refused(f"{subject}: its tag {MANAGER} is not {self._manager}")
        return row

    def _instances(self, region: str, name: str, value: str) -> Sequence[Row]:
        return [_row(each) for each in self._clients.instances(region, {name: value})]

    def _is_gone(self, known: Known) -> bool:
        if known.row is None:  # it was terminated more than an hour ago, or never began
            return END not in known.mail
        return known.row.status == "TERMINATED" and known.record.id in self._deleted

    def _remove(self, row: Row, machine: Machine, subject: str) -> None:
        with converted_errors(subject):
            self._clients(machine.region).terminate_instances(InstanceIds=[row.key])
        self._deleted.add(machine.id)

    def _stop(self, row: Row, subject: str) -> None:
        # The shutdown behavior is `terminate`, which only applies to a shutdown from within the instance (docs.aws.
        # amazon.com/AWSEC2/latest/UserGuide/Using_ChangingInstanceInitiatedShutdownBehavior.html).
        with converted_object_errors():
            self._objects.write(mail_key(self._manager, row.record.id, _STOPPED), b"")
        with converted_errors(subject):
            self._clients(region_of(row.record.zone)).stop_instances(InstanceIds=[row.key])

    def _machine(self, known: Known) -> Machine:
        machine = super()._machine(known)
        if machine.status == "TERMINATED" and _STOPPED in known.mail:
            # It has reported `stopped`, and it never starts again.
            return replace(machine, template="")
        # EC2 says no time of a stop.
        return replace(machine, off_unix=known.mail.get(_STOPPED, 0.0)) if machine.off else machine

    def software(self, pool: Pool, offer: Offer) -> Mapping[str, str]:
        image = self._launch_template(offer.region, pool.template_of(offer)).get("ImageId", "unknown")
        return {"image": str(image), **super().software(pool, offer)}

    def _definition(self, region: str, template: str) -> str:
        user_data = self._launch_template(region, template).get("UserData", "")
        return base64.b64decode(user_data, validate=True).decode()

    def _launch_template(self, region: str, template: str) -> Body:
        """Return the data of a version of a launch template."""
        template_id, _, version = template.rpartition(":")
        with converted_insert_errors(f"the launch template {template} in {region}"):
            answer = self._clients(region).describe_launch_template_versions(
                LaunchTemplateId=template_id, Versions=[version]
            )
            data: Body = answer["LaunchTemplateVersions"][0]["LaunchTemplateData"]
            return data


def _ordered(rows: Iterable[Row]) -> Sequence[Row]:
    """Return the instances with a machine's own client token first. A copy that a person launches has its tags only."""
    return sorted(rows, key=lambda row: (row.value.get("ClientToken") != row.record.id, row.on_unix))


def _row(value: Body) -> Row:
    own, instance, since = tags(value), str(value["InstanceId"]), value["LaunchTime"].timestamp()
    record = Record(
        own.get("Name", instance), own.get(ID, instance), own.get(POOL, ""), own.get(JOB, ""), own.get(TEMPLATE, ""),
        zone=value["Placement"]["AvailabilityZone"], machine_type=value["InstanceType"],
        market=_MARKETS.get(value.get("InstanceLifecycle", ""), "standard"), account=value["OwnerId"],
        registered_by=own.get(REGISTERED_BY, "manager"),
    )  # fmt: skip
    status, is_ended = _STATUS.get(state(value), "RUNNING"), state(value) in ("shutting-down", "terminated")
    return Row(value, instance, status, is_ended, record, since, start_error(value))


SUPPLIER = Ec2
