"""Pools with priorities: which job gets the next machine, and that no other job can take its runner."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from gpu_manager.decision.decide import Decision, decide
from gpu_manager.decision.jobs import is_of_another
from gpu_manager.decision.names import slug
from gpu_manager.loop import Event
from gpu_manager.memory import JobMemory, MachineMemory, Memory, Registration, from_json, to_json
from gpu_manager.model import (
    Delete,
    Insert,
    Job,
    Machine,
    NewRunner,
    OtherPool,
    Pool,
    Priorities,
    Register,
    RemoveRunner,
    Runner,
    Schedule,
    Warm,
)
from gpu_manager.ports import GithubView, Mailbox

from tests.manager.test_decide import NOW, POOL, job, machine, observe
from tests.manager.test_loop import Scripted, manager
from tests.manager.test_registrations import ready

ORDER = ("merge_group", "push:main", "pull_request", "schedule")
L4 = replace(POOL, registered_by="manager", max=1, priorities=Priorities(ORDER, aging_sec=600))


def of(event: str, number: int = 1, *, age: float = 5, repository: str = "kernels", **others: Any) -> Job:
    """Return a job of an event, which may have a branch, with the label of its run."""
    made = job(number, "gpu", "l4", f"run-{10 + number}", age=age)
    name, _, branch = event.partition(":")
    key = made.key._replace(repository=f"example-org/{repository}")
    return replace(made, key=key, event=name, branch=branch, **others)


def decided(*jobs: Job, pool: Pool = L4, memory: Memory | None = None, **found: Any) -> Decision:
    return decide([pool], observe(jobs=jobs, **found), memory or Memory())


def order_of(*jobs: Job, pool: Pool = L4) -> list[int]:
    """Return the jobs in the order in which they get machines."""
    actions = decided(*jobs, pool=replace(pool, max=20)).actions
    return [each.job.key.job_id for each in actions if isinstance(each, Insert) and each.job]


def registered(decision: Decision) -> list[tuple[str, list[str]]]:
    return [(each.machine.name, sorted(each.labels or ())) for each in decision.actions if isinstance(each, Register)]


def only_for(number: int) -> list[str]:
    return ["gpu", "l4", f"run-{10 + number}"]


def idle(name: str, *labels: str) -> Runner:
    return Runner(7, name, online=True, busy=False, labels=frozenset(labels))


# -- the order


def test_jobs_get_machines_in_the_order_of_their_classes_and_then_of_their_age() -> None:
    jobs = [of("schedule", 1, age=90), of("pull_request", 2), of("pull_request", 3, age=80), of("merge_group", 4)]
    assert order_of(*jobs) == [4, 3, 2, 1]
    assert order_of(*jobs, pool=replace(POOL, registered_by="manager")) == []  # their labels are those of no pool


def test_a_class_may_be_an_event_of_one_branch() -> None:
    assert order_of(of("push:feature", 1, age=90), of("pull_request:main", 2), of("push:main", 3)) == [3, 2, 1]


def test_jobs_of_other_events_and_without_the_label_of_their_run_are_last() -> None:
    plain = replace(of("merge_group", 1, age=90), labels=frozenset({"gpu", "l4"}))
    of_another_run = replace(of("merge_group", 2), labels=frozenset({"gpu", "l4", "run-99"}))
    decision = decided(plain, of_another_run, of("release", 3), of("schedule", 4), pool=replace(L4, max=9))
    assert [each.job.key.job_id for each in decision.actions if isinstance(each, Insert) and each.job] == [4, 1, 3]
    assert decision.reasons[of_another_run.key].code == "no-pool"


@pytest.mark.parametrize(("age", "order"), [(599, [2, 3, 1]), (600, [2, 3, 1]), (1199, [2, 3, 1]), (1200, [2, 1, 3])])
def test_each_aging_sec_of_waiting_raises_a_job_by_one_class(age: float, order: list[int]) -> None:
    """A job of the last of three classes is after 1,200 s equal to one of the first, and older."""
    pool = replace(L4, priorities=Priorities(("merge_group", "pull_request", "schedule"), aging_sec=600))
    assert (
        order_of(of("schedule", 1, age=age), of("merge_group", 2, age=1300), of("merge_group", 3), pool=pool) == order
    )


def test_repositories_take_turns_within_a_class() -> None:
    many = [of("pull_request", number, age=90 - number) for number in (1, 2, 3)]
    assert order_of(*many, of("pull_request", 4, repository="models"), of("schedule", 5, repository="docs")) == [
        1, 4, 2, 3, 5,
    ]  # fmt: skip


def test_a_repository_with_its_share_comes_after_all_others() -> None:
    assert L4.priorities
    half = replace(L4, max=4, priorities=replace(L4.priorities, repository_share=0.5))
    many = [of("merge_group", number, age=90 - number) for number in (1, 2, 3)]
    other = of("schedule", 4, repository="models")
    runs = of("push:main", 5, status="in_progress", runner_name="l4-z")
    assert order_of(*many, other, pool=half) == [1, 2, 3, 4]  # of 20 machines, half are 10
    first = decided(*many, other, pool=half)
    assert [each.job.key.job_id for each in first.actions if isinstance(each, Insert) and each.job] == [1, 2, 4, 3]
    busy = machine("l4-z", registered_by="manager", sealed=True)
    second = decided(*many, other, runs, pool=half, machines=(busy,))
    assert [each.job.key.job_id for each in second.actions if isinstance(each, Insert) and each.job] == [1, 4, 2]


# -- the runner


def test_the_first_job_without_a_runner_gets_the_machine_that_is_ready() -> None:
    night = of("schedule", 1)
    first = decided(night)
    [name] = first.memory.pending
    first.memory.pending.clear()  # its insert has ended
    vm = ready(name, job=slug(night.key))
    merge = of("merge_group", 2)
    booted = decided(night, merge, memory=first.memory, machines=(vm,), now=NOW + 60)
    assert registered(booted) == [(name, only_for(2))]
    assert (booted.assigned, booted.reasons[merge.key].code) == ({night.key: name}, "at-max")
    # The machine counts as one for the job that gets it.
    assert {key: each.machines for key, each in booted.memory.jobs.items()} == {slug(night.key): 0, slug(merge.key): 1}
    assert from_json(to_json(booted.memory)) == booted.memory
    sealed = replace(vm, sealed=True)
    later = decided(night, merge, memory=booted.memory, machines=(sealed,), now=NOW + 70)
    assert (later.actions, later.assigned, later.reasons[night.key].code) == ((), {merge.key: name}, "at-max")
    # Its record finds that job, even if no pass sees it run.
    assert [each.run_id for each in booted.memory.histories[name].runs] == [12]


def test_two_machines_that_are_ready_get_different_jobs() -> None:
    vms = (ready(), ready("l4-b", id="43"))
    decision = decided(of("schedule", 1), of("merge_group", 2), pool=replace(L4, max=2), machines=vms)
    assert registered(decision) == [("l4-a", only_for(2)), ("l4-b", only_for(1))]


def test_without_priorities_a_runner_has_the_labels_of_its_pool() -> None:
    decision = decided(job(), pool=replace(POOL, registered_by="manager"), machines=(ready(),))
    assert decision.actions == (Register(ready(), None),)
    assert decision.memory.registrations == {"l4-a": Registration("42", NOW, None)}


def test_a_registration_that_is_repeated_may_be_for_a_newer_job() -> None:
    merge = of("merge_group", 2)
    memory = decided(of("schedule", 1), machines=(ready(),)).memory
    assert registered(decided(merge, of("schedule", 1), memory=memory, machines=(ready(),), now=NOW + 29)) == []
    again = decided(merge, of("schedule", 1), memory=memory, machines=(ready(),), now=NOW + 30)
    assert registered(again) == [("l4-a", only_for(2))]


def test_a_job_to_which_github_assigned_no_runner_three_times_gets_no_further_one() -> None:
    merge, night = of("merge_group", 1), of("schedule", 2)
    memory = Memory(jobs={slug(merge.key): JobMemory(machines=3, last_seen=NOW)})
    decision = decided(merge, night, memory=memory, machines=(ready(),))
    assert registered(decision) == [("l4-a", only_for(2))]
    assert decision.reasons[merge.key].code == "never-picked-up"


def held(*jobs: Job, now: float = NOW, memory: Memory | None = None, labels: tuple[str, ...] = ()) -> Decision:
    """Decide with one idle machine, whose runner is only for run 11."""
    vm = ready(sealed=True)
    runner = idle("l4-a", *(labels or only_for(1)))
    return decided(*jobs, memory=memory, machines=(vm,), runners=(runner,), now=now)


def test_a_runner_whose_job_is_gone_is_removed_and_holds_no_job_back() -> None:
    """The labels are those of GitHub's list, which a manager that has lost its memory reads too."""
    night = of("schedule", 2)
    first = held(night)
    assert (first.actions, first.assigned, first.reasons[night.key].code) == ((), {}, "at-max")
    later = held(night, now=NOW + 30, memory=first.memory)
    vm = ready(sealed=True)
    assert later.actions == (RemoveRunner(idle("l4-a", *only_for(1)), vm, "no queued job needs it"),)
    started = decided(night, pool=replace(L4, max=2), machines=(vm,), runners=(idle("l4-a", *only_for(1)),))
    assert [type(each) for each in started.actions] == [Insert]


def test_a_manager_without_its_memory_gives_a_runner_to_no_job_without_its_labels() -> None:
    """The machine was started for a job of a schedule, and its runner was registered for one of the merge queue."""
    night = of("schedule", 2)
    vm = ready(sealed=True, job=slug(night.key))
    decision = decided(night, machines=(vm,), runners=(idle("l4-a", *only_for(1)),))
    assert (decision.assigned, decision.reasons[night.key].code) == ({}, "at-max")


def test_a_job_with_a_runner_leaves_the_machine_that_boots_for_it_to_the_next_job() -> None:
    merge, night = of("merge_group", 1), of("schedule", 2)
    vms = (machine("l4-b", "STAGING", registered_by="manager", job=slug(merge.key)), ready(sealed=True))
    memory = Memory(machines={"l4-a": MachineMemory("l4", NOW - 60, started_for=slug(merge.key))})
    runners = (idle("l4-a", *only_for(1)),)
    decision = decided(merge, night, memory=memory, pool=replace(L4, max=2), machines=vms, runners=runners)
    assert (decision.actions, decision.assigned) == ((), {merge.key: "l4-a", night.key: "l4-b"})


def test_a_job_of_several_pools_keeps_its_class() -> None:
    merge = replace(of("merge_group", 1), labels=frozenset({"gpu", "run-11"}))
    other = replace(L4, name="t4", labels=frozenset({"gpu", "t4"}))
    free = observe(jobs=(of("schedule", 2), merge), machines=(machine("l4-a", "STAGING", registered_by="manager"),))
    assert decide([L4, replace(other, max=1)], free, Memory()).assigned[merge.key] == "l4-a"


def test_a_request_that_was_lost_with_its_job_counts_as_no_machine() -> None:
    waiting = of("schedule", 1)
    memory = decided(waiting).memory
    # A restarted manager cannot read the repository, so it does not know that the job still waits.
    unread = frozenset({"example-org/kernels"})
    for later in (10, 80):
        memory = decided(memory=memory, now=NOW + later, unread=unread).memory
    assert (memory.pending, [each.machines for each in memory.jobs.values()]) == ({}, [0])


def test_another_job_of_the_same_run_or_one_without_its_label_can_take_that_runner() -> None:
    same_run = replace(of("schedule", 1), key=of("schedule", 1).key._replace(job_id=9))
    for taker in (same_run, replace(of("schedule", 2), labels=frozenset({"gpu", "l4"}))):
        decision = held(taker, now=NOW + 99)
        assert (decision.actions, decision.assigned) == ((), {taker.key: "l4-a"})


def test_a_machine_without_a_runner_is_removed_before_a_runner_of_a_waiting_job() -> None:
    boots, merge = machine("l4-b", "STAGING", registered_by="manager"), of("merge_group", 1)
    vms = (ready(sealed=True), boots)
    memory = decided(merge, pool=replace(L4, max=2), machines=vms, runners=(idle("l4-a", *only_for(1)),)).memory
    later = decided(
        merge, pool=replace(L4, max=2), machines=vms, runners=(idle("l4-a", *only_for(1)),), memory=memory, now=NOW + 30
    )
    assert [type(each) for each in later.actions] == [Delete]
    assert later.assigned == {merge.key: "l4-a"}


@pytest.mark.parametrize("priorities", [L4.priorities, None])
def test_the_loop_registers_the_runner_with_the_labels_of_the_action(priorities: Priorities | None) -> None:
    asked: list[frozenset[str]] = []

    class Hub(Scripted):
        def register(self, pool: Pool, name: str) -> NewRunner:
            asked.append(pool.labels)
            return NewRunner(7, name, "jit")

        def mailbox(self, machine: Machine) -> Mailbox:
            return Mailbox(False)

        def send(self, machine: Machine, mailbox: Mailbox, registration: str) -> bool:
            return True

    waiting = of("merge_group", 1) if priorities else job()
    loop, _ = manager(Hub((ready(),), view=GithubView(NOW, (waiting,), ())), pool=replace(L4, priorities=priorities))
    result = loop.step()
    assert Event("register", "l4-a", "runner l4-a-42", "l4") in result.events
    assert asked == [waiting.labels if priorities else POOL.labels]


def test_another_manager_may_have_the_pool_with_priorities() -> None:
    other = OtherPool("a100s", frozenset({"gpu", "l4"}), priorities=True)
    assert is_of_another(of("push", 1), "z", [], [other])
    assert not is_of_another(of("push", 1), "z", [], [replace(other, priorities=False)])


# -- the reasons


def test_a_reason_has_the_class_and_the_number_of_jobs_before() -> None:
    plain = replace(of("merge_group", 4), labels=frozenset({"gpu", "l4"}))
    waiting = [of("schedule", 1, age=700), of("merge_group", 2), of("pull_request", 3), plain]
    runs = of("push:main", 5, status="in_progress", runner_name="l4-z")
    busy = machine("l4-z", registered_by="manager", sealed=True)
    # A job that waits only for GitHub is not before others.
    assigned, vm = of("merge_group", 6), ready("l4-y", sealed=True)
    found = {"machines": (busy, vm), "runners": (idle("l4-y", *only_for(6)),)}
    reasons = decided(*waiting, runs, assigned, pool=replace(L4, max=2), **found).reasons
    full = "2 of 2 machines are in use; class"
    assert {key.job_id: each.detail for key, each in reasons.items()} == {
        2: f"{full} 1 of 5 (merge_group); the next ready machine is for it",
        1: f"{full} 4 of 5 (schedule), raised to 3 by its wait; jobs before it: 1",
        3: f"{full} 3 of 5 (pull_request); jobs before it: 2",
        4: f"{full} 5 of 5 (all other jobs); jobs before it: 3; runs-on lacks run-${{{{ github.run_id }}}}, "
        "without which the job is in the last class",
    }


def test_a_reason_names_the_share_of_the_repository() -> None:
    assert L4.priorities
    half = replace(L4, max=2, priorities=replace(L4.priorities, repository_share=0.5))
    runs = [of("push:main", number, status="in_progress", runner_name=f"l4-{number}") for number in (8, 9)]
    vms = tuple(machine(each.runner_name, registered_by="manager", sealed=True) for each in runs)
    [reason] = decided(of("merge_group", 1), *runs, pool=half, machines=vms).reasons.values()
    assert reason.detail == (
        "2 of 2 machines are in use; class 1 of 5 (merge_group); the next ready machine is for it; "
        "example-org/kernels has its share, 1 of 2"
    )


# -- with other fields


def test_in_a_public_pool_the_first_job_gets_the_runner_for_its_labels_and_its_run_only() -> None:
    pool, night, merge = replace(L4, public=True), of("schedule", 1), of("merge_group", 2)
    first = decided(night, merge, pool=pool, machines=(ready(job=slug(night.key)),))
    labels = frozenset(only_for(2))
    assert first.actions == (Register(ready(job=slug(night.key)), merge.key, labels),)
    sealed = ready(job=slug(night.key), sealed=True)
    later = decided(night, merge, pool=pool, memory=first.memory, machines=(sealed,), now=NOW + 10)
    assert (later.actions, later.assigned) == ((), {merge.key: "l4-a"})
    # A job of another run without the label of its run fits the runner, and the agent would refuse it.
    plain = replace(of("schedule", 3), labels=frozenset({"gpu", "l4"}))
    assert decided(plain, pool=pool, memory=first.memory, machines=(sealed,), now=NOW + 10).assigned == {}


def test_a_machine_that_waits_gets_the_labels_of_the_job_that_needs_it() -> None:
    always = Schedule(("mon", "tue", "wed", "thu", "fri", "sat", "sun"), "00:00", "00:00", "UTC")
    pool, vm = replace(L4, warm=Warm(1, always, 3600)), ready(job="standby")
    alone = decided(pool=pool, machines=(vm,))
    assert alone.actions == ()
    jobs = of("schedule", 1), of("merge_group", 2)
    needed = decided(*jobs, pool=pool, machines=(vm,), memory=alone.memory, now=NOW + 60)
    assert registered(needed) == [("l4-a", only_for(2))]
