"""The loop itself: what it does with answers that are late, lost or of no use."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from gpu_manager.loop import Manager
from gpu_manager.memory import MachineMemory, Memory
from gpu_manager.model import CommitStatus, Insert, Machine, OperationState, Pool, RunKey, Runner
from gpu_manager.ports import GithubView

from tests.manager.test_decide import NOW, POOL, machine


@dataclass
class Kept:
    """A store in this process."""

    memory: Memory = field(default_factory=Memory)

    def may_act(self) -> bool:
        return True

    def load(self) -> Memory:
        return self.memory

    def save(self, memory: Memory) -> None:
        self.memory = memory


@dataclass
class Scripted:
    """GitHub and Compute Engine with fixed answers, and a clock that `meanwhile` may move."""

    listed: tuple[Machine, ...] = ()
    view: GithubView = field(default_factory=lambda: GithubView(NOW, (), ()))
    now: float = NOW
    meanwhile: Callable[[Scripted], None] = lambda _: None
    removable: bool = True
    deleted: list[str] = field(default_factory=list)

    def observe(self, runs: Collection[RunKey]) -> GithubView:
        self.meanwhile(self)
        return self.view

    def remove_runner(self, runner: Runner) -> bool:
        return self.removable

    def rerun(self, run: RunKey, job_id: int | None) -> None:
        raise AssertionError

    def commit_status(self, status: CommitStatus) -> None:
        raise AssertionError

    def machines(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
        return self.listed

    def operation(self, pool: Pool, zone: str, operation: str) -> OperationState:
        return OperationState(False)

    def preempted(self, pools: Sequence[Pool]) -> frozenset[str]:
        return frozenset()

    def insert(self, pool: Pool, insert: Insert) -> str:
        return "operation-1"

    def delete(self, project: str, zone: str, name: str) -> None:
        self.deleted.append(name)


def manager(world: Scripted, memory: Memory | None = None) -> tuple[Manager, Kept]:
    store = Kept(memory or Memory())
    return Manager([POOL], world, world, store, lambda: world.now), store


def test_the_minutes_of_a_slow_sweep_do_not_count_against_a_machine_that_boots() -> None:
    """Its runner may have registered and taken a job after the sweep had read the list of runners."""

    def five_minutes(world: Scripted) -> None:
        world.now += 300

    started = NOW - 200
    memory = Memory(machines={"l4-a": MachineMemory("l4", started, running_since=started)})
    world = Scripted(listed=(machine("l4-a"),), meanwhile=five_minutes)
    loop, _ = manager(world, memory)
    loop.step()
    assert world.deleted == []
    loop.step()
    assert world.deleted == ["l4-a"]


def test_a_runner_that_has_just_taken_a_job_keeps_its_machine() -> None:
    idle = GithubView(NOW, (), (Runner(7, "l4-a", online=True, busy=False),))
    world = Scripted(listed=(machine("l4-a"),), view=idle, removable=False)
    loop, store = manager(world)
    loop.step()
    world.now += 30
    done = loop.step()
    assert [event.kind for event in done.events] == ["remove-runner"]
    assert world.deleted == []
    assert not store.memory.machines["l4-a"].condemned
    world.removable = True
    loop.step()
    assert world.deleted == ["l4-a"]
    assert store.memory.machines["l4-a"].condemned
