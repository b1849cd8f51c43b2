"""Two managers with one bucket in worlds where everything fails. The rules of one manager hold for both together."""

from __future__ import annotations

import os

import pytest
from gpu_manager.loop import Manager
from gpu_manager.ports import InUse, Refused, Unavailable
from gpu_manager.stores.bucket import BucketStore
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.manager.simulated_vendors import FakeCompute, FakeGithub, Faulty
from tests.manager.simulated_world import Killed, World
from tests.manager.stores.fake_storage import FakeS3, FakeStorage
from tests.manager.test_histories import POOLS


class Computer:
    """A process with a manager. It starts again whenever it has ended."""

    def __init__(self, name: str, world: World, storage: FakeStorage, faulty: Faulty, skew_sec: float) -> None:
        self.name, self.world, self.storage, self.faulty, self.skew_sec = name, world, storage, faulty, skew_sec
        self.processes = 0
        self.passes = 0
        self.start()

    def start(self) -> None:
        self.processes += 1
        self.holder = f"{self.name}/{self.processes}"
        world = self.world
        self.store = BucketStore(
            self.storage.bucket(),
            "manager.json",
            self.holder,
            lambda: world.now + self.skew_sec,
            world.advance,
        )
        github, compute = FakeGithub(world, self.faulty), FakeCompute(world, self.faulty, 0.2)
        self.manager = Manager(world.pools, github, compute, self.store, lambda: world.now + self.skew_sec)
        self.holds = False

    def turn(self) -> None:
        """Act for ten seconds: try to get the lease, or run one pass. The process may be killed at any call."""
        try:
            if not self.holds:
                self.holds = self.store.take() == self.holder
            else:
                self.manager.step()
                self.store.publish({"by": self.name})
                self.passes += 1
        except (Unavailable, Refused):
            pass
        except (InUse, Killed):
            self.start()


@pytest.mark.slow
@settings(max_examples=int(os.environ.get("HISTORIES", "4")))
@given(st.integers(min_value=0, max_value=10**6), st.sampled_from([FakeStorage, FakeS3]))
def test_two_managers_start_no_machine_twice_and_delete_none_with_a_job(seed: int, made: type[FakeStorage]) -> None:
    """The world raises an error for more machines than `max`, a deleted busy machine, or a rerun of a cancelled run."""
    # The world has no machines that never register, because without a lease they are deleted later than the world
    # expects.
    world = World(seed, list(POOLS), faults=False)
    chance = world.chance
    storage, faulty = made(lambda: world.now), Faulty(world, 0.1, 0.02)
    computers = [Computer("a", world, storage, faulty, 600.0), Computer("b", world, storage, faulty, -600.0)]

    def fault(when: str, method: str) -> None:
        if chance.random() < faulty.kill_rate:
            raise Killed
        if chance.random() < faulty.rate:
            raise TimeoutError

    storage.fault = fault
    for _ in range(chance.randint(20, 60)):
        if chance.random() < 0.3:
            world.queue(chance.choice(({"gpu", "l4"}, {"gpu"})), chance.choice((5, 60)))
        for computer in computers:
            # A process that is suspended for a while continues where it was.
            if chance.random() < 0.8:
                computer.turn()
        world.advance(chance.choice((5, 10, 40)))
    faulty.rate = faulty.kill_rate = 0.0
    for _ in range(300):
        for computer in computers:
            computer.turn()
        world.advance(10)
    assert [job for job in world.jobs.values() if job.status != "completed"] == []
    assert world.left_over() == []
    assert sorted(computer.passes > 150 for computer in computers) == [False, True]
