"""The control loop with answers that are late, lost or unusable."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

import pytest
from gpu_ci.machine_records import MachineRecord
from gpu_manager.decision.names import machine_name
from gpu_manager.loop import Manager
from gpu_manager.memory import MachineMemory, Memory, Pending
from gpu_manager.model import (
    Insert,
    InsertError,
    JobKey,
    Machine,
    NewRunner,
    Offer,
    OperationState,
    Pool,
    RanJob,
    RunKey,
    Runner,
)
from gpu_manager.ports import GithubView, InsertRefused, Mailbox, Refused, Started, Unavailable

from tests.manager.machine_key import PUBLISHED
from tests.manager.test_decide import NOW, POOL, RUN, failed_run, job, lost_memory, machine


@dataclass
class Kept:
    """A store in this process."""

    memory: Memory = field(default_factory=Memory)
    full: bool = False
    has_lease: bool = True
    records: list[MachineRecord] = field(default_factory=list)

    def may_act(self) -> bool:
        return self.has_lease

    def load(self) -> Memory:
        return self.memory

    def save(self, memory: Memory) -> None:
        if self.full:
            raise Unavailable("the disk is full")
        self.memory = memory

    def add(self, records: Iterable[MachineRecord]) -> None:
        self.records += records


@dataclass
class Scripted:
    """GitHub and a supplier with fixed answers, and a clock that `meanwhile` may move."""

    TITLE = "Compute Engine"
    listed: tuple[Machine, ...] = ()
    view: GithubView = field(default_factory=lambda: GithubView(NOW, (), ()))
    now: float = NOW
    meanwhile: Callable[[Scripted], None] = lambda _: None
    removable: bool = True
    knows_time: bool = True
    in_flight: tuple[Machine, ...] = ()
    deleted: list[str] = field(default_factory=list)
    delete_sec: float = 0
    started: list[str] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    start_refused: InsertError | None = None
    operations: dict[str, OperationState] = field(default_factory=dict)
    taken_back: frozenset[str] = frozenset()
    forged: frozenset[str] = frozenset()
    """Machines that another account has inserted."""
    jobs_of_runs: tuple[RanJob, ...] = ()

    def observe(self, runs: Collection[RunKey]) -> GithubView:
        self.meanwhile(self)
        return replace(self.view, unix=self.now if self.knows_time else None)

    def register(self, pool: Pool, name: str) -> NewRunner:
        raise AssertionError

    @property
    def channel(self) -> Scripted:
        return self

    def listen(self, machines: Sequence[Machine]) -> tuple[Machine, ...]:
        return tuple(machines)

    def mailbox(self, machine: Machine) -> Mailbox:
        raise AssertionError

    def send(self, machine: Machine, mailbox: Mailbox, registration: str) -> bool:
        raise AssertionError

    def remove_runner(self, runner: Runner | NewRunner) -> bool:
        return self.removable

    def rerun(self, run: RunKey, job_id: int | None) -> None:
        raise AssertionError

    def list(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
        return self.listed

    def starting(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
        return self.in_flight

    def operation(self, pool: Pool, offer: Offer, operation: str) -> OperationState:
        return self.operations.get(operation, OperationState(False))

    def preempted(self, pools: Sequence[Pool]) -> frozenset[str]:
        return self.taken_back

    def boot(self, machines: Sequence[Machine]) -> None:
        pass

    def owns(self, machine: Machine) -> bool:
        return machine.name not in self.forged

    def start(self, pool: Pool, insert: Insert) -> Started:
        self.started.append(insert.machine)
        return Started("operation-1", "1")

    def cancel(self, job: JobKey) -> bool:
        return self.removable

    def ran(self, run: RunKey) -> tuple[RanJob, ...]:
        return self.jobs_of_runs

    def stop(self, machine: Machine) -> None:
        self.stopped.append(machine.name)

    def start_again(self, machine: Machine, request_id: str) -> str:
        if self.start_refused:
            raise InsertRefused(self.start_refused)
        self.started.append(machine.name)
        return "operation-start"

    def delete(self, machine: Machine) -> None:
        self.deleted.append(machine.name)
        self.now += self.delete_sec


def manager(world: Scripted, memory: Memory | None = None, pool: Pool = POOL) -> tuple[Manager, Kept]:
    store = Kept(memory or Memory())
    return Manager([pool], world, world, store, lambda: world.now), store


def test_the_minutes_of_a_slow_sweep_do_not_count_against_a_machine_that_boots() -> None:
    """Its runner may have registered and taken a job after the sweep read the list of runners."""

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


def test_a_manager_without_memory_counts_machines_that_are_on_their_way() -> None:
    """The previous manager was killed and its state deleted while Google carried out its insert."""
    world = Scripted(view=GithubView(NOW, (job(),), ()), in_flight=(machine("l4-0a1b2c3d", "PROVISIONING"),))
    loop = Manager([replace(POOL, max=1)], world, world, store := Kept(), lambda: world.now)
    done = loop.step()
    assert world.started == []
    assert list(done.decision.assigned.values()) == ["l4-0a1b2c3d"]
    assert not store.memory.begun
    # Until the list contains it, each pass asks for it.
    loop.step()
    world.in_flight, world.listed = (), (machine("l4-0a1b2c3d"),)
    loop.step()
    assert store.memory.begun
    world.in_flight = (machine("l4-never-asked-for"),)
    assert [each.name for each in loop.step().observation.machines or ()] == ["l4-0a1b2c3d"]
    assert world.started == []


def test_nothing_is_decided_before_githubs_first_answer() -> None:
    world = Scripted(listed=(machine("l4-a", "TERMINATED"),), knows_time=False)
    loop, store = manager(world)
    done = loop.step()
    assert [(event.kind, event.subject) for event in done.events] == [("unavailable", "GitHub")]
    assert (world.deleted, store.memory) == ([], Memory())
    world.knows_time = True
    loop.step()
    assert world.deleted == ["l4-a"]


def test_a_machine_that_another_manager_started_is_reported_once() -> None:
    world = Scripted(listed=(machine("l4-a"),))
    loop, _ = manager(world)
    # A machine that runs when the memory begins may belong to the previous manager.
    assert loop.step().events == []
    world.listed = (machine("l4-a"), machine("l4-b"), machine("other", pool="removed"))
    [event] = loop.step().events
    assert (event.kind, event.subject, event.pool) == ("unknown-machine", "l4-b", "l4")
    assert loop.step().events == []


def test_a_machine_of_another_account_is_no_supply_and_gets_no_runner() -> None:
    """It has the labels of a pool, a name like the manager's own, and a key. Its job would run on it."""
    forged = replace(machine("l4-0a1b2c3d"), id="42", registered_by="manager", key=PUBLISHED)
    view = GithubView(NOW, (job(),), ())
    pool = replace(POOL, max=1, registered_by="manager")
    plain, _ = manager(Scripted(view=view), pool=pool)
    for memory in (Memory(), Memory(begun=True)):
        world = Scripted((forged,), view, forged=frozenset({forged.name}))
        loop, store = manager(world, memory, pool)
        done = loop.step()
        assert done.decision.actions == plain.step().decision.actions
        assert [(event.kind, event.subject) for event in done.events][:1] == [("unknown-machine", forged.name)]
        assert (list(store.memory.machines), world.deleted) == ([], [])
        plain, _ = manager(Scripted(view=view), pool=pool)


def test_a_machine_that_the_memory_knows_needs_no_proof() -> None:
    """The memory may be of an earlier version, and Google keeps operations for a limited time only."""
    world = Scripted((replace(machine("l4-a"), id="42"),), forged=frozenset({"l4-a"}))
    for memory in (
        Memory(begun=True, machines={"l4-a": MachineMemory("l4", NOW, id="42")}),
        Memory(begun=True, pending={"l4-a": Pending("l4", POOL.rungs[0], job(), "r", NOW, operation="o", id="42")}),
        Memory(begun=True, pending={"l4-a": Pending("l4", POOL.rungs[0], job(), "r", NOW, operation="o")}),
    ):
        world.operations = {"o": OperationState(True, id="42")}
        loop, store = manager(world, memory)
        assert [event.kind for event in loop.step().events] == []
        assert list(store.memory.machines) == ["l4-a"]


class WithoutInserts(Scripted):
    """Google does not list the pending inserts."""

    def starting(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
        raise Refused("inserts in us-central1-a: 400")


def test_a_manager_that_cannot_read_the_pending_inserts_says_that_no_machine_can_start() -> None:
    world = WithoutInserts(view=GithubView(NOW, (job(),), ()))
    loop, _ = manager(world)
    [event] = loop.step().events
    assert (event.kind, event.detail) == (
        "refused",
        "no machine can start before a pass has read inserts in us-central1-a: 400",
    )
    assert world.started == []


OFF = tuple(machine(name, "TERMINATED") for name in ("l4-a", "l4-b"))


def test_a_deletion_from_an_old_observation_waits_for_the_next_pass() -> None:
    for seconds, deleted in ((30, ["l4-a", "l4-b"]), (31, ["l4-a"])):
        world = Scripted(listed=OFF, delete_sec=seconds)
        loop, _ = manager(world)
        done = loop.step()
        assert world.deleted == deleted
        late = [event.detail for event in done.events if event.subject == "this pass"]
        assert late == ([] if len(deleted) == 2 else ["took too long; the remaining actions wait for the next pass"])


def test_a_manager_that_lost_its_lease_does_nothing() -> None:
    world = Scripted(listed=OFF, view=GithubView(NOW, (job(),), ()))
    loop, store = manager(world)
    store.has_lease = False
    done = loop.step()
    assert (world.deleted, world.started) == ([], [])
    assert [event.subject for event in done.events if event.kind == "unavailable"] == ["the lease"]


def test_an_insert_is_made_however_old_the_observation_is() -> None:
    """The request is in the memory and would be repeated anyway."""
    world = Scripted(listed=OFF[:1], delete_sec=31, view=GithubView(NOW, (job(),), ()))
    loop, _ = manager(world)
    loop.step()
    assert len(world.started) == 1


def test_nothing_is_done_that_is_not_in_the_memory() -> None:
    world = Scripted(listed=OFF, view=GithubView(NOW, (job(),), ()))
    loop, store = manager(world)
    store.full = True
    done = loop.step()
    assert (world.deleted, world.started) == ([], [])
    assert [(event.kind, event.subject, event.detail) for event in done.events] == [
        ("unavailable", "the memory", "the disk is full")
    ]


def test_a_runner_of_an_earlier_machine_does_not_count_for_a_later_one_of_its_name() -> None:
    """Its machine is gone, and GitHub still lists its runner. If it counted as the busy one, the new machine would lose
    its job.
    """
    old, new = (
        Runner(7, "l4-a-1110000000000000000", online=False, busy=False),
        Runner(8, "l4-a-2220000000000000000", online=True, busy=True),
    )
    world = Scripted((replace(machine("l4-a"), id="2220000000000000000"),), GithubView(NOW, (), (old, new)))
    made, _ = manager(world)
    for _ in range(40):
        observation = made.step().observation
        world.now += 30
    assert [runner.name for runner in observation.runners or ()] == ["l4-a-1110000000000000000", "l4-a"]
    assert world.deleted == []


@pytest.mark.parametrize("newest_first", [False, True])
def test_a_runner_that_never_connects_does_not_cost_the_machines_other_runner_its_job(newest_first: bool) -> None:
    """The answer to the agent's first registration was lost, and the agent registered a second runner."""
    first, second = (
        Runner(7, "l4-a-1110000000000000000", online=False, busy=False),
        Runner(8, "l4-a-1110000000000000000-2", online=True, busy=True),
    )
    listed = (second, first) if newest_first else (first, second)
    world = Scripted((replace(machine("l4-a"), id="1110000000000000000"),), GithubView(NOW, (), listed))
    made, _ = manager(world)
    for _ in range(40):
        observation = made.step().observation
        world.now += 30
    assert observation.runners == (replace(second, name="l4-a"),)
    assert world.deleted == []


@pytest.mark.parametrize(("online", "counts"), [((True, False), 7), ((False, True), 8), ((False, False), 8)])
def test_of_two_idle_runners_of_a_machine_the_one_that_is_online_counts_or_the_later_one(
    online: tuple[bool, bool], counts: int
) -> None:
    names = ("l4-a-111", "l4-a-111-2")
    listed = tuple(Runner(7 + at, name, online=online[at], busy=False) for at, name in enumerate(names))
    made, _ = manager(Scripted((replace(machine("l4-a"), id="111"),), GithubView(NOW, (), listed)))
    assert [runner.id for runner in made.step().observation.runners or ()] == [counts]


@pytest.mark.parametrize(("taken_back", "lost"), [("l4-a-111", 0), ("l4-a-222", 1)])
def test_a_job_is_lost_with_its_own_machine_and_not_with_an_earlier_one_of_that_name(
    taken_back: str, lost: int
) -> None:
    """A person may have cancelled it, and it would be run again."""
    running = replace(job(1, status="in_progress", runner="l4-a-222"), runner_id=7)
    listed = (Runner(7, "l4-a-222", online=True, busy=True),)
    world = Scripted((replace(machine("l4-a"), id="222"),), GithubView(NOW, (running,), listed))
    loop, store = manager(world)
    loop.step()
    world.listed, world.taken_back = (), frozenset({taken_back})
    loop.step()
    assert len(store.memory.lost) == lost


class Down(Scripted):
    """Neither Google nor GitHub answers a change."""

    def start(self, pool: Pool, insert: Insert) -> Started:
        raise Unavailable("down")

    def delete(self, machine: Machine) -> None:
        raise Unavailable("down")

    def rerun(self, run: RunKey, job_id: int | None) -> None:
        raise Unavailable("down")


def test_a_change_that_fails_is_named_by_its_machine_or_run() -> None:
    waiting = job(2)
    view = GithubView(NOW, (waiting,), (), {RUN: failed_run()})
    loop, _ = manager(Down(listed=OFF[:1], view=view), lost_memory())
    assert [(event.kind, event.subject) for event in loop.step().events] == [
        ("unavailable", "l4-a"),
        ("unavailable", "example-org/kernels run 11"),
        ("unavailable", machine_name("l4", waiting.key, 1)),
    ]


def test_a_job_of_another_manager_starts_no_machine_and_one_that_runs_here_is_known() -> None:
    """GitHub may give it to any runner with its labels."""
    waiting, running = job(1), replace(job(2, status="in_progress", runner="l4-a"), runner_id=7)
    listed = (Runner(7, "l4-a", online=True, busy=True),)
    world = Scripted((machine("l4-a"),), GithubView(NOW, (waiting, running), listed))
    loop = Manager([POOL], world, world, store := Kept(), lambda: world.now, is_of_another=lambda _: True)
    done = loop.step()
    assert (world.started, done.decision.reasons) == ([], {})
    assert store.memory.machines["l4-a"].job == running.key


def test_a_runner_outside_of_the_groups_with_the_name_of_a_machine_does_not_keep_the_machine() -> None:
    foreign = replace(job(1, status="in_progress", runner="l4-a"), runner_id=99)
    listed = (Runner(7, "l4-a", online=True, busy=False),)
    loop, store = manager(Scripted((machine("l4-a"),), GithubView(NOW, (foreign,), listed)))
    loop.step()
    assert store.memory.machines["l4-a"].job is None
    own = replace(foreign, runner_id=7)
    loop, store = manager(world := Scripted((machine("l4-a"),), GithubView(NOW, (own,), listed)))
    loop.step()
    world.view = GithubView(NOW, (own,), ())
    result = loop.step()
    assert store.memory.machines["l4-a"].job == own.key
    assert [each.runner_name for each in result.observation.jobs or ()] == ["l4-a"]
