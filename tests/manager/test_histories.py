"""The control loop in worlds where everything can fail, with rules that hold in every history."""

from __future__ import annotations

import os
from dataclasses import replace

from gpu_manager.decision.names import slug
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.manager.histories import BOOT_SEC, IDLE_SEC, PASS_SEC, History, World, pool

POOLS = [
    pool("h100", 2, "self-hosted", "gpu", "h100", market="flex-start"),
    pool("l4", 3, "self-hosted", "gpu", "l4", standby=2),
    pool("t4", 1, "self-hosted", "gpu", "t4", market="standard", registered_by="machine"),
]
BY_MACHINE = [replace(each, registered_by="machine", standby=0) for each in POOLS]
SETTLED_PASSES = round((4 * (BOOT_SEC + IDLE_SEC) + 3600) / PASS_SEC)


def history(seed: int) -> History:
    """Return a history with jobs that come, end and are cancelled, in a world with random faults."""
    pools = POOLS if seed % 2 else BY_MACHINE
    world = World(seed, list(pools), skew_sec=(-600.0, 0.0, 600.0)[seed % 3])
    chance = world.chance
    rates = chance.choice(((0.0, 0.0, 0.0), (0.1, 0.02, 0.2), (0.3, 0.05, 0.5), (0.05, 0.1, 0.1)))
    made = History(world, *rates)
    for _ in range(chance.randint(4, 12)):
        for _ in range(chance.randint(0, 3)):
            labels = chance.choice(({"gpu", "l4"}, {"self-hosted", "gpu", "t4"}, {"gpu"}, {"gpu", "h100"}))
            job = world.queue(labels, chance.choice((5, 60, 300)), zombie=chance.random() < 0.05)
            if chance.random() < 0.25:
                job.cancel_at = world.now + chance.randint(0, 900)
        made.run(chance.randint(1, 12))
    return made


# `make test-histories` runs 2,000.
@settings(max_examples=int(os.environ.get("HISTORIES", "15")))
@given(st.integers(min_value=0, max_value=10**6))
def test_in_any_history_no_busy_machine_is_deleted_and_every_job_ends_or_has_a_reason(seed: int) -> None:
    """The worlds raise BrokenRuleError for a deleted busy machine, an exceeded maximum, or a rerun of a
    cancelled run.
    """
    ends_well(history(seed))


def ends_well(made: History) -> None:
    """Stop all faults, and check the rules for the remaining state."""
    made.calm_down()
    made.run(SETTLED_PASSES)
    world, last = made.world, made.passes[-1]
    queued = {job.key: job for job in world.jobs.values() if job.status != "completed"}
    # A job whose three machines all failed has used up its budget.
    never_ran = {key for key, job in queued.items() if not job.zombie and world.machines_of_job[slug(key)] < 3}
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
    assert len(world.vms) == sum(each.standby for each in world.pools), "machines on standby"
    # A manager that lost its memory does not know which runners it registered. GitHub removes them after a day.
    assert world.forgotten or world.stray_runners() == set(), "runners without a machine"
    assert max(world.reruns.values(), default=0) <= 1
    assert {attempt for _, attempt in world.reruns} <= {1}
