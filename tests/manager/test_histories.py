"""The control loop in worlds where everything can fail, with rules that hold in every history."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from gpu_manager.decision.names import slug
from gpu_manager.model import Priorities, Schedule, Warm
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.manager.histories import History
from tests.manager.simulated_vendors import FakeCompute
from tests.manager.simulated_world import BOOT_SEC, IDLE_SEC, PASS_SEC, REPOSITORIES, World, pool

POOLS = [
    pool("h100", 2, "self-hosted", "gpu", "h100", market="flex-start"),
    pool("l4", 3, "self-hosted", "gpu", "l4", standby=2),
    pool("t4", 1, "self-hosted", "gpu", "t4", market="standard", registered_by="machine"),
]
# The histories begin on a Monday at 13:46, and settle after 14:10.
_TIMES = Schedule(days=("mon",), start="13:00", end="14:10", time_zone="UTC")
WITH_WARM = [replace(each, warm=Warm(1, _TIMES, 600)) if each.standby else each for each in POOLS]
BY_MACHINE = [replace(each, registered_by="machine", standby=0) for each in POOLS]
SETTLED_PASSES = round((4 * (BOOT_SEC + IDLE_SEC) + 3600) / PASS_SEC)


EVENTS = ("merge_group", "push", "pull_request", "schedule", "release", "")
PRIORITIES = Priorities(("merge_group", "push", "pull_request", "schedule"), aging_sec=600, repository_share=0.5)
ORDERED = [replace(each, registered_by="manager", priorities=PRIORITIES) for each in WITH_WARM]


def history(seed: int) -> History:
    """Return a history on Compute Engine."""
    pools = (BY_MACHINE, POOLS, BY_MACHINE, WITH_WARM)[seed % 4]
    return history_in(World(seed, list(pools), skew_sec=(-600.0, 0.0, 600.0)[seed % 3]))


def history_in(world: World, vendor: Callable[..., Any] = FakeCompute) -> History:
    """Return a history with jobs that come, end and are cancelled, in a world with random faults."""
    chance = world.chance
    rates = chance.choice(((0.0, 0.0, 0.0), (0.1, 0.02, 0.2), (0.3, 0.05, 0.5), (0.05, 0.1, 0.1)))
    made = History(world, *rates, vendor)
    for _ in range(chance.randint(4, 12)):
        for _ in range(chance.randint(0, 3)):
            labels = chance.choice(({"gpu", "l4"}, {"self-hosted", "gpu", "t4"}, {"gpu"}, {"gpu", "h100"}))
            event = chance.choice(EVENTS) if world.pools[0].priorities else ""
            job = world.queue(labels, chance.choice((5, 60, 300)), zombie=chance.random() < 0.05, event=event)
            if chance.random() < 0.25:
                job.cancel_at = world.now + chance.randint(0, 900)
        made.run(chance.randint(1, 12))
    return made


# `make test-histories` runs 2,000.
@settings(max_examples=int(os.environ.get("HISTORIES", "4")))
@given(st.integers(min_value=0, max_value=10**6))
def test_in_any_history_no_busy_machine_is_deleted_and_every_job_ends_or_has_a_reason(seed: int) -> None:
    """The worlds raise BrokenRuleError for a deleted busy machine, an exceeded maximum, or a rerun of a
    cancelled run.
    """
    ends_well(history(seed))


@settings(max_examples=int(os.environ.get("HISTORIES", "4")))
@given(st.integers(min_value=0, max_value=10**6))
def test_the_same_holds_in_any_history_with_priorities(seed: int) -> None:
    ends_well(history_in(World(seed, list(ORDERED), skew_sec=(-600.0, 0.0, 600.0)[seed % 3])))


def calm(most: int, **priorities: Any) -> History:
    """Return a history without faults, with one pool with priorities."""
    order = replace(PRIORITIES, repository_share=None, aging_sec=86400)
    l4 = replace(ORDERED[1], max=most, standby=0, warm=None, priorities=replace(order, **priorities))
    return History(World(7, [l4], faults=False))


def test_jobs_run_in_the_order_of_their_classes_also_those_that_come_while_a_machine_boots() -> None:
    made = calm(1)
    world = made.world
    night, change = (world.queue({"gpu", "l4"}, 60, event=event) for event in ("schedule", "pull_request"))
    made.run(2)
    merge, push = (world.queue({"gpu", "l4"}, 60, event=event) for event in ("merge_group", "push"))
    made.run(200)
    ran = sorted(world.jobs.values(), key=lambda each: each.started)
    assert [each.conclusion for each in ran] == ["success"] * 4
    assert ran == [merge, push, change, night]


@pytest.mark.parametrize(("aging_sec", "starves"), [(600, False), (86400, True)])
def test_no_class_starves_while_the_first_class_could_use_all_machines(aging_sec: int, starves: bool) -> None:
    made = calm(1, aging_sec=aging_sec)
    night = made.world.queue({"gpu", "l4"}, 60, event="schedule")
    for _ in range(400):
        waiting = sum(each.status == "queued" for each in made.world.jobs.values())
        for _ in range(waiting, 3):
            made.world.queue({"gpu", "l4"}, 60, event="merge_group")
        made.run(1)
    assert (night.status == "queued") is starves
    # Three classes higher, it comes after the older jobs of this class only.
    assert starves or night.started - night.created < 3 * aging_sec + 3 * (BOOT_SEC + 60)


@pytest.mark.parametrize("share", [0.5, None])
def test_a_repository_has_no_more_than_its_share_while_others_wait(share: float | None) -> None:
    made = calm(4, repository_share=share)
    kernels, models = REPOSITORIES
    for _ in range(9):
        made.world.queue({"gpu", "l4"}, 200, event="merge_group", repository=kernels)
    others = [made.world.queue({"gpu", "l4"}, 200, event="schedule", repository=models) for _ in range(3)]
    most = 0
    while any(each.status == "queued" for each in others):
        made.run(1)
        running = [each.key.repository for each in made.world.jobs.values() if each.status == "in_progress"]
        most = max(most, running.count(kernels))
    assert most == (2 if share else 4)
    made.run(200)
    assert {each.conclusion for each in made.world.jobs.values()} == {"success"}


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(20))])
def test_after_the_cancellation_of_its_run_no_machine_starts_for_a_job(seed: int) -> None:
    """FakeGithub raises BrokenRuleError for a run that is cancelled too early, and FakeCompute for a machine of one."""
    pools = [replace(each, queue_timeout_sec=300) for each in POOLS]
    made = history_in(World(seed, pools, skew_sec=(-600.0, 0.0, 600.0)[seed % 3]))
    made.world.queue({"gpu", "l4"}, 60, zombie=True)
    made.run(60)
    ends_well(made)
    # A manager that has lost its memory waits again from its next pass.
    assert made.world.timed_out


def ends_well(made: History, *, has_times: bool = True) -> None:
    """Stop all faults, and check the rules for the remaining state.

    `has_times` is False for a supplier that does not say when a machine was on, which makes its records estimates.
    """
    made.calm_down()
    made.run(SETTLED_PASSES)
    world, last = made.world, made.passes[-1]
    queued = {job.key: job for job in world.jobs.values() if job.status != "completed"}
    # A job whose three machines all failed has used up its budget. Some of them were started for another job.
    first = {each.id: each.job for one in made.passes for each in one.observation.machines or ()}
    count = Counter(world.machines_of_job)
    for number, owner in made.store.owners.items():
        # A manager that has lost its memory requests such a machine again, and Google ignores the request.
        count.subtract([] if world.forgotten else [first.get(number, "")])
        count.update([owner])
    never_ran = {key for key, job in queued.items() if not job.zombie and count[slug(key)] < 3}
    assert never_ran == set(), "jobs that never ran"
    assert set(queued) <= set(last.decision.reasons) | set(last.decision.assigned)
    # The machines of a zombie job may have run other jobs. Then the zombie still gets machines, or waits for its pool.
    codes = {
        last.decision.reasons[key].code
        for key, job in queued.items()
        if key in last.decision.reasons and not job.zombie
    }
    assert codes <= {"never-picked-up"}
    for job in world.jobs.values():
        if job.zombie and job.status != "completed":
            world.cancel(job)
    made.run(round((BOOT_SEC + IDLE_SEC + 300) / PASS_SEC))
    assert world.left_over() == []
    for each in world.pools:
        kept = sum(vm.machine.pool == each.name for vm in world.vms.values())
        assert each.standby <= kept <= each.kept, "machines on standby"
    # A manager that lost its memory does not know which runners it registered. GitHub removes them after a day.
    assert world.forgotten or world.stray_runners() == set(), "runners without a machine"
    assert max(world.reruns.values(), default=0) <= 1
    assert {attempt for _, attempt in world.reruns} <= {1}
    assert max((len(life.jobs) for life in world.lives.values()), default=0) <= 1, "jobs of a machine"
    # Without lost requests, each job that failed with its GPU is run again, if the manager has read the machine's end.
    if not made.faulty.had_faults and not world.forgotten:
        known = made.passes[-1].decision.memory.faults.values()
        assert {each.key.job_id for each in known if each.failed} == set(world.reports)
        assert {each.run.run_id for each in known if each.failed and each.key.attempt == 1} <= {
            run for run, _ in world.reruns
        }
    if has_times:
        records_are_true(made)


def records_are_true(made: History) -> None:
    """Check that each machine has one record with its real times, cost and job.

    A manager that has lost its memory may lack a record, or know a machine only since then.
    """
    world, records = made.world, made.store.lines
    assert not [key for key, each in records.items() if world.lives[each.id].name != each.machine]
    lives = {f"{life.name}-{number}": life for number, life in world.lives.items() if life.listed}
    gone = {key for key, life in lives.items() if life.gone}
    known = [each.observation for each in made.passes if each.saved and each.observation.machines is not None]
    # A pass that was killed may have listed a machine that no other pass saw.
    seen_by_a_pass = {
        f"{each.name}-{each.id}" for found in known for each in found.machines or () if not each.waits_for_capacity
    }
    assert records.keys() <= gone
    assert world.forgotten or gone & seen_by_a_pass <= records.keys()
    seen = [each.now for each in known]
    least = most = total = 0.0
    for key, record in records.items():
        on = [(begin.timestamp(), end.timestamp()) for begin, end in record.on]
        begins = [begin for begin, _ in on]
        # No pass sees a machine that is started and gone between two passes.
        real = [each for each in lives[key].on if each[0] in begins or any(each[0] <= now < each[1] for now in seen)]
        if not world.forgotten:
            assert begins == [begin for begin, _ in real]
            assert [end for _, end in on[:-1]] == [end for _, end in real[:-1]]
            assert "on" in record.incomplete or on[-1][1] == real[-1][1]
            latest = next(now for now in seen if now > real[-1][1]) if "on" in record.incomplete else real[-1][1]
            assert real[-1][1] <= on[-1][1] <= latest, "a machine that is gone counts until the pass that missed it"
            real_sec = sum(end - begin for begin, end in real)
            least, most = least + real_sec * 0.4 / 3600, most + (real_sec + latest - real[-1][1]) * 0.4 / 3600
            total += record.usd or 0.0
        jobs = lives[key].jobs
        if record.job:
            job = world.jobs[record.job.id]
            assert record.job.id in (*jobs, lives[key].refused)
            assert not record.job.completed or record.job.completed.timestamp() == job.completed + world.skew_sec
        elif jobs and not world.forgotten:
            # GitHub gave the machine a job of another run, which began and ended between two passes.
            assert "job" in record.incomplete or record.end is None or record.end.reason == "preempted"
    assert least - 1e-9 <= total <= most + 1e-9
