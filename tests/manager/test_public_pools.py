"""Pools that public repositories may use: a machine for approved commits only, and for the run of one job only."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest
from gpu_manager.decision import registrations
from gpu_manager.decision.decide import Decision, decide
from gpu_manager.memory import MachineMemory, Memory, Registration
from gpu_manager.model import (
    Cancel,
    Delete,
    End,
    Insert,
    Job,
    Machine,
    Pool,
    Priorities,
    Reason,
    Register,
    RemoveRunner,
    Runner,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.manager.histories import History
from tests.manager.simulated_world import World, pool
from tests.manager.test_decide import NOW, POOL, job, machine, observe
from tests.manager.test_histories import PRIORITIES, SETTLED_PASSES, records_are_true
from tests.manager.test_registrations import ready

PUBLIC = replace(POOL, registered_by="manager", public=True)
PENDING = Reason("approval-pending", "comment /ok to test SHA")
TARGET = Reason("no-pool", "pull_request_target is refused")


def unapproved(number: int, refusal: Reason = PENDING, **others: Any) -> Job:
    return replace(job(number, **others), refusal=refusal)


def decided(*jobs: Job, machines: tuple[Machine, ...] = (), memory: Memory | None = None, **others: Any) -> Decision:
    pools = others.pop("pools", [PUBLIC])
    return decide(pools, observe(jobs=jobs, machines=machines, **others), memory or Memory())


def of_kind(decision: Decision, kind: type) -> list[Any]:
    return [each for each in decision.actions if isinstance(each, kind)]


@pytest.mark.parametrize("refusal", [PENDING, TARGET])
@pytest.mark.parametrize("pool", [POOL, PUBLIC])
def test_a_run_without_approval_gets_no_machine_and_its_reason(refusal: Reason, pool: Pool) -> None:
    decision = decided(unapproved(1, refusal), pools=[pool], machines=(ready(),))
    assert decision.actions == ()
    assert decision.reasons == {job(1).key: refusal}


def test_an_existing_machine_is_not_registered_for_a_run_whose_approval_is_void() -> None:
    first = decided(job(1), machines=(ready(key=""),))
    assert first.assigned == {job(1).key: "l4-a"}
    later = decided(unapproved(1), machines=(ready(),), memory=first.memory, now=NOW + 10)
    gone = decided(unapproved(1), machines=(ready(),), memory=later.memory, now=NOW + 40)
    assert (of_kind(later, Register), [each.machine for each in of_kind(gone, Delete)]) == ([], [ready()])


def test_a_pending_request_for_a_run_whose_approval_is_void_is_not_repeated() -> None:
    first = decided(job(1))
    assert len(of_kind(first, Insert)) == 1
    assert decided(unapproved(1), memory=first.memory).actions == ()


def test_a_machine_is_registered_for_the_run_of_its_job() -> None:
    decision = decided(job(1), machines=(ready(),))
    assert decision.actions == (Register(ready(), job(1).key),)
    assert decision.memory.registrations == {"l4-a": Registration("42", NOW, job(1).key)}


@pytest.mark.parametrize("public", [True, False])
def test_with_priorities_only_a_public_pool_binds_a_machine_to_a_run(public: bool) -> None:
    """In other pools, a job of another run with the same labels may get the runner."""
    pools = [replace(PUBLIC, public=public, priorities=Priorities(("push", "schedule"), aging_sec=600))]
    [made] = of_kind(decided(job(1), machines=(ready(),), pools=pools), Register)
    assert made.job == (job(1).key if public else None)


def test_a_free_machine_without_a_job_is_not_registered_either() -> None:
    """Without a run, its agent would end."""
    memory = Memory(machines={"l4-a": MachineMemory("l4", NOW)})
    assert list(registrations.due(PUBLIC, [ready()], {}, [], observe(machines=(ready(),)), memory)) == []


def test_a_machine_of_an_earlier_template_is_not_registered() -> None:
    """Its agent may accept the job of every run."""
    assert of_kind(decided(job(1), machines=(ready(template="templates/old"),)), Register) == []


def test_a_machine_without_a_job_is_not_registered() -> None:
    assert decided(machines=(ready(),)).actions == ()


def sealed_for(owner: Job | None) -> tuple[tuple[Machine, ...], Memory]:
    registrations = {"l4-a": Registration("42", NOW - 20, owner.key)} if owner else {}
    return (ready(sealed=True),), Memory(registrations=registrations)


def test_a_registered_machine_waits_for_jobs_of_its_run_only() -> None:
    machines, memory = sealed_for(job(1))
    assert decided(job(2), machines=machines, memory=memory).assigned != {job(2).key: "l4-a"}
    again = replace(job(1), key=job(1).key._replace(attempt=2))
    assert decided(again, machines=machines, memory=memory).assigned != {again.key: "l4-a"}
    same = replace(job(1), key=job(1).key._replace(job_id=99))
    assert decided(same, machines=machines, memory=memory).assigned == {same.key: "l4-a"}


def test_a_machine_whose_registration_has_begun_waits_for_jobs_of_its_run_only() -> None:
    """The request may have succeeded, although its answer was lost."""
    memory = Memory(registrations={"l4-a": Registration("42", NOW - 40, job(1).key)})
    other = decided(job(2), machines=(ready(),), memory=memory)
    assert (other.assigned == {job(2).key: "l4-a"}, of_kind(other, Register)) == (False, [])
    assert of_kind(decided(job(1), machines=(ready(),), memory=memory), Register) == [Register(ready(), job(1).key)]


def test_a_registered_machine_of_a_forgotten_run_gets_no_job_and_goes() -> None:
    machines, memory = sealed_for(None)
    runners = (Runner(7, "l4-a", online=True, busy=False),)
    first = decided(job(1), machines=machines, memory=memory, runners=runners)
    assert [each.machine for each in of_kind(first, Insert)] == list(first.assigned.values())
    later = decided(job(1), machines=machines, memory=first.memory, runners=runners, now=NOW + 30)
    assert [each.runner for each in of_kind(later, RemoveRunner)] == list(runners)


def test_the_machine_of_a_waiting_job_stays_if_another_one_is_not_needed() -> None:
    """In other pools a count decides, because there each machine can run each job."""
    mine, dead = ready("l4-b", id="43", key=""), ready(sealed=True)
    memory = Memory(registrations={"l4-a": Registration("42", NOW - 20, job(9).key)})
    runners = (Runner(7, "l4-a", online=True, busy=False),)
    first = decided(job(1), machines=(dead, mine), memory=memory, runners=runners)
    assert first.assigned == {job(1).key: "l4-b"}
    later = decided(job(1), machines=(dead, mine), memory=first.memory, runners=runners, now=NOW + 30)
    assert (of_kind(later, Delete), len(of_kind(later, RemoveRunner))) == ([], 1)


def test_an_unapproved_run_is_cancelled_once_an_approved_job_waits_for_the_pool() -> None:
    """GitHub could give it the machine, which then ends."""
    alone = decided(unapproved(1))
    both = decided(unapproved(1), job(2), memory=alone.memory)
    reason = (
        "comment /ok to test SHA; its run is cancelled, because GitHub could give it the machine of "
        "example-org/kernels run 12"
    )
    assert of_kind(both, Cancel) == [Cancel(job(1).key, reason)]
    assert both.reasons == {job(1).key: Reason("approval-pending", reason)}
    again = decided(unapproved(1), job(2), memory=both.memory, now=NOW + 10)
    assert (of_kind(again, Cancel), again.reasons) == ([], both.reasons)
    approved = decided(job(1), job(2), memory=again.memory, now=NOW + 70)
    assert (of_kind(approved, Cancel), set(approved.assigned)) == ([], {job(1).key, job(2).key})


@pytest.mark.parametrize(
    ("waits", "others"),
    [
        (unapproved(1, status="in_progress"), {}),
        (unapproved(1), {"unread": frozenset({"example-org/kernels"})}),
        (unapproved(1, Reason("no-answer", "the approval could not be read")), {}),
        (replace(unapproved(1), labels=frozenset({"h100"})), {}),
        (unapproved(1), {"pools": [replace(PUBLIC, public=False)]}),
    ],
)
def test_no_other_run_is_cancelled(waits: Job, others: dict[str, Any]) -> None:
    assert of_kind(decided(waits, job(2), **others), Cancel) == []


def test_a_machine_that_refused_a_job_does_not_count_for_the_approved_one() -> None:
    first = decided(job(1))
    [insert] = of_kind(first, Insert)
    entry = next(iter(first.memory.jobs.values()))
    assert entry.machines == 1
    first.memory.pending.clear()
    off = machine(insert.machine, "TERMINATED", id="42", job=next(iter(first.memory.jobs)), end=End("job-refused"))
    later = decided(job(1), machines=(off,), memory=first.memory, now=NOW + 100)
    assert next(iter(later.memory.jobs.values())).machines == 1
    assert len(of_kind(later, Insert)) == 1


# -- histories


def history(seed: int) -> History:
    """Return a history in which jobs of forks and of the repository came, with random faults and approvals."""
    order = PRIORITIES if seed % 2 else None
    pools = [pool("l4", 2, "gpu", "l4"), pool("t4", 1, "gpu", "t4")]
    pools = [replace(each, public=True, priorities=order) for each in pools]
    world = World(seed, pools)
    chance = world.chance
    made = History(world, *chance.choice(((0.0, 0.0, 0.0), (0.1, 0.02, 0.2), (0.3, 0.05, 0.3))))
    runs: list[int] = []
    for _ in range(chance.randint(2, 5)):
        for _ in range(chance.randint(0, 3)):
            labels = chance.choice(({"gpu", "l4"}, {"gpu"}, {"gpu", "t4"}))
            event = chance.choice(("pull_request", "push", "schedule")) if order else ""
            runs.append(world.queue(labels, 5, event=event, of_fork=chance.random() < 0.7).key.run_id)
        if runs and chance.random() < 0.5:
            world.approve(chance.choice(runs))
        if world.approved and chance.random() < 0.2:  # a push
            world.approved.discard(chance.choice(sorted(world.approved)))
        made.run(chance.randint(1, 15))
    return made


@settings(max_examples=int(os.environ.get("HISTORIES", "4")))
@given(st.integers(min_value=0, max_value=10**6))
def test_in_any_history_only_approved_commits_get_a_machine_and_each_machine_one_job(seed: int) -> None:
    """The world raises BrokenRuleError for a machine of a run that nobody has approved, and for a second job."""
    made = history(seed)
    made.calm_down()
    made.run(SETTLED_PASSES)
    world, last = made.world, made.passes[-1].decision
    waiting = {each.key: each for each in world.jobs.values() if each.status == "queued"}
    assert waiting.keys() <= last.reasons.keys() | last.assigned.keys()
    allowed = {key for key, each in waiting.items() if not each.of_fork or key.run_id in world.approved}
    assert {last.reasons[key].code for key in allowed if key in last.reasons} <= {"never-picked-up"}
    assert world.left_over() == []
    records_are_true(made)


def test_an_unapproved_job_can_take_a_machine_only_until_its_agent_knows_the_run() -> None:
    """The histories contain the attack, and without the agent's refusal they would break the rule."""
    worlds = [history(seed).world for seed in range(80)]
    assert any(life.refused for each in worlds for life in each.lives.values())
    assert sum(job.conclusion == "success" and job.of_fork for each in worlds for job in each.jobs.values()) > 5
