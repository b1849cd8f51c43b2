"""Flex-start machines: Google accepts the request at once and looks for capacity while the machine is PENDING."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
from gpu_manager.decision.decide import decide
from gpu_manager.decision.names import slug
from gpu_manager.memory import Cooldown, Memory
from gpu_manager.model import Delete, InsertError, Machine, Offer, OperationState, Reason, Runner

from tests.manager.test_decide import NOW, POOL, job, machine, observe

A, B = (Offer(f"us-central1-{zone}", "a3-highgpu-1g", "flex-start", "nvidia-h100-80gb") for zone in "ab")
FLEX = replace(POOL, rungs=(A, B))
PLACE = "us-central1-a a3-highgpu-1g flex-start"
STOCKOUT = OperationState(True, InsertError("no-capacity", "no capacity within the wait"))


def begun(done: bool) -> tuple[Memory, Machine]:
    """Return the memory after the first insert, whose operation ends with the request or with the wait, and its
    machine.
    """
    memory = decide([FLEX], observe(jobs=(job(),)), Memory()).memory
    [(name, pending)] = memory.pending.items()
    pending.operation = "operation-1"
    waits = machine(name, "PENDING", market="flex-start", machine_type="a3-highgpu-1g", job=slug(job().key))
    state = {name: OperationState(done)}
    return decide([FLEX], observe(jobs=(job(),), machines=(waits,), operations=state), memory).memory, waits


@pytest.mark.parametrize("done", [True, False])
def test_a_machine_that_waits_for_capacity_stays_and_is_the_reason_of_its_job(done: bool) -> None:
    memory, waits = begun(done)
    for later in (400, 1700):
        decision = decide([FLEX], observe(jobs=(job(),), machines=(waits,), now=NOW + later), memory)
        assert decision.actions == ()
        assert decision.assigned == {job().key: waits.name}
        assert decision.reasons == {
            job().key: Reason("no-capacity", f"{waits.name} waits for capacity in us-central1-a")
        }
        memory = decision.memory


def test_its_time_to_boot_begins_when_it_has_capacity() -> None:
    memory, waits = begun(done=True)
    memory = decide([FLEX], observe(jobs=(job(),), machines=(waits,), now=NOW + 1700), memory).memory
    starts = replace(waits, status="STAGING")
    in_time = decide([FLEX], observe(jobs=(job(),), machines=(starts,), now=NOW + 2060), memory)
    assert (in_time.actions, in_time.reasons) == ((), {})
    late = decide([FLEX], observe(jobs=(job(),), machines=(starts,), now=NOW + 2061), memory)
    assert late.actions[0] == Delete(starts, "no runner within 360 s")


@pytest.mark.parametrize("done", [True, False])
def test_a_failed_wait_for_capacity_is_one_stockout_and_no_machine_of_the_job(done: bool) -> None:
    memory, waits = begun(done)
    if not done:
        # Google lists it for some passes after its operation has failed.
        both = observe(jobs=(job(),), machines=(waits,), operations={waits.name: STOCKOUT}, now=NOW + 1800)
        memory = decide([FLEX], both, memory).memory
    gone = decide([FLEX], observe(jobs=(job(),), now=NOW + 1800), memory)
    assert gone.memory.cooldowns == {PLACE: Cooldown(NOW + 1860, 1)}
    assert gone.memory.jobs[slug(job().key)].machines == 1
    [(_, pending)] = gone.memory.pending.items()
    assert pending.rung == B


def test_a_machine_that_waits_for_a_job_which_is_gone_is_deleted_at_once() -> None:
    memory, waits = begun(done=True)
    decision = decide([FLEX], observe(machines=(waits,), now=NOW + 20), memory)
    assert decision.actions == (Delete(waits, "no queued job needs it, and it waits for capacity"),)
    # The end of the machine is not a stockout.
    assert decide([FLEX], observe(now=NOW + 30), decision.memory).memory.cooldowns == {}
    other = decide([FLEX], observe(jobs=(job(2),), machines=(waits,), now=NOW + 20), memory)
    assert (other.actions, other.assigned) == ((), {job(2).key: waits.name})
    unknown = decide([FLEX], observe(machines=(waits,), jobs=None, now=NOW + 20), memory)
    assert unknown.actions == ()


def test_only_a_machine_with_capacity_ends_the_stockouts_of_its_zone() -> None:
    memory, waits = begun(done=True)
    memory.cooldowns = {PLACE: Cooldown(NOW - 1, 3)}
    still = decide([FLEX], observe(jobs=(job(),), machines=(waits,), now=NOW + 10), memory).memory
    assert still.cooldowns == {PLACE: Cooldown(NOW - 1, 3)}
    runs = replace(waits, status="RUNNING")
    later = observe(jobs=(job(),), machines=(runs,), now=NOW + 20)
    for pool in (FLEX, replace(FLEX, template="templates/l4-2")):
        assert decide([pool], later, copy.deepcopy(still)).memory.cooldowns == {}


def test_a_machine_without_capacity_is_deleted_if_an_idle_machine_takes_its_job() -> None:
    memory, waits = begun(done=True)
    idle = machine("l4-idle", market="flex-start", machine_type="a3-highgpu-1g")
    both = observe(
        jobs=(job(),), machines=(waits, idle), runners=(Runner(7, "l4-idle", online=True, busy=False),), now=NOW + 20
    )
    decision = decide([FLEX], both, memory)
    assert decision.actions == (Delete(waits, "no queued job needs it, and it waits for capacity"),)
    assert decision.memory.machines["l4-idle"].surplus_since is None
