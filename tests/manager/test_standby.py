"""Machines on standby: the machines that one pass stops, keeps, starts and creates."""

from __future__ import annotations

from dataclasses import replace

import pytest
from gpu_manager.decision.decide import Decision, decide
from gpu_manager.decision.names import STANDBY, request_id, slug, standby_name, start_id
from gpu_manager.decision.standby import digest
from gpu_manager.memory import (
    Cooldown,
    JobMemory,
    MachineMemory,
    Memory,
    Pending,
    StandbyMemory,
)
from gpu_manager.model import (
    Delete,
    End,
    Insert,
    InsertError,
    Machine,
    Offer,
    OperationState,
    Pool,
    Register,
    Runner,
    Start,
    Stop,
)
from gpu_manager.ports import GithubView
from gpu_manager.view import view

from tests.manager.test_decide import FIRM, NOW, POOL, A, B, job, machine, observe
from tests.manager.test_loop import Scripted, manager

STOCK = replace(POOL, max=3, standby=1, registered_by="manager")
ZONE = "us-central1-a"


def stock(name: str = "l4-s1", status: str = "RUNNING", **others: object) -> Machine:
    """Return a machine that was created for standby, with the published key of this boot if it runs."""
    plain: dict[str, object] = {"registered_by": "manager", "job": STANDBY, "id": "7"}
    if status == "RUNNING":
        plain["key"] = "first"
    return machine(name, status, **{**plain, **others})


def off(name: str = "l4-s1", **others: object) -> Machine:
    """Return the same machine after the manager has stopped it."""
    return stock(name, **{"status": "TERMINATED", "end": End("stopped"), **others})  # type: ignore[arg-type]


def stopped(*names: str, **others: object) -> Memory:
    """Return the memory of a manager that has stopped these machines."""
    given: dict[str, object] = {"unregistered": True, "stopped_for_later": True, "old_key": digest("first"), **others}
    return Memory(machines={name: MachineMemory("l4", NOW - 900, **given) for name in names or ("l4-s1",)})  # type: ignore[arg-type]


def of(kind: type, decision: Decision) -> list[object]:
    return [action for action in decision.actions if isinstance(action, kind)]


def started(decision: Decision) -> list[str]:
    return [action.machine.name for action in decision.actions if isinstance(action, Start)]


def test_a_pool_without_jobs_makes_one_machine_for_each_that_is_to_be_on_standby() -> None:
    decision = decide([STOCK], observe(), Memory())
    name = standby_name("l4", int(NOW))
    assert decision.actions == (Insert("l4", name, A, None, request_id(name, ZONE)),)
    assert decision.memory.pending[name] == Pending("l4", A, None, request_id(name, ZONE), NOW)
    assert decide([STOCK], observe(), decision.memory).actions == decision.actions, "its answer was lost"
    decision.memory.pending[name].operation = "operation-1"
    assert decide([STOCK], observe(), decision.memory).actions == ()
    assert decide([replace(STOCK, standby=0)], observe(), Memory()).actions == ()


def test_a_machine_that_boots_for_standby_is_left_alone_until_it_has_a_key_and_is_then_stopped() -> None:
    boots = decide([STOCK], observe(machines=(stock(key=""),)), Memory())
    assert boots.actions == ()
    later = observe(machines=(stock(key=""),), now=NOW + 200, github_unix=NOW + 200)
    assert decide([STOCK], later, boots.memory).actions == ()
    ready = decide([STOCK], observe(machines=(stock(),)), boots.memory)
    assert ready.actions == (Stop(stock()),)
    known = ready.memory.machines["l4-s1"]
    assert (known.stopped_for_later, known.old_key) == (True, digest("first"))


def test_a_stop_is_repeated_while_the_machine_runs_and_it_gets_no_runner_meanwhile() -> None:
    memory = stopped()
    assert decide([STOCK], observe(machines=(stock(),), jobs=(job(),)), memory).actions[-1] == Stop(stock())
    assert of(Register, decide([STOCK], observe(machines=(stock(),), jobs=(job(),)), memory)) == []
    assert decide([STOCK], observe(machines=(stock(status="STOPPING"),)), memory).actions == ()


def test_a_stopped_machine_is_kept_and_nothing_more_is_made() -> None:
    assert decide([STOCK], observe(machines=(off(),)), stopped()).actions == ()
    assert decide([STOCK], observe(machines=(off(end=None),)), stopped(running_since=NOW - 60)).actions == ()


@pytest.mark.parametrize(("key", "machines_left"), [("second", 1), ("first", 2)])
def test_a_machine_that_is_stopped_before_it_got_a_runner_does_not_count_as_one_that_its_job_used_up(
    key: str, machines_left: int
) -> None:
    memory = stopped(started_for=slug(job().key), stopped_for_later=False)
    memory.jobs[slug(job().key)] = JobMemory(machines=2, last_seen=NOW)
    for _ in range(2):
        memory = decide([STOCK], observe(machines=(stock(key=key),)), memory).memory
    assert memory.jobs[slug(job().key)].machines == machines_left


REUSED = replace(STOCK, standby=0)


@pytest.mark.parametrize(
    ("most", "count", "jobs", "kept"), [(3, 2, 1, 2), (3, 4, 2, 3), (3, 1, 3, 0), (0, 1, 1, 0), (2, 1, 2, 0)]
)
def test_stopped_machines_on_used_hosts_stay_up_to_max_and_start_while_their_host_may_run_a_job(
    monkeypatch: pytest.MonkeyPatch, most: int, count: int, jobs: int, kept: int
) -> None:
    """A manager without a memory keeps them, too: their host is cleaned at the start."""
    monkeypatch.setattr(type(REUSED), "reuse", most)
    found = tuple(off(f"l4-u{number}", status="STOPPED", end=None, jobs=jobs) for number in range(count))
    decision = decide([REUSED], observe(machines=found), Memory())
    assert len(of(Delete, decision)) == count - kept
    waiting = decide([REUSED], observe(machines=found, jobs=(job(),)), decision.memory)
    assert (len(started(waiting)), len(of(Insert, waiting))) == ((1, 0) if kept else (0, 1))


TWO = (off("l4-s1"), off("l4-s2"))


@pytest.mark.parametrize(
    ("pool", "machines", "memory", "deleted"),
    [
        pytest.param(STOCK, (off(),), Memory(), ["l4-s1"], id="that another manager stopped"),
        pytest.param(STOCK, (off(end=End("gpu-unhealthy")),), stopped(), ["l4-s1"], id="that ended by itself"),
        pytest.param(STOCK, (off(sealed=True),), stopped(), ["l4-s1"], id="that had a runner"),
        pytest.param(STOCK, (off(template="templates/old"),), stopped(), ["l4-s1"], id="of an earlier template"),
        pytest.param(STOCK, (off(zone="us-central1-f"),), stopped(), ["l4-s1"], id="of a rung that is gone"),
        pytest.param(STOCK, TWO, stopped("l4-s1", "l4-s2"), ["l4-s2"], id="more than are to be kept"),
        pytest.param(replace(STOCK, standby=0), (off(),), stopped(), ["l4-s1"], id="of a pool without standby"),
        pytest.param(replace(STOCK, name="t4"), (off(),), stopped(), ["l4-s1"], id="of a pool that is removed"),
    ],
)
def test_a_machine_that_is_off_is_deleted(
    pool: Pool, machines: tuple[Machine, ...], memory: Memory, deleted: list[str]
) -> None:
    decision = decide([pool], observe(machines=machines), memory)
    assert [each.machine.name for each in decision.actions if isinstance(each, Delete)] == deleted


def test_a_queued_job_starts_a_stopped_machine_and_a_new_one_is_made_for_standby() -> None:
    waiting = job()
    decision = decide([STOCK], observe(jobs=(waiting,), machines=(off(),)), stopped())
    request = start_id("l4-s1", ZONE, NOW)
    assert decision.assigned == {waiting.key: "l4-s1"}
    assert decision.actions[0] == Start(off(), A, waiting, request)
    assert decision.memory.pending["l4-s1"] == Pending("l4", A, waiting, request, NOW, is_start=True)
    assert [each.machine for each in decision.actions if isinstance(each, Insert)] == [standby_name("l4", int(NOW))]
    again = decide([STOCK], observe(jobs=(waiting,), machines=(off(),)), decision.memory)
    assert again.actions[0] == decision.actions[0], "its answer was lost"


def test_a_started_machine_counts_as_the_jobs_until_it_runs_and_gets_its_runner_with_its_new_key() -> None:
    waiting = job()
    memory = decide([STOCK], observe(jobs=(waiting,), machines=(off(),)), stopped()).memory
    memory.pending["l4-s1"].operation = "operation-1"
    memory.pending.pop(standby_name("l4", int(NOW)))
    running = OperationState(done=True)
    was_off = decide([STOCK], observe(jobs=(waiting,), machines=(off(),), operations={"l4-s1": running}), memory)
    assert (started(was_off), was_off.assigned) == ([], {waiting.key: "l4-s1"})
    old = stock(key="first")
    boots = decide([STOCK], observe(jobs=(waiting,), machines=(old,)), was_off.memory)
    assert (of(Register, boots), of(Stop, boots), boots.assigned) == ([], [], {waiting.key: "l4-s1"})
    assert boots.memory.pending.keys() == was_off.memory.pending.keys() - {"l4-s1"}
    new = stock(key="second")
    assert of(Register, decide([STOCK], observe(jobs=(waiting,), machines=(new,)), boots.memory)) == [Register(new)]


def test_where_a_start_finds_no_capacity_the_machine_stays_and_the_job_gets_one_elsewhere() -> None:
    waiting = job()
    memory = decide([STOCK], observe(jobs=(waiting,), machines=(off(),)), stopped()).memory
    memory.pending["l4-s1"].operation = "operation-1"
    memory.pending.pop(standby_name("l4", int(NOW)))
    failed = {"l4-s1": OperationState(done=True, error=InsertError("no-capacity", "none"))}
    decision = decide([STOCK], observe(jobs=(waiting,), machines=(off(),), operations=failed), memory)
    inserted = [(each.rung, each.job) for each in decision.actions if isinstance(each, Insert)]
    assert (of(Delete, decision), started(decision)) == ([], [])
    assert (B, waiting) in inserted
    assert decision.memory.machines["l4-s1"].stopped_for_later


@pytest.mark.parametrize(
    ("places", "stockouts", "made_at"),
    [
        pytest.param((A, B), 2, [B], id="and another place has had machines"),
        pytest.param((A, B), 1, [], id="but only once"),
        pytest.param((A, FIRM), 2, [], id="and no other place is one of standby"),
    ],
)
def test_a_stopped_machine_is_replaced_after_two_stockouts_of_its_place(
    places: tuple[Offer, ...], stockouts: int, made_at: list[Offer]
) -> None:
    memory = replace(stopped(), cooldowns={f"{ZONE} g2-standard-8 spot": Cooldown(NOW + 60, stockouts)})
    decision = decide([replace(STOCK, rungs=places)], observe(machines=(off(),)), memory)
    assert [each.machine.name for each in decision.actions if isinstance(each, Delete)] == ["l4-s1"] * len(made_at)
    assert [each.rung for each in decision.actions if isinstance(each, Insert)] == made_at


@pytest.mark.parametrize(
    ("pool", "memory"),
    [
        pytest.param(
            STOCK, replace(stopped(), cooldowns={f"{ZONE} g2-standard-8 spot": Cooldown(NOW + 60, 1)}), id="no"
        ),
        pytest.param(replace(STOCK, price_ceiling_usd=0.1), stopped(), id="price"),
        pytest.param(STOCK, replace(stopped(), refusals={"l4": (NOW + 60, "no runner")}), id="GitHub refuses runners"),
        pytest.param(
            replace(STOCK, rungs=(A, B, FIRM)),
            replace(stopped(), steady={"example-org/kernels 11": NOW + 60}),
            id="the job lost a spot machine",
        ),
        pytest.param(
            STOCK, replace(stopped(), preemptions={"us-central1 g2-standard-8": [NOW - 60, NOW - 50]}), id="preemptions"
        ),
    ],
)
def test_a_stopped_machine_is_not_started_where_none_would_be_made(pool: Pool, memory: Memory) -> None:
    decision = decide([pool], observe(jobs=(job(),), machines=(off(),)), memory)
    assert (started(decision), of(Delete, decision)) == ([], [])


def test_no_more_machines_are_on_than_the_maximum() -> None:
    pool = replace(STOCK, max=1)
    busy = machine("l4-a", registered_by="manager", sealed=True)
    runner = Runner(1, "l4-a", online=True, busy=True)
    decision = decide([pool], observe(jobs=(job(),), machines=(busy, off()), runners=(runner,)), stopped())
    assert decision.actions == ()
    assert {each.code for each in decision.reasons.values()} == {"at-max"}


def test_a_machine_whose_job_was_cancelled_goes_on_standby_if_there_is_room() -> None:
    ready = stock("l4-a", job="0a1b2c3d4e5f")
    assert of(Stop, decide([STOCK], observe(machines=(ready,)), Memory())) == [Stop(ready)]
    full = decide([STOCK], observe(machines=(ready, off())), stopped())
    assert (of(Stop, full), of(Delete, full)) == ([], [])
    later = observe(machines=(ready, off()), now=NOW + 31, github_unix=NOW + 31)
    assert [each.machine.name for each in decide([STOCK], later, full.memory).actions if isinstance(each, Delete)] == [
        "l4-a"
    ]


def test_a_job_starts_a_stopped_machine_sooner_than_it_waits_for_one_that_boots_for_the_first_time() -> None:
    two, boots = replace(STOCK, standby=2), stock("l4-s2", key="")
    decision = decide([two], observe(jobs=(job(),), machines=(boots, off())), stopped())
    assert started(decision) == ["l4-s1"]
    none = decide([two], observe(jobs=(job(),), machines=(boots,)), Memory())
    assert (none.assigned, [each.job for each in none.actions if isinstance(each, Insert)]) == (
        {job().key: "l4-s2"},
        [None, None],
    )


@pytest.mark.parametrize("reason", ["a job waits", "the place had none", "spot is taken back", "only standard is open"])
def test_no_machine_is_made_for_standby_where(reason: str) -> None:
    pool, memory, jobs = replace(STOCK, rungs=(A, FIRM)), Memory(), ()
    if reason == "a job waits":
        pool, jobs = replace(pool, price_ceiling_usd=0.1), (job(),)  # type: ignore[assignment]
    elif reason == "spot is taken back":
        memory.preemptions["us-central1 g2-standard-8"] = [NOW - 60, NOW - 50]
    else:
        until = NOW - 1 if reason == "the place had none" else NOW + 600
        memory.cooldowns[f"{ZONE} g2-standard-8 spot"] = Cooldown(until, 1)
    assert decide([pool], observe(jobs=jobs), memory).actions == ()


def test_machines_that_never_come_to_standby_are_made_again_after_longer_and_longer_pauses() -> None:
    memory = Memory(standby={"l4": StandbyMemory(made=3, unproven=3, last_made=NOW)})
    at = [second for second in range(0, 400, 10) if decide([STOCK], observe(now=NOW + second), memory).actions]
    assert at[0] == 240
    assert decide([STOCK], observe(), replace(memory, standby={"l4": StandbyMemory(3, 0, NOW)})).actions != ()


def test_a_start_without_an_answer_is_given_up_where_its_machine_is_gone() -> None:
    lost = decide([STOCK], observe(machines=(off(),), jobs=(job(),)), stopped()).memory
    gone = decide([STOCK], observe(jobs=(job(),), now=NOW + 60, github_unix=NOW + 60), lost)
    assert gone.assigned == {job().key: "l4-s1"}, "a list may lack a machine for once"
    later = decide([STOCK], observe(jobs=(job(),), now=NOW + 121, github_unix=NOW + 121), gone.memory)
    assert "l4-s1" not in later.memory.pending
    assert later.assigned[job().key] == standby_name("l4", int(NOW))


def test_only_a_machine_that_has_just_come_to_standby_ends_the_pauses() -> None:
    def left(running_since: float | None) -> int:
        memory = replace(stopped(running_since=running_since), standby={"l4": StandbyMemory(5, 5, NOW)})
        decision = decide([replace(STOCK, standby=2)], observe(machines=(off(),)), memory)
        assert decision.memory.machines["l4-s1"].running_since is None
        return decision.memory.standby["l4"].unproven

    # This machine is the first one in vain.
    assert (left(NOW - 60), left(None)) == (1, 5)


def test_a_manager_that_lost_its_memory_repeats_no_request_of_the_one_before() -> None:
    """Compute Engine answers a known request id with the old operation, and creates and starts nothing."""
    two = replace(STOCK, standby=2)
    first = [each for each in decide([two], observe(), Memory()).actions if isinstance(each, Insert)]
    later = [each for each in decide([two], observe(now=NOW + 60), Memory()).actions if isinstance(each, Insert)]
    assert len({each.request_id for each in (*first, *later)}) == 4
    assert len({each.machine for each in (*first, *later)}) == 4
    starts = [
        action.request_id
        for now in (NOW, NOW + 60)
        for action in decide([STOCK], observe(now=now, jobs=(job(),), machines=(off(),)), stopped()).actions
        if isinstance(action, Start)
    ]
    assert len(set(starts)) == 2


def test_a_manager_that_lost_its_memory_registers_no_machine_that_the_one_before_has_just_stopped() -> None:
    """Google lists a machine as RUNNING for a moment after the request to stop it."""
    found = observe(jobs=(job(),), machines=(stock(),))
    decision = decide([STOCK], found, Memory())
    later = decide([STOCK], replace(found, now=NOW + 60), decision.memory)
    assert (of(Register, decision), of(Register, later)) == ([], [Register(stock())])


def test_a_pass_stops_a_machine_that_is_ready_and_logs_it() -> None:
    world = Scripted((stock(),), GithubView(NOW, (), ()))
    loop, store = manager(world, pool=STOCK)
    done = loop.step()
    assert (world.stopped, world.deleted, world.started) == (["l4-s1"], [], [])
    assert [(each.kind, each.subject, each.pool) for each in done.events] == [("stop-machine", "l4-s1", "l4")]
    assert store.memory.machines["l4-s1"].stopped_for_later


def test_the_status_has_the_number_of_machines_on_standby() -> None:
    loop, _ = manager(Scripted((off(),), GithubView(NOW, (), ())), stopped(), STOCK)
    shown = view([STOCK], loop.step())
    [pool] = shown["pools"]
    assert (pool["machines"], pool["onStandby"], pool["standby"]) == (0, 1, 1)
    assert [each["status"] for each in shown["machines"]] == ["standby"]


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "in its operation"])
def test_a_start_that_google_refuses_is_an_event_and_none_of_the_jobs_machines(at_once: bool) -> None:
    none = InsertError("no-capacity", "none left")
    world = Scripted((off(),), GithubView(NOW, (job(),), ()), start_refused=none if at_once else None)
    loop, store = manager(world, stopped(), STOCK)
    done = loop.step()
    if not at_once:
        world.operations["operation-start"] = OperationState(done=True, error=none)
        done = loop.step()
    failed = [(each.kind, each.subject, each.code) for each in done.events if each.kind == "start-failed"]
    assert failed == [("start-failed", "l4-s1", "no-capacity")]
    assert (store.memory.jobs[slug(job().key)].machines, "l4-s1" in store.memory.pending) == (
        0,
        False,
    )
    assert world.deleted == []
