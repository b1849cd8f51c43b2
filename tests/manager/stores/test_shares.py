"""Shares of the pools: each pool has at most one manager, with any faults and any change of the number of managers."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import fields
from threading import Event

import pytest
from gpu_manager.assignment import Assignment, assign
from gpu_manager.loop import Manager
from gpu_manager.memory import (
    Cooldown,
    JobMemory,
    LostJob,
    MachineMemory,
    Memory,
    Pending,
    Registration,
    StandbyMemory,
    StoppedPool,
    WrittenStatus,
    merged,
    of_pools,
)
from gpu_manager.model import Insert, Job, JobKey, Machine, Pool, Rung
from gpu_manager.ports import Refused, Unavailable
from gpu_manager.stores import InUse
from gpu_manager.stores.bucket import LEASE_SEC
from gpu_manager.stores.shares import SPARE_SEC, WAITING_SEC, Share, Shares, layout_name, share_name, shares_in
from gpu_manager.stores.storage_api import GoogleObject
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.manager.histories import BrokenRuleError, FakeCompute, FakeGithub, Faulty, Killed, World, pool
from tests.manager.stores.fake_storage import FakeStorage

POOLS = [
    pool("l4", 3, "self-hosted", "gpu", "l4"),
    pool("t4", 1, "self-hosted", "gpu", "t4", market="standard"),
    pool("a100", 2, "self-hosted", "gpu", "a100"),
]
ONE, TWO, THREE = (assign(POOLS, instances) for instances in (1, 2, 3))


class Bucket:
    """Time and the bucket."""

    def __init__(self) -> None:
        self.now = 1_760_000_000.0
        self.storage = FakeStorage(lambda: self.now)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def object(self, name: str) -> GoogleObject:
        return GoogleObject("state", name, self.storage, retries=0)

    def shares(self, holder: str, wanted: Assignment) -> Shares:
        return Shares(self.object, "state.json", wanted, holder, lambda: self.now, self.sleep)

    def take(self, holder: str, wanted: Assignment) -> Share:
        self.sleep(1)
        taken = self.shares(holder, wanted).take()
        assert isinstance(taken, Share), taken
        return taken

    def waits(self, holder: str, wanted: Assignment) -> str:
        self.sleep(1)
        found = self.shares(holder, wanted).take()
        assert isinstance(found, str)
        return found


def test_shares_are_slices_of_the_pools_in_the_order_of_their_groups() -> None:
    pools = [
        Pool(f"p{number}", "ci", "t", (), 1, frozenset({"gpu"}), runner_group=f"g{number % 3}") for number in range(7)
    ]
    assert assign(pools, 1) == (("p0", "p3", "p6", "p1", "p4", "p2", "p5"),)
    assert assign(pools, 3) == (("p0", "p3"), ("p6", "p1"), ("p4", "p2", "p5"))
    assert assign(pools[:2], 5) == (("p0",), ("p1",))


def test_each_manager_takes_another_share_and_the_next_one_waits() -> None:
    bucket = Bucket()
    taken = [bucket.take(holder, THREE) for holder in "abc"]
    assert [(share.index, share.pools) for share in taken] == list(enumerate(THREE))
    assert bucket.waits("d", THREE) == "a, b, c have the leases"
    taken[1].store.close()
    assert bucket.take("d", THREE).index == 1
    assert shares_in(bucket.object("state.layout.json")) == 3


def test_a_share_without_a_manager_goes_to_another_one_until_a_manager_waits() -> None:
    bucket = Bucket()
    alone = bucket.shares("a", TWO)
    first = alone.take()
    assert isinstance(first, Share)
    assert alone.spare([0]) is None
    for _ in range(12):
        assert alone.spare([0]) is None
        bucket.sleep(10)
        first.store.renew()
    second = alone.spare([0])
    assert second
    assert (second.index, second.pools) == (1, TWO[1])
    assert not alone.another_waits()
    assert bucket.waits("b", TWO) == "a has the lease"
    assert alone.another_waits()
    assert not alone.another_waits(), "one waits, and gets one"
    second.store.close()
    assert alone.spare([0]) is None
    assert bucket.take("b", TWO).index == 1


def test_a_share_whose_object_a_person_deleted_is_taken_after_two_minutes() -> None:
    bucket = Bucket()
    alone = bucket.shares("a", TWO)
    first = alone.take()
    assert isinstance(first, Share)
    del bucket.storage.objects["state", "state.2.json"]
    for _ in range(13):
        assert alone.spare([0]) is None
        bucket.sleep(10)
        first.store.renew()
    second = alone.spare([0])
    assert second
    assert second.index == 1


def test_a_manager_takes_no_other_share_by_the_layout_of_another_configuration() -> None:
    bucket = Bucket()
    bucket.take("a", TWO)
    other = bucket.shares("b", THREE)
    assert other.spare([0]) is None
    bucket.sleep(SPARE_SEC + LEASE_SEC + 1)
    assert other.spare([0]) is None


def test_a_manager_that_waits_for_longer_announces_it_again() -> None:
    bucket = Bucket()
    one = bucket.shares("a", ONE)
    held = one.take()
    assert isinstance(held, Share)
    late = bucket.shares("b", ONE)
    for _ in range(3):
        assert isinstance(late.take(), str)
        assert one.another_waits()
        assert not one.another_waits()
        bucket.sleep(WAITING_SEC + 1)
        held.store.renew()


def test_the_objects_of_shares_keep_their_names_over_releases() -> None:
    assert [share_name("state.json", index) for index in range(3)] == ["state.json", "state.2.json", "state.3.json"]
    assert [layout_name(name) for name in ("a/state.json", "a.b/state", "state")] == [
        "a/state.layout.json",
        "a.b/state.layout",
        "state.layout",
    ]
    bucket = Bucket()
    assert shares_in(bucket.object("state.layout.json")) == 1


def test_another_number_of_managers_begins_when_all_leases_have_ended() -> None:
    bucket = Bucket()
    first, second = bucket.take("a", TWO), bucket.take("b", TWO)
    assert bucket.waits("c", ONE) == "a, which has another configuration, has a lease"
    first.store.close()
    assert bucket.waits("c", ONE) == "b, which has another configuration, has a lease"
    bucket.sleep(LEASE_SEC)
    merged = bucket.take("c", ONE)
    assert merged.pools == ONE[0]
    try:
        second.store.save(Memory(begun=True))
    except InUse:
        pass
    else:
        raise AssertionError("a manager that stood still wrote into a layout that is over")
    assert bucket.waits("a", TWO) == "c, which has another configuration, has a lease"


def test_the_memory_of_a_pool_moves_to_its_new_share() -> None:
    bucket = Bucket()
    first, second = bucket.take("a", TWO), bucket.take("b", TWO)
    stopped = StoppedPool("templates/t4", "t4-1", "bad-driver", "")
    first.store.save(
        Memory(True, machines={"a100-1": MachineMemory("a100", 1)}, jobs={"j": JobMemory(2, 1, 5)}, preferred={"a": 9})
    )
    second.store.save(
        Memory(True, stopped={"templates/t4": stopped}, jobs={"j": JobMemory(1, 3, 4)}, cooldowns={"a": Cooldown(5, 1)})
    )
    for share in (first, second):
        bucket.sleep(1)
        share.store.close()
    expected = Memory(
        begun=True,
        machines={"a100-1": MachineMemory("a100", 1)},
        stopped={"templates/t4": stopped},
        jobs={"j": JobMemory(2, 3, 5)},
        preferred={"a": 9},
        cooldowns={"a": Cooldown(5, 1)},
    )
    taken = [bucket.take(holder, THREE) for holder in "cd"]
    assert [share.store.load() for share in taken] == [expected, expected]
    # The third share of that layout had no holder: its initial memory counts for the next layout too.
    taken[0].store.save(Memory(True))
    taken[1].store.save(Memory(True, preferred={"b": 3}))
    for share in taken:
        bucket.sleep(1)
        share.store.close()
    assert THREE[2] == ("t4",)
    last = bucket.take("e", ONE).store.load()
    assert last.stopped == {"templates/t4": stopped}
    assert last.machines == {}
    assert last.preferred == {"a": 9, "b": 3}


def test_the_memories_of_shares_become_one_without_loss() -> None:
    key = JobKey("example-org/kernels", 1, 2, 1)
    rung = Rung("us-central1-a", "g2-standard-8", "spot")
    whole = Memory(
        begun=True,
        pending={"l4-1": Pending("l4", rung, Job(key, frozenset(), "queued", 1), "id", 5)},
        cooldowns={"a": Cooldown(5, 1)},
        closed_quotas={"a": (5, "L4")},
        preferred={"a": 5},
        preemptions={"a": [1, 5]},
        machines={"l4-1": MachineMemory("l4", 5)},
        jobs={"j": JobMemory(1, 1, 5)},
        lost={"j": LostJob(key, "l4", 5, 1)},
        steady={"run": 5},
        refusals={"l4": (5, "no"), "l4 us-central1 g2-standard-8 spot": (5, "not allowed")},
        stopped={"templates/l4": StoppedPool("templates/l4", "l4-1", "bad-driver", "")},
        statuses={"c": WrittenStatus("pending", "waits", 5, "url")},
        registrations={"l4-1": Registration("4711", 5)},
        standby={"l4": StandbyMemory(made=3, unproven=1, last_made=5)},
    )
    assert all(getattr(whole, each.name) for each in fields(Memory)), "a new field has to be merged too"
    earlier = Memory(
        begun=True,
        cooldowns={"a": Cooldown(4, 2)},
        closed_quotas={"a": (4, "T4")},
        preemptions={"a": [1]},
        steady={"run": 4},
    )
    assert merged([whole]) == whole
    assert merged([earlier, whole]) == whole == merged([whole, earlier])
    assert of_pools(whole, ["l4"]) == whole
    left = of_pools(whole, [])
    assert [left.pending, left.machines, left.lost, left.refusals, left.registrations, left.standby] == [{}] * 6
    assert left.stopped == whole.stopped


def test_a_manager_that_took_a_lease_of_a_layout_that_just_ended_gives_it_back() -> None:
    bucket = Bucket()
    bucket.take("a", TWO).store.close()
    bucket.sleep(1)
    late = bucket.shares("b", TWO)

    def switch(when: str, method: str) -> None:
        # After b has read the layout, and before it takes a share of it.
        if (when, method) == ("before", "insert"):
            bucket.storage.fault = lambda when, method: None
            bucket.take("c", ONE).store.close()
            bucket.sleep(1)

    late.take()
    layout = bucket.object("state.layout.json")
    assert shares_in(layout) == 2
    bucket.sleep(LEASE_SEC + 1)
    bucket.storage.fault = switch
    assert late.take() == "another process changes the shares"
    held = json.loads(bucket.storage.objects["state", "state.json"].content)["lease"]["holder"]
    assert held == ""
    assert shares_in(layout) == 1


def test_a_lease_that_is_taken_while_the_layout_changes_is_waited_for_and_its_memory_kept() -> None:
    bucket = Bucket()
    bucket.take("a", TWO).store.close()
    bucket.sleep(LEASE_SEC + 1)
    taken: list[Share] = []
    writes: list[str] = []

    def late(when: str, method: str) -> None:
        # The first write tests if a layout exists. The second one writes the layout after all leases were found free.
        writes.extend([method] if (when, method) == ("before", "insert") else [])
        if len(writes) == 2:
            bucket.storage.fault = lambda when, method: None
            taken.append(bucket.take("b", TWO))

    changing = bucket.shares("c", ONE)
    bucket.storage.fault = late
    assert changing.take() == "b, which has another configuration, has a lease"
    taken[0].store.save(Memory(True, preferred={"a": 9}))
    bucket.sleep(SPARE_SEC + LEASE_SEC + 1)
    assert bucket.shares("d", ONE).spare([]) is None, "the layout is not ready"
    taken[0].store.save(Memory(True, preferred={"a": 9}))
    bucket.sleep(1)
    taken[0].store.close()
    bucket.sleep(1)
    share = changing.take()
    assert isinstance(share, Share)
    assert share.store.load().preferred == {"a": 9}


def test_hold_waits_for_a_share_and_reports_its_holder() -> None:
    bucket = Bucket()
    first = bucket.shares("a", ONE).hold(Event(), lambda _: None)
    assert first
    stopped, lines = Event(), list[str]()

    def waiting(text: str) -> None:
        lines.append(text)
        stopped.set()

    assert bucket.shares("b", ONE).hold(stopped, waiting) is None
    assert lines == ["a has the lease"]
    first.store.close()
    bucket.sleep(1)
    second = bucket.shares("b", ONE).hold(Event(), lines.append)
    assert second
    second.store.close()
    assert lines == ["a has the lease"]


class Watched(FakeCompute):
    """Compute Engine that checks if the manager may act: with a layout and a lease that are valid now."""

    computer: Computer

    def check(self, name: str) -> None:
        objects = self.computer.storage.objects
        layout = json.loads(objects["state", "state.layout.json"].content)
        assert layout["ready"]
        [index] = [number for number, names in enumerate(layout["shares"]) if name in names]
        lease = json.loads(objects["state", share_name("state.json", index)].content)["lease"]
        if lease["holder"] != self.computer.holder:
            raise BrokenRuleError(f"{self.computer.holder} acts for {name}, which {lease['holder'] or 'nobody'} holds")

    def insert(self, pool: Pool, insert: Insert) -> str:
        self.check(pool.name)
        return super().insert(pool, insert)

    def delete(self, project: str, zone: str, name: str) -> None:
        self.check(name.rpartition("-")[0])
        super().delete(project, zone, name)


class Computer:
    """A process with a manager for each share that it holds. It starts again whenever it has ended."""

    def __init__(self, name: str, world: World, storage: FakeStorage, faulty: Faulty, wanted: Assignment) -> None:
        self.name, self.world, self.storage, self.faulty, self.wanted = name, world, storage, faulty, wanted
        self.processes = 0
        self.start()

    def start(self, wanted: Assignment | None = None) -> None:
        self.wanted = wanted or self.wanted
        self.processes += 1
        self.holder = f"{self.name}/{self.processes}"
        world, self.skew_sec = self.world, self.world.chance.choice((600.0, -600.0))
        self.shares = Shares(
            lambda name: GoogleObject("state", name, self.storage, retries=0),
            "state.json",
            self.wanted,
            self.holder,
            lambda: world.now + self.skew_sec,
            world.advance,
        )
        self.held: dict[int, tuple[Share, Manager]] = {}

    def stop(self, wanted: Assignment) -> None:
        """Stop normally, and start again with another configuration."""
        for share, _ in self.held.values():
            share.store.close()
        self.start(wanted)

    def add(self, share: Share) -> None:
        compute = Watched(self.world, self.faulty, 0.2)
        compute.computer = self
        github = FakeGithub(self.world, self.faulty)
        now = lambda: self.world.now + self.skew_sec  # noqa: E731
        self.held[share.index] = share, Manager(POOLS, github, compute, share.store, now, own=share.pools)

    def turn(self) -> None:
        """Act for ten seconds. The process may be killed at any call."""
        try:
            if not self.held:
                taken = self.shares.take()
                if isinstance(taken, Share):
                    self.add(taken)
                return
            for share, manager in list(self.held.values()):
                manager.step()
                share.store.publish({"by": self.name})
            if len(self.held) > 1 and self.shares.another_waits():
                share, _ = self.held.pop(max(self.held))
                share.store.close()
            elif spare := self.shares.spare(self.held):
                self.add(spare)
        except (Unavailable, Refused):
            pass
        except (InUse, Killed):
            self.start()


def settled(computers: Sequence[Computer], world: World, turns: int) -> None:
    """Run turns without faults until nothing is left to do and each share has its manager."""
    for _ in range(turns):
        for computer in computers:
            computer.turn()
        world.advance(10)
        over = all(job.status == "completed" for job in world.jobs.values()) and not world.vms
        held = {index for computer in computers for index in computer.held}
        if over and held == set(range(len(computers[0].wanted))):
            break


@pytest.mark.slow
@settings(max_examples=int(os.environ.get("HISTORIES", "6")), deadline=None)
@given(st.integers(min_value=0, max_value=10**6))
def test_in_any_history_of_shares_each_pool_has_one_manager_and_every_job_runs(seed: int) -> None:
    """The number of managers changes while everything fails.

    The worlds raise an error for more machines than `max`, a deleted busy machine, and a manager that acts without the
    lease of the pool's share.
    """
    world = World(seed, list(POOLS), faults=False)
    chance = world.chance
    storage, faulty = FakeStorage(lambda: world.now), Faulty(world, 0.1, 0.02)
    computers = [Computer(name, world, storage, faulty, TWO) for name in "abc"]

    def fault(when: str, method: str) -> None:
        if chance.random() < faulty.kill_rate:
            raise Killed
        if chance.random() < faulty.rate:
            raise TimeoutError

    storage.fault = fault
    wanted = TWO
    for _ in range(chance.randint(20, 60)):
        if chance.random() < 0.1:
            wanted = chance.choice((ONE, TWO, THREE))
        if chance.random() < 0.3:
            world.queue(chance.choice(({"gpu", "l4"}, {"gpu"}, {"gpu", "a100"}, {"gpu", "t4"})), chance.choice((5, 60)))
        for computer in computers:
            if computer.wanted != wanted and chance.random() < 0.3:
                try:
                    computer.stop(wanted)
                except Killed:
                    computer.start(wanted)
            # A process that is suspended for a while continues where it was.
            elif chance.random() < 0.8:
                computer.turn()
        world.advance(chance.choice((5, 10, 40)))
    faulty.rate = faulty.kill_rate = 0.0
    for computer in computers:
        if computer.wanted != wanted:
            computer.stop(wanted)
    # A pool of one machine needs more than an hour for ten jobs, because zones without capacity pause it.
    settled(computers, world, 600)
    assert [job for job in world.jobs.values() if job.status != "completed"] == []
    assert world.vms == {}
    held = [index for computer in computers for index in computer.held]
    assert sorted(held) == list(range(len(wanted)))


def test_a_machine_belongs_to_the_share_of_its_pool_and_those_of_no_pool_to_the_first() -> None:
    world = World(1, list(POOLS), faults=False)

    class Listed(FakeCompute):
        def machines(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
            row = Machine("l4-1", "l4", "us-central1-a", "RUNNING", "spot", "g2-standard-8", "templates/l4")
            names = {"l4-1": "l4", "t4-1": "t4", "old-1": "old"}
            return tuple(Machine(**{**vars(row), "name": name, "pool": pool}) for name, pool in names.items())

    class Store:
        def load(self) -> Memory:
            return Memory(True)

        def save(self, memory: Memory) -> None:
            pass

        def may_act(self) -> bool:
            return True

    faulty = Faulty(world, 0, 0)

    def listed(*own: str) -> list[str]:
        manager = Manager(
            POOLS, FakeGithub(world, faulty), Listed(world, faulty, 0), Store(), lambda: world.now, own=own or None
        )
        return [machine.name for machine in manager.step().observation.machines or ()]

    assert listed() == ["l4-1", "t4-1", "old-1"]
    assert listed("l4", "a100") == ["l4-1", "old-1"]
    assert listed("t4") == ["t4-1"]
