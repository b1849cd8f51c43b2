"""Reruns of lost jobs: which jobs, how often, and the effect of cancellations."""

from __future__ import annotations

from dataclasses import replace

import pytest
from gpu_manager.decision.decide import decide
from gpu_manager.decision.names import slug
from gpu_manager.memory import LostJob, MachineMemory, Memory
from gpu_manager.model import Insert, Job, JobKey, Rerun

from tests.manager.test_decide import FIRM, LOST, NOW, POOL, RUN, A, failed_run, job, lost_memory, observe

STILL = Job(LOST, frozenset({"gpu", "l4"}), "in_progress", NOW - 900, runner_name="l4-a")
CANCELLED = failed_run(conclusion="cancelled")


@pytest.mark.parametrize(("later", "jobs"), [(30, (STILL,)), (60, (STILL,)), (61, ())])
def test_a_cancellation_within_a_minute_or_after_github_gave_the_runner_up_is_the_preemptions(
    later: float, jobs: tuple[Job, ...]
) -> None:
    memory = decide([POOL], observe(jobs=jobs, now=NOW + later), lost_memory()).memory
    decision = decide([POOL], observe(runs={RUN: CANCELLED}, now=NOW + 90), memory)
    assert decision.actions == (Rerun(RUN, 1, None),)


def test_a_run_that_loses_its_machine_twice_is_left_to_a_person() -> None:
    again = JobKey(LOST.repository, LOST.run_id, 5, 2)
    known = MachineMemory("l4", NOW - 900, registered=True, job=again)
    taken = observe(preempted=frozenset({"l4-a"}), runs={RUN: failed_run(attempt=2, failed_jobs=(5,))})
    memory = decide([POOL], taken, Memory(machines={"l4-a": known})).memory
    decision = decide([POOL], replace(taken, now=NOW + 10), memory)
    assert (decision.actions, decision.memory.lost) == ((), {})


def test_a_rerun_that_does_not_begin_is_requested_three_times_a_minute_apart() -> None:
    memory, asked = lost_memory(), []
    for later in range(0, 300, 30):
        decision = decide([POOL], observe(runs={RUN: failed_run()}, now=NOW + later), memory)
        memory = decision.memory
        asked += [later] * len(decision.actions)
    assert asked == [0, 60, 120]
    assert memory.lost == {}


def test_two_lost_jobs_of_a_run_with_another_failure_are_run_again_one_after_the_other() -> None:
    """A rerun of one job sets the whole run to running, so the second job must wait for it."""
    other = JobKey(LOST.repository, LOST.run_id, 2, 1)
    lost = {slug(key): LostJob(key, "l4", NOW, 1) for key in (LOST, other)}
    failed = failed_run(failed_jobs=(1, 2, 3))
    first = decide([POOL], observe(runs={RUN: failed}), Memory(lost=lost))
    assert first.actions == (Rerun(RUN, 1, 1),)
    # Its answer may have been lost, so the same request follows.
    repeated = decide([POOL], observe(runs={RUN: failed}, now=NOW + 60), first.memory)
    assert repeated.actions == (Rerun(RUN, 1, 1),)
    begun = replace(failed, attempt=2, status="in_progress", conclusion="")
    running = decide([POOL], observe(runs={RUN: begun}, now=NOW + 70), repeated.memory)
    assert (running.actions, list(running.memory.lost)) == ((), [slug(other)])
    ended = replace(failed, attempt=2, failed_jobs=(2, 3))
    second = decide([POOL], observe(runs={RUN: ended}, now=NOW + 900), running.memory)
    assert second.actions == (Rerun(RUN, 2, 2),)


def test_a_run_whose_state_is_unknown_keeps_no_other_run_from_its_rerun() -> None:
    other = JobKey("example-org/a", 5, 9, 1)
    memory = lost_memory()
    memory.lost[slug(other)] = LostJob(other, "l4", NOW, 1)
    assert decide([POOL], observe(runs={RUN: failed_run()}), memory).actions == (Rerun(RUN, 1, None),)


def test_a_lost_job_is_waited_for_a_day() -> None:
    memory = lost_memory()
    assert list(decide([POOL], observe(now=NOW + 24 * 3600 - 1), memory).memory.lost) == [slug(LOST)]
    assert decide([POOL], observe(now=NOW + 24 * 3600), memory).memory.lost == {}


def test_a_run_of_exactly_thirty_days_is_run_again() -> None:
    """GitHub refuses to rerun an older run."""
    month = failed_run(created_unix=NOW - 30 * 24 * 3600)
    assert decide([POOL], observe(runs={RUN: month}), lost_memory()).actions == (Rerun(RUN, 1, None),)


def test_a_pool_buys_spot_machines_again_a_day_after_a_rerun() -> None:
    pool = replace(POOL, rungs=(A, FIRM))
    waiting = observe(jobs=(job(),))
    for until, market in ((NOW + 1, "standard"), (NOW, "spot")):
        [insert] = decide([pool], waiting, Memory(steady={"example-org/kernels 11": until})).actions
        assert isinstance(insert, Insert)
        assert insert.rung.market == market


def test_a_pool_of_spot_machines_alone_buys_one_after_a_rerun() -> None:
    decision = decide([POOL], observe(jobs=(job(),)), Memory(steady={"example-org/kernels 11": NOW + 1}))
    assert [each.rung.market for each in decision.actions if isinstance(each, Insert)] == ["spot"]
