"""Machines and runners in one pass: which ones may take a job, have a job, or have lost one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from gpu_manager.decision.decide import Decision, decide
from gpu_manager.decision.names import slug
from gpu_manager.memory import MachineMemory, Memory
from gpu_manager.model import Delete, End, Insert, JobKey, Runner

from tests.manager.test_decide import NOW, POOL, job, machine, observe

LOST = JobKey("example-org/kernels", 11, 1, 1)
IDLE, BUSY = (Runner(7, "l4-a", online=True, busy=busy) for busy in (False, True))


def inserted(decision: Decision) -> int:
    return sum(isinstance(each, Insert) for each in decision.actions)


def test_a_runner_that_is_busy_is_no_machine_for_a_queued_job_although_no_job_names_it_yet() -> None:
    both = observe(jobs=(job(2),), machines=(machine("l4-a"),), runners=(BUSY,))
    assert inserted(decide([POOL], both, Memory())) == 1
    assert inserted(decide([POOL], replace(both, runners=(IDLE,)), Memory())) == 0


def test_a_machine_of_a_running_job_takes_no_queued_job_although_its_runner_looks_idle() -> None:
    running, queued = job(1, status="in_progress", runner="l4-a"), job(2)
    both = observe(jobs=(running, queued), machines=(machine("l4-a"),), runners=(IDLE,))
    assert inserted(decide([POOL], both, Memory())) == 1
    # The runner of a waiting job does not count.
    waits = replace(both, jobs=(replace(running, status="queued"), queued))
    assert inserted(decide([POOL], waits, Memory())) == 1


@pytest.mark.parametrize(
    "known",
    [
        MachineMemory("l4", NOW - 90, registered=True, missing_since=NOW - 5),
        MachineMemory("l4", NOW - 90, condemned=True),
        MachineMemory("l4", NOW - 90, registered=True, job=LOST),
    ],
    ids=["its runner is gone", "it is being deleted", "it has had its job"],
)
def test_a_machine_that_takes_no_more_jobs_is_not_assigned_to_a_queued_job(known: MachineMemory) -> None:
    waiting = observe(jobs=(job(2),), machines=(machine("l4-a"),))
    assert inserted(decide([POOL], waiting, Memory(machines={"l4-a": known}))) == 1
    fresh = Memory(machines={"l4-a": MachineMemory("l4", NOW - 90)})
    assert inserted(decide([POOL], waiting, fresh)) == 0


def test_an_insert_that_is_repeated_counts_although_an_earlier_machine_of_that_name_is_still_listed() -> None:
    """The earlier machine is deleted in the same pass, and the insert then creates a machine."""
    pool = replace(POOL, max=1)
    begun = decide([pool], observe(jobs=(job(),)), Memory())
    [name] = [each.machine for each in begun.actions if isinstance(each, Insert)]
    off = machine(name, "TERMINATED")
    again = decide([pool], observe(jobs=(job(), job(2)), machines=(off,), now=NOW + 10), begun.memory)
    assert [each.machine for each in again.actions if isinstance(each, Insert)] == [name]
    assert again.reasons[job(2).key].code == "at-max"


def test_the_memory_of_a_machine_does_not_apply_to_a_later_one_of_its_name() -> None:
    had = MachineMemory("l4", NOW - 900, id="111", registered=True, condemned=True, job=LOST)
    for number, takes_a_job in (("111", False), ("222", True)):
        listed = observe(jobs=(job(2),), machines=(replace(machine("l4-a"), id=number),))
        decision = decide([POOL], listed, Memory(machines={"l4-a": had}))
        assert inserted(decision) == (not takes_a_job)
        assert decision.memory.machines["l4-a"].id == number
    # A machine that Google has just begun to create has no id yet.
    begun = decide([POOL], observe(machines=(machine("l4-a"),)), Memory()).memory
    assert begun.machines["l4-a"].id == ""
    listed = observe(machines=(replace(machine("l4-a"), id="111"),), now=NOW + 10)
    known = decide([POOL], listed, begun).memory.machines["l4-a"]
    assert (known.id, known.first_seen) == ("111", NOW)


def test_only_googles_operation_says_that_a_machine_was_preempted() -> None:
    """Root in a job can write any end. Google may list the operation one pass later."""
    memory = Memory(machines={"l4-a": MachineMemory("l4", NOW - 900, registered=True, job=LOST)})
    off = machine("l4-a", "TERMINATED", end=End("preempted"))
    running = (job(1, status="in_progress", runner="l4-a"),)
    first = decide([POOL], observe(machines=(off,), jobs=running), memory).memory
    assert (first.lost, first.preemptions) == ({}, {})
    later = observe(jobs=running, preempted=frozenset({"l4-a"}), now=NOW + 10)
    assert list(decide([POOL], later, first).memory.lost) == [slug(LOST)]


SEALED, BY_ITSELF = {"registered_by": "manager", "sealed": True}, {"registered_by": "machine"}


@pytest.mark.parametrize(
    ("others", "known", "runners", "stops"),
    [
        pytest.param({"registered_by": "manager"}, {}, (), True, id="no registration"),
        pytest.param(BY_ITSELF, {}, (), True, id="no runner"),
        pytest.param(SEALED, {}, (Runner(7, "l4-a", online=False, busy=False),), True, id="a runner without a job"),
        pytest.param(SEALED, {}, (Runner(7, "l4-a", online=False, busy=True),), False, id="a runner with a job"),
        pytest.param(BY_ITSELF, {}, (Runner(7, "l4-a", online=False, busy=True),), False, id="its runner with a job"),
        pytest.param(SEALED, {}, (), False, id="a runner that had a job"),
        pytest.param(BY_ITSELF, {"registered": True}, (), False, id="its runner had a job"),
        pytest.param(SEALED, {"job": LOST}, (Runner(7, "l4-a", online=False, busy=False),), False, id="a known job"),
    ],
)
def test_an_end_stops_the_pool_unless_a_job_may_have_written_it(
    others: dict[str, Any], known: dict[str, Any], runners: tuple[Runner, ...], stops: bool
) -> None:
    memory = Memory(machines={"l4-a": MachineMemory("l4", NOW - 900, **known)})
    off = machine("l4-a", "TERMINATED", end=End("runner-deprecated", stops_pool=True), **others)
    found = decide([POOL], observe(machines=(off,), runners=runners), memory).memory
    assert list(found.stopped) == (["templates/l4"] if stops else [])


def test_a_runner_that_was_there_and_is_gone_has_two_minutes_and_its_machine_is_deleted_once() -> None:
    on = machine("l4-a")
    memory = decide([POOL], observe(machines=(on,), runners=(IDLE,)), Memory()).memory
    memory = decide([POOL], observe(machines=(on,), now=NOW + 10), memory).memory
    assert decide([POOL], observe(machines=(on,), now=NOW + 130), memory).actions == ()
    late = decide([POOL], observe(machines=(on,), now=NOW + 131), memory)
    assert late.actions == (Delete(on, "on for 120 s after its runner was gone from GitHub"),)
    assert late.memory.machines["l4-a"].condemned
    # The runner came back in time.
    back = decide([POOL], observe(machines=(on,), runners=(BUSY,), now=NOW + 20), memory).memory
    assert back.machines["l4-a"].missing_since is None
