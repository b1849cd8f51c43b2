"""The places where one pass starts machines: pools that share jobs, ladders over regions, and removed pools."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from gpu_manager.decision.capacity import pause_sec
from gpu_manager.decision.decide import Decision, decide
from gpu_manager.decision.names import slug
from gpu_manager.loop import PassResult
from gpu_manager.memory import Cooldown, JobMemory, MachineMemory, Memory, Pending, StoppedPool, from_json, to_json
from gpu_manager.model import (
    Delete,
    End,
    Insert,
    InsertError,
    Machine,
    Offer,
    OperationState,
    Pool,
    Reason,
    RemoveRunner,
    Runner,
)
from gpu_manager.view import view

from tests.manager.test_decide import NOW, POOL, job, machine, observe

NEAR = Offer("us-central1-a", "g2-standard-8", "spot", "nvidia-l4", 0.4)
FAR = Offer("us-east1-b", "g2-standard-8", "spot", "nvidia-l4", 0.4, "templates/l4-east")
LARGE = Offer("us-central1-a", "g2-standard-16", "standard", "nvidia-l4", 1.2, "templates/l4-large")
LADDER = replace(POOL, rungs=(NEAR, FAR, LARGE), max=9)
# Two pools whose labels both include `gpu`.
L4 = replace(POOL, rungs=(NEAR,), max=1)
T4 = Pool(
    "t4",
    "example",
    "templates/t4",
    (Offer("us-central1-a", "n1-standard-8", "standard", "nvidia-tesla-t4", 0.7),),
    1,
    frozenset({"self-hosted", "gpu", "t4"}),
    boot_sec=300,
)
ANY = job(1, "gpu")


def asked(decision: Decision) -> list[tuple[str, str, str]]:
    return [
        (each.pool, each.rung.zone, each.rung.machine_type) for each in decision.actions if isinstance(each, Insert)
    ]


def after(pool: Pool, error: InsertError, memory: Memory | None = None) -> Decision:
    """Return the decision after the first insert has failed with this error."""
    first = decide([pool], observe(jobs=(job(),)), memory or Memory())
    [name] = first.memory.pending
    return decide([pool], observe(jobs=(job(),), operations={name: OperationState(True, error)}), first.memory)


# -- pools that share jobs -------------------------------------------------------------------------------------------


def test_a_place_without_capacity_for_months_has_the_longest_pause() -> None:
    assert (pause_sec(1), pause_sec(5000)) == (60, 1800)


def test_a_memory_of_a_later_version_is_read_without_its_new_fields() -> None:
    memory = Memory(pending={"l4-a": Pending("l4", NEAR, None, "1", NOW)})
    stored = to_json(memory).decode()
    later = stored.replace('"zone":', '"spare":1,"zone":').replace('"pool":', '"spare":1,"pool":')
    assert (stored.count("spare"), later.count("spare")) == (0, 2)
    assert from_json(later.encode()) == memory


def test_a_job_of_two_pools_with_room_goes_to_the_cheaper_one() -> None:
    assert asked(decide([T4, L4], observe(jobs=(ANY,)), Memory())) == [("l4", "us-central1-a", "g2-standard-8")]
    unknown = replace(L4, rungs=(replace(NEAR, usd_per_hour=None),))
    assert asked(decide([unknown, T4], observe(jobs=(ANY,)), Memory())) == [("t4", "us-central1-a", "n1-standard-8")]


def test_jobs_of_two_pools_fill_one_after_the_other_and_then_have_the_reasons_of_both() -> None:
    jobs = tuple(job(number, "gpu") for number in (1, 2, 3))
    decision = decide([L4, T4], observe(jobs=jobs), Memory())
    assert [pool for pool, _, _ in asked(decision)] == ["l4", "t4"]
    assert decision.reasons == {
        jobs[2].key: Reason("at-max", "l4: 1 of 1 machines are in use; t4: 1 of 1 machines are in use")
    }


def test_a_machine_that_waits_in_any_of_its_pools_is_used_before_one_is_started() -> None:
    idle, runner = machine("t4-a", pool="t4", zone="us-central1-a"), Runner(7, "t4-a", online=True, busy=False)
    decision = decide([L4, T4], observe(jobs=(ANY,), machines=(idle,), runners=(runner,)), Memory())
    assert (decision.actions, decision.assigned) == ((), {ANY.key: "t4-a"})


def test_a_job_of_many_pools_leaves_the_machine_to_a_job_of_one() -> None:
    machines = (machine("l4-a"), machine("t4-a", pool="t4"))
    only_l4 = job(2)
    decision = decide([L4, T4], observe(jobs=(ANY, only_l4), machines=machines), Memory())
    assert (decision.actions, decision.assigned) == ((), {ANY.key: "t4-a", only_l4.key: "l4-a"})


def test_a_job_keeps_the_machine_that_was_started_for_it_whatever_pool_is_cheaper() -> None:
    first = decide([T4], observe(jobs=(ANY,)), Memory())
    [pending] = first.memory.pending.values()
    pending.operation = "operation-1"
    second = decide([L4, T4], observe(jobs=(ANY,)), first.memory)
    assert (second.actions, second.assigned) == ((), first.assigned)


def test_a_stopped_pool_is_passed_over_for_one_that_works() -> None:
    memory = Memory(stopped={"templates/l4": StoppedPool("templates/l4", "l4-a", "no-secret", "denied")})
    assert [pool for pool, _, _ in asked(decide([L4, T4], observe(jobs=(ANY,)), memory))] == ["t4"]
    full = observe(jobs=(ANY,), machines=(machine("t4-a", "STOPPING", pool="t4"),))
    assert decide([L4, T4], full, memory).reasons[ANY.key] == Reason(
        "at-max", "t4: 1 of 1 machines are in use; l4: l4-a ended with no-secret: denied"
    )


def test_of_two_pools_that_ask_in_one_place_one_insert_finds_out_for_both() -> None:
    one, other = (replace(POOL, name=name, rungs=(NEAR,), max=5) for name in ("l4", "more"))
    memory = Memory(cooldowns={"us-central1-a g2-standard-8 spot": Cooldown(NOW - 1, 1)})
    jobs = tuple(job(number, "gpu") for number in (1, 2))
    decision = decide([one, other], observe(jobs=jobs), memory)
    assert asked(decision) == [("l4", "us-central1-a", "g2-standard-8")]
    assert decision.reasons[jobs[1].key] == Reason(
        "no-capacity", "l4: no machine in us-central1-a; more: no machine in us-central1-a"
    )


# -- ladders ---------------------------------------------------------------------------------------------------------


def test_after_a_stockout_the_next_region_gets_the_request_with_its_own_template() -> None:
    decision = after(LADDER, InsertError("no-capacity", "none left"))
    [insert] = [each for each in decision.actions if isinstance(each, Insert)]
    assert (insert.rung, LADDER.template_of(insert.rung)) == (FAR, "templates/l4-east")
    assert LADDER.templates == ("templates/l4", "templates/l4-east", "templates/l4-large")


def test_the_reason_of_a_ladder_names_each_machine_with_its_zones_and_each_quota_with_its_region() -> None:
    memory = Memory(
        cooldowns={
            "us-central1-a g2-standard-8 spot": Cooldown(NOW + 90, 1),
            "us-central1-a g2-standard-16 standard": Cooldown(NOW + 40, 1),
        },
        closed_quotas={"us-east1 nvidia-l4 spot": (NOW + 900, "PREEMPTIBLE-NVIDIA-L4-GPUS")},
    )
    assert decide([LADDER], observe(jobs=(job(),)), memory).reasons == {
        job().key: Reason(
            "no-capacity",
            "no g2-standard-8 (spot) in us-central1-a; no g2-standard-16 (standard) in us-central1-a; "
            "the quota PREEMPTIBLE-NVIDIA-L4-GPUS is used up in us-east1",
            NOW + 40,
        )
    }


def test_an_end_that_stops_one_template_leaves_the_other_rungs() -> None:
    off = machine("l4-a", "TERMINATED", end=End("driver", "no driver", stops_pool=True))
    decision = decide([LADDER], observe(machines=(off,), jobs=(job(),)), Memory())
    assert asked(decision) == [("l4", "us-east1-b", "g2-standard-8")]
    others = {
        template: StoppedPool(template, "l4-b", "driver", "no driver")
        for template in ("templates/l4-east", "templates/l4-large")
    }
    all_stopped = decide([LADDER], observe(jobs=(job(),)), Memory(stopped={**decision.memory.stopped, **others}))
    assert asked(all_stopped) == []
    assert all_stopped.reasons[job().key] == Reason(
        "pool-stopped", "l4-a ended with driver: no driver; l4-b ended with driver: no driver"
    )


def test_a_refusal_in_one_region_leads_to_the_next_region() -> None:
    decision = after(LADDER, InsertError("refused", "Required 'compute.subnetworks.use' permission"))
    assert asked(decision) == [("l4", "us-east1-b", "g2-standard-8")]
    # The zones of that region are not tried one after the other.
    same = replace(LADDER, rungs=(NEAR, replace(NEAR, zone="us-central1-b")))
    assert asked(after(same, InsertError("refused", "Permission denied"))) == []


def test_gpus_that_are_attached_to_one_machine_type_run_out_each_by_themselves() -> None:
    v100 = replace(T4, name="v100", labels=frozenset({"v100"}), rungs=(replace(T4.rungs[0], gpu="nvidia-tesla-v100"),))
    memory = Memory(cooldowns={"us-central1-a n1-standard-8 standard nvidia-tesla-t4": Cooldown(NOW + 60, 1)})
    decision = decide([T4, v100], observe(jobs=(job(1, "t4"), job(2, "v100"))), memory)
    assert [pool for pool, _, _ in asked(decision)] == ["v100"]
    assert decision.reasons[job(1).key].code == "no-capacity"


def test_a_zone_that_google_names_counts_for_five_minutes() -> None:
    pool = replace(POOL, rungs=(NEAR, replace(NEAR, zone="us-central1-b")), max=9)
    memory = Memory(preferred={"us-central1-b g2-standard-8 spot": NOW + 300})
    for later, zone in ((299, "us-central1-b"), (300, "us-central1-a")):
        decision = decide([pool], observe(jobs=(job(),), now=NOW + later), memory)
        assert [zone for _, zone, _ in asked(decision)] == [zone], later
    assert decision.memory.preferred == {}


# -- pools that were removed -----------------------------------------------------------------------------------------


def removed(group: str = "Default") -> list[Pool]:
    """Return the configuration after l4 was removed."""
    return [replace(T4, runner_group=group)]


def known_machine(**others: object) -> Memory:
    """Return the memory of a machine that was seen before its pool was removed."""
    silent = machine("l4-a", "STAGING")
    memory = decide([POOL], observe(machines=(silent,)), Memory()).memory
    [known] = memory.machines.values()
    memory.machines["l4-a"] = replace(known, **others)  # type: ignore[arg-type]
    return memory


def test_a_silent_machine_of_a_removed_pool_is_deleted_when_its_pool_would_have_deleted_it() -> None:
    silent, memory = machine("l4-a", "STAGING"), known_machine()
    assert decide(removed(), observe(machines=(silent,), now=NOW + 360), memory).actions == ()
    late = decide(removed(), observe(machines=(silent,), now=NOW + 361), memory)
    assert late.actions == (Delete(silent, "no runner within 360 s"),)


def test_a_machine_whose_runner_group_is_no_longer_read_may_have_a_job_and_stays() -> None:
    silent, memory = machine("l4-a", "STAGING"), known_machine()
    assert decide(removed("other"), observe(machines=(silent,), now=NOW + 9000), memory).actions == ()
    # The same for a machine that was never seen with its pool.
    assert decide(removed(), observe(machines=(silent,), now=NOW + 9000), Memory()).actions == ()
    gone = known_machine(registered=True, missing_since=NOW)
    assert decide(removed("other"), observe(machines=(silent,), now=NOW + 9000), gone).actions == ()


def test_a_busy_machine_of_a_removed_pool_stays() -> None:
    busy, runner = machine("l4-a"), Runner(7, "l4-a", online=True, busy=True)
    memory = known_machine()
    assert decide(removed(), observe(machines=(busy,), runners=(runner,), now=NOW + 9000), memory).actions == ()


@pytest.mark.parametrize("age", [30, 31])
def test_the_surplus_runner_that_waited_longest_is_removed_first(age: int) -> None:
    machines: tuple[Machine, ...] = (machine("l4-a"), machine("l4-b"))
    runners = tuple(Runner(number, each.name, online=True, busy=False) for number, each in enumerate(machines, 7))
    memory = Memory(
        machines={
            "l4-a": MachineMemory("l4", NOW - 900, registered=True, surplus_since=NOW - 5),
            "l4-b": MachineMemory("l4", NOW - 900, registered=True, surplus_since=NOW - age),
        }
    )
    decision = decide([POOL], observe(jobs=(job(),), machines=machines, runners=runners), memory)
    assert decision.actions == (RemoveRunner(runners[1], machines[1], "no queued job needs it"),)
    # The other machine is needed, and its time starts again.
    assert decision.memory.machines["l4-a"].surplus_since is None


# -- reasons, and what is remembered ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "code"), [(0, "pool-stopped"), (1, "pool-stopped")])
def test_the_reason_pool_stopped_comes_before_at_max_and_never_picked_up(count: int, code: str) -> None:
    memory = Memory(
        stopped={"templates/l4": StoppedPool("templates/l4", "l4-a", "no-secret", "denied")},
        jobs={slug(job().key): JobMemory(inserts=3, machines=3, last_seen=NOW)},
    )
    full = observe(jobs=(job(),), machines=(machine("l4-a", "STOPPING"),) * count)
    assert decide([L4], full, memory).reasons[job().key].code == code


def test_the_reason_at_max_comes_before_no_capacity_and_never_picked_up_before_both() -> None:
    memory = Memory(cooldowns={"us-central1-a g2-standard-8 spot": Cooldown(NOW + 60, 1)})
    full = observe(jobs=(job(),), machines=(machine("l4-a", "STOPPING"),))
    assert decide([L4], full, memory).reasons[job().key].code == "at-max"
    memory.jobs = {slug(job().key): JobMemory(inserts=3, machines=3, last_seen=NOW)}
    assert decide([L4], full, memory).reasons[job().key].code == "never-picked-up"


def test_a_machine_counts_for_the_job_that_it_was_started_for() -> None:
    jobs = (job(1), job(2))
    machines = (machine("l4-b", job=slug(jobs[1].key)), machine("l4-a", job=slug(jobs[0].key)))
    decision = decide([replace(POOL, max=9)], observe(jobs=jobs, machines=machines), Memory())
    assert decision.assigned == {jobs[0].key: "l4-a", jobs[1].key: "l4-b"}
    # Not if its pool lost the labels of that job.
    lost, serves = replace(POOL, labels=frozenset({"other"})), replace(LADDER, name="serves")
    assert [pool for pool, _, _ in asked(decide([lost, serves], observe(jobs=jobs, machines=machines), Memory()))] == [
        "serves",
        "serves",
    ]


def test_a_used_up_quota_counts_for_two_minutes() -> None:
    memory = after(POOL, InsertError("over-quota", "Quota exceeded", quota="L4")).memory
    for later, asks in ((119, 0), (120, 1)):
        assert len(asked(decide([POOL], observe(jobs=(job(),), now=NOW + later), memory))) == asks


@pytest.mark.parametrize(
    ("changes", "quota", "asks"),
    [
        ({}, "L4", 1),
        ({}, "GPUS-ALL-REGIONS-per-project", 1),
        ({"place": "us-east1 g2-standard-8"}, "L4", 0),
        ({"pool": "other"}, "L4", 0),
        # Google lists a machine that it could not create until the machine is deleted. It had no part of the quota.
        ({"running_since": None}, "L4", 0),
    ],
)
def test_a_used_up_quota_is_tried_at_once_when_a_machine_of_it_is_deleted(
    changes: dict[str, Any], quota: str, asks: int
) -> None:
    memory = after(POOL, InsertError("over-quota", "Quota exceeded", quota=quota)).memory
    ended: dict[str, Any] = {"pool": "l4", "place": "us-central1 g2-standard-8", "running_since": NOW, **changes}
    memory.machines = {"l4-a": MachineMemory(first_seen=NOW, **ended)}
    gone = decide([POOL], observe(jobs=(job(),), now=NOW + 5), memory)
    assert len(asked(gone)) == asks


def test_two_preemptions_one_after_the_other_open_the_breaker() -> None:
    firm = replace(POOL, rungs=(NEAR, replace(NEAR, market="standard", usd_per_hour=0.9)), max=9)
    memory = Memory()
    for later, name in ((0, "l4-a"), (600, "l4-b")):
        listed = observe(machines=(machine(name),), preempted=frozenset({name}), now=NOW + later)
        # Each stockout is in several observations.
        memory = decide([firm], listed, decide([firm], listed, memory).memory).memory
    assert memory.preemptions == {"us-central1 g2-standard-8": [NOW, NOW + 600]}
    [insert] = decide([firm], observe(jobs=(job(),), now=NOW + 610), memory).actions
    assert isinstance(insert, Insert)
    assert insert.rung.market == "standard"


def test_a_place_that_was_quiet_for_an_hour_after_its_pause_begins_with_a_short_one() -> None:
    memory = Memory(cooldowns={"us-central1-a g2-standard-8 spot": Cooldown(NOW, 6)})
    assert decide([POOL], observe(now=NOW + 3599), memory).memory.cooldowns == memory.cooldowns
    assert decide([POOL], observe(now=NOW + 3600), memory).memory.cooldowns == {}


def test_a_view_shows_a_pool_as_stopped_once_all_of_its_templates_are() -> None:
    one = {"templates/l4": StoppedPool("templates/l4", "l4-a", "driver", "no driver")}
    every = one | {each: StoppedPool(each, "l4-b", "driver", "none") for each in LADDER.templates[1:]}
    for stopped, text in ((one, ""), (every, "l4-a: driver: no driver")):
        observed = observe()
        done = PassResult(observed, decide([LADDER], observed, Memory(stopped=stopped)))
        assert [each["stopped"] for each in view([LADDER], done)["pools"]] == [text]
