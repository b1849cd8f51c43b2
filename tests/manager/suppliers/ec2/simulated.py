"""EC2 and S3 in the simulated world. The supplier itself runs on them.

EC2 recognizes a client token, lists an instance some seconds after its request, and lists an instance that has ended
for an hour, whose tags it forgets earlier. Only the channel is that of the other histories.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError
from gpu_manager.model import Machine, Pool
from gpu_manager.suppliers.ec2.supplier import Ec2

from tests.manager.simulated_vendors import FakeCompute, Faulty
from tests.manager.simulated_world import BrokenRuleError, Life, Vm, World
from tests.manager.suppliers.ec2.conftest import ACCOUNT, BUCKET, DEFINITION, SUBNETS
from tests.manager.suppliers.faulty_bucket import FaultyBucket

_STATES = {"STAGING": "pending", "RUNNING": "running", "STOPPING": "shutting-down", "TERMINATED": "terminated"}
_BY_API, _BY_ITSELF = "Client.UserInitiatedShutdown", "Client.InstanceInitiatedShutdown"
_ERRORS = ("InsufficientInstanceCapacity", "Unsupported", "MaxSpotInstanceCountExceeded", "UnauthorizedOperation")
_FORGETS_TAGS_SEC, _LISTED_SEC = 300, 3600


@dataclass
class Instance:
    """A row of EC2's list."""

    vm: Vm
    request: dict[str, Any]
    number: str
    reason: str = _BY_ITSELF
    ended: float | None = None
    is_stopped: bool = False
    """True from a stop to the next start, or to its termination."""
    script: Any = None
    """The user data for its next start."""


@dataclass
class Ec2World(World):
    """A world whose machines are instances of EC2."""

    instances: dict[str, Instance] = field(default_factory=dict)
    """All instances by client token, which is the machine's id."""
    bucket: dict[str, bytes] = field(default_factory=dict)

    def remove(self, vm: Vm) -> None:
        """Terminate an instance. Its machine is gone when the manager deletes its record."""
        self.instances[vm.machine.id].reason = self.chance.choice((_BY_API, "Server.InternalError"))
        vm.job, vm.runner_id, vm.idle_since = None, 0, None
        self._set(vm, "TERMINATED")

    def crash(self, vm: Vm) -> None:
        """End a machine. EC2 says no time of the end, so one that was never listed on has none to compare with."""
        if self.now >= vm.listed_at:
            super().crash(vm)

    def preempt(self, vm: Vm) -> None:
        if self.now >= vm.listed_at:
            super().preempt(vm)

    def forge(self) -> None:
        """Do nothing: a machine without a mailbox gets no registration."""


class Bucket(FaultyBucket):
    """The mailbox."""

    def __init__(self, world: Ec2World, faulty: Faulty) -> None:
        super().__init__(world, world.bucket, faulty)
        self._instances = world.instances

    def drop(self, key: str, machine_id: str) -> None:
        row = self._instances.get(machine_id)
        if row is None:
            return
        machine = row.vm.machine
        if not machine.off:
            raise BrokenRuleError(f"{machine.name}: its record is deleted, and it is on")
        self._world.vms.pop((machine.zone, machine.name), None)
        self._world.lives[machine_id].gone = self._world.now + self._world.skew_sec


class Client:
    """The clients of all regions."""

    def __init__(self, world: Ec2World, faulty: Faulty, stockouts: float) -> None:
        self.world, self.faulty, self.stockouts = world, faulty, stockouts

    def __call__(self, region: str) -> Client:
        return self

    def account(self, region: str) -> str:
        return ACCOUNT

    def instances(self, region: str, filters: Mapping[str, Any]) -> list[dict[str, Any]]:
        self.faulty.before()
        rows = [row for each in self.world.instances.values() if (row := self._row(each))]
        return [row for row in rows if row["Region"] == region and all(_has(row, *each) for each in filters.items())]

    def interrupted(self, region: str, filters: Mapping[str, str]) -> list[dict[str, Any]]:
        self.faulty.before()
        return [
            {
                "Tags": row.request["TagSpecifications"][2]["Tags"],
                "Status": {"UpdateTime": datetime.fromtimestamp(at, UTC)},
            }
            for key, (_, at) in self.world.preempted.items()
            if (row := self.world.instances[key]).vm.machine.region == region and self.world.now - at < 4 * _LISTED_SEC
        ]

    def _row(self, instance: Instance) -> dict[str, Any] | None:
        now, machine = self.world.now, instance.vm.machine
        stopped = machine.off and instance.is_stopped
        starts = machine.off and instance.vm.starts_at is not None
        if machine.off and not stopped and not starts and instance.ended is None:
            instance.ended = now
        since_end = now - instance.ended if instance.ended is not None else 0.0
        if now < instance.vm.listed_at or since_end > _LISTED_SEC:
            return None
        return {
            "InstanceId": instance.number,
            "ClientToken": machine.id,
            "State": {"Name": "stopped" if stopped else "pending" if starts else _STATES[machine.status]},
            "StateReason": {"Code": instance.reason if machine.off else ""},
            "LaunchTime": datetime.fromtimestamp(machine.on_unix, UTC),
            "Tags": [] if since_end > _FORGETS_TAGS_SEC else instance.request["TagSpecifications"][0]["Tags"],
            "Placement": {"AvailabilityZone": machine.zone},
            "InstanceType": machine.machine_type,
            "OwnerId": ACCOUNT,
            "Region": machine.region,
        }

    def describe_launch_template_versions(self, **_: Any) -> dict[str, Any]:
        data = {"UserData": base64.b64encode(DEFINITION.text().encode()).decode()}
        return {"LaunchTemplateVersions": [{"LaunchTemplateData": data}]}

    def run_instances(self, **request: Any) -> None:
        self.faulty.before()
        world, chance = self.world, self.world.chance
        if known := world.instances.get(request["ClientToken"]):
            if known.request != request:
                raise _error("IdempotentParameterMismatch")
            self.faulty.after()
            return
        if chance.random() < self.stockouts:
            raise _error(chance.choice(_ERRORS))
        tags = {each["Key"].removeprefix("gpu-ci:"): each["Value"] for each in request["TagSpecifications"][0]["Tags"]}
        zone = {subnet: zone for zone, subnet in SUBNETS.items()}[request["NetworkInterfaces"][0]["SubnetId"]]
        if (zone, tags["Name"]) in world.vms:
            raise BrokenRuleError(f"{tags['Name']}: a second instance")
        market = "spot" if request.get("InstanceMarketOptions") else "standard"
        machine = Machine(
            tags["Name"], tags["pool"], zone, "STAGING", market, request["InstanceType"], tags["template"],
            job=tags["job"], id=tags["machine-id"], registered_by="manager",
        )  # fmt: skip
        vm = Vm(
            machine, world.now, chance.choice((20, 60, 150)), world.now + chance.choice((0, 3, 15)),
            silent=world.faults and chance.random() < 0.05, inserted_at=world.now,
            hung=world.faults and chance.random() < world.hung_rate, listed_at=world.now + chance.choice((0, 3, 30)),
        )  # fmt: skip
        world.lives[machine.id] = Life(machine.name)
        world._set(vm, "STAGING")
        world.vms[zone, machine.name] = vm
        world.inserted[machine.id] = machine.id
        world.instances[machine.id] = Instance(vm, request, f"i-{world.number():017x}")
        world.machines_of_job[machine.job] += 1
        world.check_max()
        self.faulty.after()

    def _of(self, number: str) -> Instance:
        [instance] = [each for each in self.world.instances.values() if each.number == number]
        return instance

    def stop_instances(self, InstanceIds: Sequence[str]) -> None:  # noqa: N803 - EC2's name
        self.faulty.before()
        instance = self._of(*InstanceIds)
        vm = instance.vm
        if not vm.machine.off:
            if vm.sent or vm.runner_id or vm.job:
                raise BrokenRuleError(f"{vm.machine.name}: stopped although it has a runner")
            instance.is_stopped, instance.script = True, None
            vm.stops_at = vm.stops_at or self.world.now + self.world.chance.choice((2, 8, 25))
        self.faulty.after()

    def modify_instance_attribute(self, InstanceId: str, UserData: Mapping[str, bytes]) -> None:  # noqa: N803
        self.faulty.before()
        instance = self._of(InstanceId)
        if not (instance.is_stopped and instance.vm.machine.off):
            raise _error("IncorrectInstanceState")
        instance.script = UserData["Value"]
        self.faulty.after()

    def start_instances(self, InstanceIds: Sequence[str]) -> None:  # noqa: N803 - EC2's name
        self.faulty.before()
        instance, world = self._of(*InstanceIds), self.world
        vm = instance.vm
        if not (instance.is_stopped and vm.machine.off):
            raise _error("IncorrectInstanceState")
        if instance.script is None:
            raise BrokenRuleError(f"{vm.machine.name}: starts with the script of its earlier boot")
        if world.chance.random() < self.stockouts:
            raise _error(world.chance.choice(_ERRORS))
        instance.is_stopped, vm.stops_at = False, None
        vm.starts_at, vm.boots_in = world.now + 1, world.chance.choice((5, 20))
        vm.silent = world.faults and world.chance.random() < 0.05
        world.started += 1
        world.check_max()
        self.faulty.after()

    def terminate_instances(self, InstanceIds: Sequence[str]) -> None:  # noqa: N803 - EC2's name
        self.faulty.before()
        instance = self._of(*InstanceIds)
        vm, instance.is_stopped = instance.vm, False
        if vm.job is not None:
            raise BrokenRuleError(f"{vm.machine.name}: deleted while it runs job {vm.job.key.job_id}")
        if not vm.machine.off:
            instance.reason, vm.runner_id, vm.idle_since = _BY_API, 0, None
            vm.stops_at = vm.stops_at or self.world.now + self.world.chance.choice((2, 8, 25))
            self.world._set(vm, "STOPPING")
        self.faulty.after()


class SimulatedEc2(Ec2):
    """The supplier in the world."""

    def __init__(self, world: Ec2World, faulty: Faulty, stockouts: float) -> None:
        # The clock of each manager's computer is another one.
        ahead_sec = world.chance.choice((0.0, 3600.0, -3600.0))
        bucket = Bucket(world, faulty)
        super().__init__("staging", BUCKET, lambda *_: bucket, lambda: world.now + ahead_sec, lambda: world.now)
        self._mailboxes.new_id = world.mailbox_id
        self._clients = Client(world, faulty, stockouts)  # type: ignore[assignment]
        self.world = world
        self.channel = FakeCompute(world, faulty, stockouts)

    def list(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
        return tuple(map(self._seen, super().list(pools)))

    def starting(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
        # A machine that was never requested has no times to compare with.
        return tuple(self._seen(each) for each in super().starting(pools) if each.id in self.world.instances)

    def _seen(self, machine: Machine) -> Machine:
        """Return the machine with what it has said."""
        self.world.lives[machine.id].listed = True
        real = self.world.instances[machine.id].vm.machine
        return replace(machine, key=real.key, end=real.end if machine.off else None, sealed=real.sealed)


def _has(row: Mapping[str, Any], name: str, values: str) -> bool:
    if name.startswith("tag:"):
        return {"Key": name.removeprefix("tag:"), "Value": values} in row["Tags"]
    return bool(row["InstanceId"] == values)


def _error(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "or choosing us-east-1b."}}, "RunInstances")
