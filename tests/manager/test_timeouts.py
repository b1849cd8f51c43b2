"""Cancelled runs of jobs that wait longer than queueTimeoutSec: which, when, and how often."""

from __future__ import annotations

from dataclasses import replace

import pytest
from gpu_manager.decision.decide import Decision, decide
from gpu_manager.loop import Event
from gpu_manager.memory import Memory
from gpu_manager.model import Cancel, Insert, Job, Pool
from gpu_manager.ports import GithubView

from tests.manager.test_decide import NOW, POOL, job, observe
from tests.manager.test_loop import Scripted, manager

LIMITED = replace(POOL, queue_timeout_sec=600, max=1)
REASON = "job 1 was queued for 601 s, and queueTimeoutSec is 600; its run is cancelled"


def after(later: float, *jobs: Job, memory: Memory | None = None, pools: tuple[Pool, ...] = (LIMITED,)) -> Decision:
    """Return the decision about the jobs, which a pass has seen before."""
    seen = memory or decide(pools, observe(jobs=jobs), Memory()).memory
    return decide(pools, observe(jobs=jobs, now=NOW + later), seen)


def cancels(decision: Decision) -> list[Cancel]:
    return [each for each in decision.actions if isinstance(each, Cancel)]


@pytest.mark.parametrize(("later", "is_cancelled"), [(600, False), (601, True)])
def test_the_time_counts_from_the_first_pass_that_saw_the_job_queued(later: float, is_cancelled: bool) -> None:
    waited_for_an_approval = job(age=9000)
    decision = after(later, waited_for_an_approval)
    assert cancels(decision) == ([Cancel(waited_for_an_approval.key, REASON)] if is_cancelled else [])
    reason = decision.reasons[waited_for_an_approval.key]
    assert (reason.code == "queue-timeout", reason.waiting_helps) == (is_cancelled, not is_cancelled)
    # The answer to its insert was lost.
    assert any(isinstance(each, Insert) for each in decision.actions) is not is_cancelled


def test_a_job_that_may_get_a_machine_without_a_timeout_or_runs_or_waits_for_an_approval_is_not_cancelled() -> None:
    assert cancels(after(9999, job(), pools=(LIMITED, replace(POOL, name="other")))) == []
    assert cancels(after(9999, job(), pools=(POOL,))) == []
    for status in ("in_progress", "waiting"):
        assert cancels(after(9999, job(status=status))) == []


def test_the_longest_timeout_of_the_jobs_pools_counts() -> None:
    slow = replace(LIMITED, name="slow", queue_timeout_sec=900)
    assert [len(cancels(after(later, job(), pools=(LIMITED, slow)))) for later in (900, 901)] == [0, 1]


def test_a_run_is_cancelled_once_and_its_other_jobs_get_no_machine() -> None:
    first = job()
    late, new = (replace(first, key=first.key._replace(job_id=number)) for number in (2, 3))
    memory = after(601, first, late).memory
    decision = after(610, first, late, new, memory=memory)
    assert decision.actions == ()
    assert {key: reason.detail for key, reason in decision.reasons.items()} == dict.fromkeys(
        (first.key, late.key, new.key), REASON
    )
    again = replace(first, key=first.key._replace(job_id=4, attempt=2))
    # The pending machine of the first attempt is for the second one.
    assert list(after(620, again, memory=memory).assigned) == [again.key]


def test_a_request_without_effect_is_repeated_twice_a_minute_apart() -> None:
    memory, asked = after(0, job()).memory, []
    for later in range(600, 1000, 20):
        decision = after(later, job(), memory=memory)
        memory = decision.memory
        asked += [later] * len(cancels(decision))
    assert asked == [620, 680, 740]
    assert after(740 + 24 * 3600, memory=memory).memory.cancelled == {}


def test_a_repository_that_could_not_be_read_keeps_its_runs() -> None:
    seen = after(0, job()).memory
    unread = observe(jobs=(job(),), now=NOW + 9999, unread=frozenset({job().key.repository}))
    assert cancels(decide([LIMITED], unread, seen)) == []


@pytest.mark.parametrize("is_queued", [True, False])
def test_a_job_that_has_just_got_a_runner_keeps_its_run(is_queued: bool) -> None:
    world = Scripted(view=GithubView(NOW, (job(),), ()), now=NOW + 601, removable=is_queued)
    loop, store = manager(world, after(0, job()).memory, LIMITED)
    detail = REASON if is_queued else "the job is no longer queued; its run continues"
    assert Event("cancel", "example-org/kernels run 11", detail) in loop.step().events
    assert len(store.memory.cancelled) == is_queued
