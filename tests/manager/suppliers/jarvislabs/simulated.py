"""Jarvis Labs in the simulated world. The supplier itself runs on it, with the records of its mailbox.

A repeated request makes another VM, and a VM is listed some seconds after its request. Sometimes one request makes two
VMs. In some worlds deletes rarely work. A VM boots when its script is sent, and is listed as running after its agent
has switched it off. Only the channel is that of the other histories.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpu_manager.model import Insert, Machine, Pool
from gpu_manager.ports import Mailbox, Started
from gpu_manager.suppliers.jarvislabs.api import ApiError, Row, converted_insert_errors
from gpu_manager.suppliers.jarvislabs.supplier import JarvisLabs, vm_name

from tests.manager.simulated_vendors import FakeCompute, Faulty
from tests.manager.simulated_world import BrokenRuleError, Life, Vm, World
from tests.manager.suppliers.ec2.conftest import Memory
from tests.manager.suppliers.faulty_bucket import FaultyBucket
from tests.manager.suppliers.jarvislabs.conftest import MAILBOX, write_template
from tests.manager.suppliers.jarvislabs.fake import ACCOUNT

_REFUSALS = (("no capacity", 400), ("insufficient balance", 403), ("refused", 422))


@dataclass
class Rented:
    """A VM in the vendor's list."""

    row: Row
    id: str
    listed_at: float
    vm: Vm | None = None
    """Its machine; None for the second VM of one request, and for one that fails."""
    was_paused: bool = False
    jobs: int = 0
    """The jobs of the earlier machines on it."""
    gone_at: float | None = None

    @property
    def seen(self) -> Row:
        """What the vendor lists."""
        return replace(self.row, status=self._status())

    def _status(self) -> str:
        if self.gone_at is not None:
            return "destroying"
        if self.vm is None:
            return self.row.status
        machine = self.vm.machine
        if machine.off:
            return "paused" if self.was_paused or machine.end is None else "running"
        return {"STAGING": "creating", "STOPPING": "pausing"}.get(machine.status, "running")


@dataclass
class JarvisWorld(World):
    rented: dict[int, Rented] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)
    written: set[tuple[str, int, str]] = field(default_factory=set)
    """What each machine has written in each boot."""
    doubled: int = 0
    scripts: int = 0
    """The number of boot scripts that were sent."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.lost_deletes = self.chance.choice((0.0, 0.0, 0.9))

    def forge(self) -> None:
        """Do nothing: only the account's API key makes VMs."""

    def of(self, machine_id: str) -> Rented | None:
        return next((each for each in self.rented.values() if each.vm and each.id == machine_id), None)

    def hand_over(self, key: str) -> None:
        """Give a paused VM to the machine of a new record."""
        record = json.loads(self.objects.get(key, b"{}")) if "/records/" in key else {}
        first = record.get("vm") or "none"
        rented = next((each for each in self.rented.values() if each.vm and first in each.row.name), None)
        if rented is None or rented.vm is None or rented.id == record["id"]:
            return
        [pool] = [each for each in self.pools if each.name == record["pool"]]
        old, life = rented.vm, self.lives[rented.vm.machine.id]
        rented.jobs += 1
        if not (old.machine.off and rented.was_paused and len(life.jobs) == 1 and old.ended == "job-done"):
            raise BrokenRuleError(
                f"{old.machine.name}: its host is used again, and it is on, or its job has not ended well"
            )
        if rented.jobs != record["jobs"] or rented.jobs >= pool.reuse:
            raise BrokenRuleError(f"{record['name']}: its host has run {rented.jobs} jobs of at most {pool.reuse}")
        World.remove(self, old)
        rented.id, rented.vm = record["id"], machine_of(self, record, "TERMINATED")

    def left_over(self) -> list[str]:
        extra = [each.row.name for each in self.rented.values() if each.vm is None and each.gone_at is None]
        return super().left_over() + extra

    def remove(self, vm: Vm) -> None:
        super().remove(vm)
        for each in self.rented.values():
            if each.vm is vm:
                each.gone_at, each.vm = self.now + self.chance.choice((0, 8, 25)), None


class Bucket(FaultyBucket):
    """The mailbox."""

    def __init__(self, world: JarvisWorld, faulty: Faulty) -> None:
        super().__init__(world, world.objects, faulty)
        self._vms = world

    def write(self, key: str, data: bytes, *, only_new: bool = False) -> bool:
        try:
            return super().write(key, data, only_new=only_new)
        finally:
            self._vms.hand_over(key)

    def drop(self, key: str, machine_id: str) -> None:
        found = self._vms.of(machine_id)
        if found and found.vm and not found.vm.machine.off:
            raise BrokenRuleError(f"{key}: is deleted, and its machine is on")

    def times(self, prefix: str) -> dict[str, float]:
        for vm in self._vms.vms.values():
            said = {"key": vm.published_at is not None, "end": vm.machine.end is not None, "registration": vm.sent}
            for name, is_said in said.items():
                once = (vm.machine.id, vm.boots, name)
                if is_said and once not in self._vms.written:
                    self._vms.written.add(once)
                    Memory.write(self, f"staging/mail/{vm.machine.id}/{name}", b"{}")
        return super().times(prefix)


class SimulatedApi:
    """The API, and the SSH connections to its VMs."""

    def __init__(self, world: JarvisWorld, faulty: Faulty, stockouts: float) -> None:
        self.world, self.faulty, self.stockouts = world, faulty, stockouts

    def account(self) -> str:
        return ACCOUNT

    def free(self) -> dict[str, dict[str, int]]:
        self.faulty.before()
        chance = self.world.chance
        return {"H100": {zone: int(chance.random() >= self.stockouts / 2) for zone in ("IN1", "IN2", "EU1")}}

    def rows(self) -> list[Row]:
        self.faulty.before()
        world, found = self.world, []
        for number, each in list(world.rented.items()):
            if each.gone_at is not None and world.now >= each.gone_at:
                del world.rented[number]
            elif world.now >= each.listed_at:
                found.append(each.seen)
        return found

    def create(self, name: str, zone: str, machine_type: str, storage_gb: int) -> None:
        self.faulty.before()
        world, chance = self.world, self.world.chance
        if chance.random() < self.stockouts:
            raise ApiError(*chance.choice(_REFUSALS))
        records = map(json.loads, (data for key, data in world.objects.items() if "/records/" in key))
        [record] = [each for each in records if each["id"] in name]
        if any(record["name"] == each.machine.name for each in world.vms.values()):
            raise BrokenRuleError(f"{record['name']}: a second VM")
        listed_at = world.now + chance.choice((0, 3, 30))
        row = Row(world.number(), name, "failed", zone, machine_type, storage_gb, "")
        rented = world.rented[row.number] = Rented(row, record["id"], listed_at)
        if chance.random() >= self.stockouts / 3:
            rented.vm = machine_of(world, record, "STAGING")
            if world.faults and chance.random() < 0.1:
                second = replace(row, number=world.number(), status="running")
                world.rented[second.number] = Rented(second, record["id"], world.now + chance.choice((0, 3, 30)))
                world.doubled += 1
            world.check_max()
        self.faulty.after()

    def destroy(self, row: Row) -> None:
        self.faulty.before()
        if self.world.faults and self.world.chance.random() < self.world.lost_deletes:
            raise ApiError("unavailable", 503)
        rented = self.world.rented.get(row.number)
        if rented and rented.gone_at is None:
            if rented.vm and rented.vm.job:
                raise BrokenRuleError(f"{row.name}: deleted while it runs job {rented.vm.job.key.job_id}")
            if rented.vm:
                self.world.remove(rented.vm)
            rented.gone_at = rented.gone_at or self.world.now
        self.faulty.after()

    def pause(self, row: Row) -> None:
        self.faulty.before()
        rented = self.world.rented[row.number]
        vm = rented.vm
        rented.was_paused |= bool(vm and vm.machine.off)
        if vm and not vm.machine.off:
            if vm.sent or vm.runner_id or vm.job:
                raise BrokenRuleError(f"{row.name}: paused although it has a runner")
            rented.was_paused = True
            vm.stops_at = vm.stops_at or self.world.now + self.world.chance.choice((2, 8, 25))
        self.faulty.after()

    def resume(self, row: Row) -> None:
        self.faulty.before()
        world, rented = self.world, self.world.rented.pop(row.number)
        if world.chance.random() < 0.5:
            rented.row = replace(rented.row, number=world.number())
        world.rented[rented.row.number], vm = rented, rented.vm
        assert vm, "a paused VM without a machine"
        rented.was_paused, vm.starts_at, vm.boots_in = False, world.now + 1, world.chance.choice((5, 20))
        world.started += 1
        world.check_max()
        self.faulty.after()

    def problem(self) -> str:
        return ""

    def keep(self, machines: set[str]) -> None:
        pass

    def send(self, machine: str, ssh_command: str, script: str) -> str:
        self.world.scripts += 1
        machine_id, _, number = machine.partition("-")
        rented, chosen = self.world.of(machine_id), self.world.rented[int(number)]
        if rented and rented is not chosen:
            if rented.vm and not rented.vm.silent:
                raise BrokenRuleError(f"{machine_id}: two of its VMs are booted")
            # The other VM of the request becomes the machine.
            rented.row, chosen.vm, rented.vm = replace(rented.row, status="running"), rented.vm, None
        vm = chosen.vm
        if vm and vm.silent and vm.machine.status == "RUNNING" and self.world.chance.random() < 0.7:
            vm.runs_at, vm.silent = self.world.now, False
        return ""


def machine_of(world: JarvisWorld, record: dict[str, Any], status: str) -> Vm:
    """Return the machine of a record, which boots when it gets its script."""
    chance = world.chance
    machine = Machine(
        record["name"], record["pool"], record["zone"], status, "standard", record["machine_type"],
        record["template"], job=record["job"], id=record["id"], registered_by="manager",
    )  # fmt: skip
    vm = Vm(
        machine, world.now, chance.choice((20, 60, 150)), world.now + chance.choice((0, 3, 15)), silent=True,
        inserted_at=world.now, hung=world.faults and chance.random() < world.hung_rate,
    )  # fmt: skip
    world.lives[machine.id] = Life(machine.name)
    if status == "STAGING":
        world._set(vm, status)
    world.vms[machine.zone, machine.name] = vm
    world.inserted[machine.id] = machine.id
    world.machines_of_job[machine.job] += 1
    return vm


class Channel(FakeCompute):
    """The channel, in which a registration can be read at once."""

    def mailbox(self, machine: Machine) -> Mailbox:
        found = super().mailbox(machine)
        return replace(found, registered=bool(self.world.vms[machine.zone, machine.name].sent))


class SimulatedJarvisLabs(JarvisLabs):
    """The supplier in the world."""

    def __init__(self, world: JarvisWorld, faulty: Faulty, stockouts: float) -> None:
        # The clock of each manager's computer is another one.
        ahead_sec, api = world.chance.choice((0.0, 3600.0, -3600.0)), SimulatedApi(world, faulty, stockouts)
        clocks = {"unix": lambda: world.now + ahead_sec, "monotonic": lambda: world.now}
        super().__init__("staging", MAILBOX, lambda _: Bucket(world, faulty), api=api, boots=api, **clocks)  # type: ignore[arg-type]
        self._mailboxes.new_id = world.mailbox_id
        self.world, self.channel = world, Channel(world, faulty, stockouts)
        write_template(Bucket(world, Faulty(world, 0, 0)))

    def list(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
        return tuple(map(self._seen, super().list(pools)))

    def _seen(self, machine: Machine) -> Machine:
        """Return the machine with what it has said."""
        rented, mail = self.world.of(machine.id), self.world.objects
        if rented is None or rented.vm is None:
            return machine
        self.world.lives[machine.id].listed = True
        said, folder = rented.vm.machine, f"staging/mail/{machine.id}"
        key = said.key if f"{folder}/key" in mail else ""
        return replace(machine, key=key, end=said.end if machine.off and f"{folder}/end" in mail else None)


class Naive(SimulatedJarvisLabs):
    """A supplier that repeats a request whose answer was lost, as one may with request ids."""

    def start(self, pool: Pool, insert: Insert) -> Started:
        record = self._open(pool, insert, "a start")
        with converted_insert_errors("a start"):
            self._api.create(vm_name(record, "staging"), record.zone, record.machine_type, 100)
        return Started(record.id, record.id)
