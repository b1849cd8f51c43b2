"""Machines that are on and wait for a job: the machines that one pass keeps, registers, removes and creates."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from gpu_manager.decision import standby
from gpu_manager.decision.decide import Decision, decide
from gpu_manager.decision.warm import size
from gpu_manager.loop import PassResult
from gpu_manager.memory import MachineMemory, Memory, StandbyMemory
from gpu_manager.metrics.measure import Meter
from gpu_manager.model import Delete, Insert, Register, Schedule, Stop, Warm
from gpu_manager.view import view

from tests.manager.test_decide import NOW, POOL, job, machine, observe
from tests.manager.test_standby import of, stock

ALWAYS = Schedule(days=("mon", "tue", "wed", "thu", "fri", "sat", "sun"), start="00:00", end="00:00", time_zone="UTC")
NEVER = replace(ALWAYS, days=())
WARM = replace(POOL, max=3, registered_by="manager", warm=Warm(1, ALWAYS, 3600))
CLOSED = replace(WARM, warm=Warm(1, NEVER, 3600))


def waiting(**others: object) -> Memory:
    """Return the memory of a manager that knows the machine since 100 s."""
    given: dict[str, object] = {"unregistered": True, "running_since": NOW - 100, "boot_sec": WARM.boot_sec, **others}
    return Memory(machines={"l4-s1": MachineMemory("l4", NOW - 100, **given)})  # type: ignore[arg-type]


def kept(decision: Decision) -> bool:
    return not of(Delete, decision) and not of(Register, decision) and not of(Stop, decision)


@pytest.mark.parametrize(
    ("days", "start", "end", "zone", "when", "expected"),
    [
        (("mon",), "08:00", "18:00", "UTC", "2026-11-30T08:00", True),
        (("mon",), "08:00", "18:00", "UTC", "2026-11-30T07:59", False),
        (("mon",), "08:00", "18:00", "UTC", "2026-11-30T18:00", False),
        (("mon",), "08:00", "18:00", "UTC", "2026-12-01T09:00", False),
        (("mon",), "08:00", "18:00", "Europe/Berlin", "2026-11-30T07:00", True),
        # Summer time: 08:00 in Berlin is 06:00 UTC.
        (("mon",), "08:00", "18:00", "Europe/Berlin", "2026-06-29T06:00", True),
        (("mon",), "22:00", "06:00", "UTC", "2026-12-01T05:59", True),
        (("mon",), "22:00", "06:00", "UTC", "2026-11-30T05:59", False),
        (("sun",), "22:00", "06:00", "UTC", "2026-11-30T05:59", True),
        (("mon",), "00:00", "00:00", "UTC", "2026-11-30T23:59", True),
        (("mon",), "00:00", "00:00", "UTC", "2026-12-01T00:00", False),
    ],
)
def test_the_schedule_is_in_the_hours_of_its_time_zone(
    days: tuple[str, ...], start: str, end: str, zone: str, when: str, expected: bool
) -> None:
    schedule = Schedule(days=days, start=start, end=end, time_zone=zone)  # type: ignore[arg-type]
    unix = datetime.fromisoformat(when).replace(tzinfo=UTC).timestamp()
    assert size(replace(POOL, registered_by="manager", warm=Warm(1, schedule, 3600)), unix) == expected


def test_in_its_times_a_pool_has_its_machines_and_at_other_times_none() -> None:
    decision = decide([WARM], observe(), Memory())
    [insert] = decision.actions
    assert isinstance(insert, Insert)
    assert insert.job is None
    assert decide([CLOSED], observe(), Memory()).actions == ()


def test_a_ready_machine_waits_without_a_runner_and_counts_again_as_proven() -> None:
    memory = waiting()
    memory.standby["l4"] = StandbyMemory(unproven=3)
    decision = decide([WARM], observe(machines=(stock(),)), memory)
    assert kept(decision)
    assert (decision.memory.machines["l4-s1"].warm_sec, decision.memory.standby["l4"].unproven) == (3600, 0)
    # It counts as proven once, or a broken template would never pause while one machine waits.
    decision.memory.standby["l4"].unproven = 3
    assert decide([WARM], observe(machines=(stock(),)), decision.memory).memory.standby["l4"].unproven == 3


def test_a_job_gets_the_waiting_machine_at_once_and_another_one_is_created() -> None:
    decision = decide([WARM], observe(jobs=(job(),), machines=(stock(),)), waiting())
    assert [each.machine.name for each in of(Register, decision)] == ["l4-s1"]  # type: ignore[attr-defined]
    assert [each.job for each in of(Insert, decision)] == [None]  # type: ignore[attr-defined]


def test_without_room_no_further_machine_is_created() -> None:
    full = replace(WARM, max=1)
    assert of(Insert, decide([full], observe(jobs=(job(),), machines=(stock(),)), waiting())) == []


def test_a_machine_waits_longer_than_a_boot_and_is_replaced_after_its_time() -> None:
    old = {"running_since": NOW - WARM.boot_sec - 1000, "warm_sec": 3600}
    assert kept(decide([WARM], observe(machines=(stock(),)), waiting(**old)))
    over = decide([WARM], observe(machines=(stock(),)), waiting(running_since=NOW - 3601, warm_sec=3600))
    later = observe(machines=(stock(),), now=NOW + 40, github_unix=NOW + 40)
    over = decide([WARM], later, over.memory)
    assert [each.machine.name for each in of(Delete, over)] == ["l4-s1"]  # type: ignore[attr-defined]
    # A machine that never gets ready is not given the time of waiting.
    lost = decide([WARM], observe(machines=(stock(key=""),)), waiting(running_since=NOW - WARM.boot_sec - 600))
    assert of(Delete, lost)


def test_after_its_times_a_waiting_machine_is_removed_or_stopped_for_standby() -> None:
    first = decide([CLOSED], observe(machines=(stock(),)), waiting(warm_sec=3600))
    later = observe(machines=(stock(),), now=NOW + 40, github_unix=NOW + 40)
    assert of(Delete, decide([CLOSED], later, first.memory))
    both = replace(CLOSED, standby=1)
    assert of(Stop, decide([both], observe(machines=(stock(),)), waiting(warm_sec=3600)))


def test_a_machine_of_an_old_template_does_not_wait() -> None:
    old = machine("l4-s1", "RUNNING", registered_by="manager", job="standby", key="first", id="7", template="old")
    first = decide([WARM], observe(machines=(old,)), waiting())
    later = observe(machines=(old,), now=NOW + 40, github_unix=NOW + 40)
    assert of(Delete, decide([WARM], later, first.memory))


def test_a_machine_that_waited_and_starts_again_has_the_time_of_a_boot_only() -> None:
    memory = Memory(machines={"l4-a": MachineMemory("l4", NOW, warm_sec=600)})
    standby.start(POOL, machine("l4-a", "TERMINATED"), POOL.rungs[0], job(), memory, NOW)
    assert memory.machines["l4-a"].warm_sec == 0


@pytest.mark.parametrize(("key", "status", "state"), [("", "booting", "booting"), ("one", "warm", "idle")])
def test_a_machine_that_waits_does_not_look_as_if_it_booted(key: str, status: str, state: str) -> None:
    observation = observe(machines=(stock(key=key),))
    result = PassResult(observation, decide([WARM], observation, waiting()), [])
    assert [each["status"] for each in view([WARM], result)["machines"]] == [status]
    meter = Meter([WARM])
    meter.take(result)
    assert {name: count for name, count in meter.states[0].machines.items() if count} == {state: 1}
