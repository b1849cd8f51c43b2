"""Single decisions: the result of one pass for exactly this observation and memory."""

from __future__ import annotations

from dataclasses import replace

import pytest
from gpu_manager.decision.decide import Decision, decide
from gpu_manager.decision.jobs import is_of_another, owner_of
from gpu_manager.decision.names import machine_name, request_id, slug
from gpu_manager.memory import Cooldown, JobMemory, LostJob, MachineMemory, Memory, Pending, StoppedPool
from gpu_manager.model import (
    Delete,
    End,
    Insert,
    InsertError,
    Job,
    JobKey,
    Machine,
    Observation,
    Offer,
    OperationState,
    OtherPool,
    Pool,
    Reason,
    RemoveRunner,
    Rerun,
    Run,
    RunKey,
    Runner,
)

NOW = 1_000_000.0
A, B = (Offer(zone, "g2-standard-8", "spot", "nvidia-l4", 0.4) for zone in ("us-central1-a", "us-central1-b"))
FIRM = Offer("us-central1-a", "g2-standard-8", "standard", "nvidia-l4", 0.85)
POOL = Pool("l4", "example", "templates/l4", (A, B), 2, frozenset({"self-hosted", "gpu", "l4"}), boot_sec=300)


def job(number: int = 1, *labels: str, status: str = "queued", age: float = 5, runner: str = "") -> Job:
    key = JobKey("example-org/kernels", 10 + number, number, 1)
    return Job(key, frozenset(labels or ("gpu", "l4")), status, NOW - age, runner_name=runner)  # type: ignore[arg-type]


def machine(name: str, status: str = "RUNNING", **others: object) -> Machine:
    plain = Machine(name, "l4", "us-central1-a", status, "spot", "g2-standard-8", "templates/l4")
    return replace(plain, **others)  # type: ignore[arg-type]


def observe(**found: object) -> Observation:
    given: dict[str, object] = {"now": NOW, "github_unix": NOW, "jobs": (), "runners": (), "machines": ()}
    return Observation(**{**given, **found})  # type: ignore[arg-type]


def inserts(decision: Decision) -> list[tuple[str, str]]:
    return [(each.rung.zone, each.rung.market) for each in decision.actions if isinstance(each, Insert)]


def test_a_queued_job_gets_a_machine_whose_name_and_request_follow_from_the_job() -> None:
    waiting = job()
    decision = decide([POOL], observe(jobs=(waiting,)), Memory())
    name = machine_name("l4", waiting.key, 1)
    assert decision.actions == (Insert("l4", name, A, waiting, request_id(name, "us-central1-a")),)
    assert decision.assigned == {waiting.key: name}
    assert decision.memory.pending[name] == Pending("l4", A, waiting, request_id(name, "us-central1-a"), NOW)


def test_the_given_memory_is_not_changed() -> None:
    memory = Memory()
    decide([POOL], observe(jobs=(job(),)), memory)
    assert memory == Memory()


@pytest.mark.parametrize("unknown", ["jobs", "runners", "machines"])
def test_nothing_is_started_while_a_source_is_unknown(unknown: str) -> None:
    assert decide([POOL], observe(**{"jobs": (job(),), unknown: None}), Memory()).actions == ()


def test_an_insert_whose_answer_was_lost_is_repeated_with_the_same_request() -> None:
    first = decide([POOL], observe(jobs=(job(),)), Memory())
    second = decide([POOL], observe(jobs=(job(),)), first.memory)
    assert second.actions == first.actions


def test_a_pool_has_at_most_its_maximum_of_machines() -> None:
    jobs = tuple(job(number) for number in (1, 2, 3))
    decision = decide([POOL], observe(jobs=jobs), Memory())
    assert len(inserts(decision)) == 2
    assert decision.reasons == {jobs[2].key: Reason("at-max", "2 of 2 machines are in use")}


def test_labels_match_where_the_jobs_are_a_subset_in_any_case() -> None:
    decision = decide([POOL], observe(jobs=(job(1, "self-hosted"), job(2, "gpu", "h100"))), Memory())
    assert len(inserts(decision)) == 1
    assert decision.reasons == {
        job(2).key: Reason("no-pool", "no pool has the labels gpu, h100; missing: h100"),
    }


def test_jobs_for_github_hosted_runners_are_ignored() -> None:
    decision = decide([POOL], observe(jobs=(job(1, "ubuntu-latest"),)), Memory())
    assert (decision.actions, decision.reasons) == ((), {})


def test_a_job_whose_repository_may_not_use_the_pools_group_gets_no_machine() -> None:
    outside = replace(job(), runner_groups=frozenset({"other"}))
    decision = decide([POOL], observe(jobs=(outside,)), Memory())
    assert decision.actions == ()
    assert {key: reason.code for key, reason in decision.reasons.items()} == {outside.key: "no-pool"}
    assert (
        len(inserts(decide([POOL], observe(jobs=(replace(job(), runner_groups=frozenset({"Default"})),)), Memory())))
        == 1
    )


def test_a_job_that_names_only_a_group_gets_a_machine_if_one_pool_can_be_meant() -> None:
    unlabelled = replace(job(), labels=frozenset(), runner_groups=frozenset({"gpu"}))
    here, there = replace(POOL, runner_group="gpu"), replace(POOL, name="t4", runner_group="other")
    decision = decide([here, there], observe(jobs=(unlabelled,)), Memory())
    assert [each.pool for each in decision.actions if isinstance(each, Insert)] == ["l4"]
    both = decide([here, replace(there, runner_group="gpu")], observe(jobs=(unlabelled,)), Memory())
    assert (both.actions, both.reasons[unlabelled.key].code) == ((), "no-pool")
    none = decide([there], observe(jobs=(unlabelled,)), Memory())
    assert (none.actions, none.reasons) == ((), {})


def test_repositories_take_turns_and_a_turn_counts_the_running_jobs() -> None:
    def of_models(number: int, **options: object) -> Job:
        made = job(number, **options)  # type: ignore[arg-type]
        return replace(made, key=made.key._replace(repository="example-org/models"))

    waiting = [job(number, age=500 - number) for number in (1, 2, 3)]
    later = [of_models(4, age=10), of_models(5, age=9)]

    def served(most: int, *running: Job) -> list[int]:
        decision = decide([replace(POOL, max=most)], observe(jobs=(*running, *waiting, *later)), Memory())
        return [each.job.key.job_id for each in decision.actions if isinstance(each, Insert) and each.job]

    assert served(3) == [1, 4, 2]
    assert served(5) == [1, 4, 2, 5, 3]
    assert served(1, job(6, status="in_progress", runner="l4-a")) == [4]
    # A job on a runner of GitHub, or of another group, has no machine of the pool.
    assert served(1, job(6, status="in_progress")) == [1]


def test_a_job_that_got_no_machine_of_its_own_pauses_the_same_job_of_the_workflow() -> None:
    waiting = replace(job(), name="train", workflow="CI")
    idle = machine("l4-a", "TERMINATED", end=End("idle"), job=slug(waiting.key))
    first = decide([POOL], observe(jobs=(waiting,), machines=(idle,)), Memory())
    again, other = replace(job(2), name="train", workflow="CI"), replace(job(3), name="test", workflow="CI")
    later = decide([POOL], observe(jobs=(waiting, again, other), now=NOW + 3599), first.memory)
    assert [each.job for each in later.actions if isinstance(each, Insert)] == [other]
    codes = {key.job_id: (reason.code, reason.next_try) for key, reason in later.reasons.items()}
    assert codes == {1: ("never-picked-up", NOW + 3600), 2: ("never-picked-up", NOW + 3600)}
    assert len(inserts(decide([POOL], observe(jobs=(waiting,), now=NOW + 3600), first.memory))) == 1
    # A job of that name runs on a machine, so its group is right.
    runs = replace(again, status="in_progress", runner_name="l4-b")
    cleared = decide([POOL], observe(jobs=(waiting, runs), now=NOW + 60), first.memory)
    assert [each.job for each in cleared.actions if isinstance(each, Insert)] == [waiting]
    # The machine of a job that runs or was cancelled says nothing.
    for gone in ((), (replace(waiting, status="in_progress", runner_name="l4-b"),)):
        assert decide([POOL], observe(jobs=gone, machines=(idle,)), Memory()).memory.unassigned == {}


def test_a_machine_keeps_its_job_while_the_jobs_repository_cannot_be_read() -> None:
    left = machine("l4-a")
    known = MachineMemory("l4", NOW - 900, registered=True, missing_since=NOW - 121, job=job().key)
    unread = frozenset({"example-org/kernels"})
    decision = decide([POOL], observe(machines=(left,), unread=unread), Memory(machines={"l4-a": known}))
    assert (decision.actions, decision.memory.machines["l4-a"].job_over) == ((), False)
    others = decide([POOL], observe(machines=(left,), unread=frozenset({"x/y"})), Memory(machines={"l4-a": known}))
    assert [type(each) for each in others.actions] == [Delete]


def test_a_job_that_waits_for_approval_gets_no_machine() -> None:
    decision = decide([POOL], observe(jobs=(job(status="waiting"),)), Memory())
    assert decision.actions == ()
    assert decision.reasons == {
        job().key: Reason("approval-pending", "a deployment of its environment waits for approval")
    }


def test_a_job_is_forgotten_two_days_after_it_was_last_seen() -> None:
    memory = Memory(jobs={"0a1b2c3d4e5f": JobMemory(inserts=1, last_seen=NOW)})
    for later_sec, kept in ((2 * 24 * 3600 - 1, 1), (2 * 24 * 3600, 0)):
        assert len(decide([POOL], observe(now=NOW + later_sec), memory).memory.jobs) == kept


def test_a_pool_whose_runners_github_refused_starts_nothing_until_that_is_tried_again() -> None:
    memory = Memory(refusals={"l4": (NOW + 300, "no runner could be registered")})
    decision = decide([POOL], observe(jobs=(job(),)), memory)
    assert decision.actions == ()
    assert decision.reasons[job().key] == Reason("refused", "no runner could be registered", NOW + 300)


def test_a_job_that_is_older_than_a_day_by_githubs_clock_gets_no_machine() -> None:
    old = job(age=24 * 3600 + 1)
    assert decide([POOL], observe(jobs=(old,)), Memory()).reasons[old.key].code == "expired"
    assert len(inserts(decide([POOL], observe(jobs=(job(age=24 * 3600),)), Memory()))) == 1
    # The manager's own clock does not count.
    young = observe(jobs=(old,), github_unix=NOW - 600)
    assert len(inserts(decide([POOL], young, Memory()))) == 1


def test_after_a_stockout_the_next_zone_is_tried_and_the_first_one_a_minute_later() -> None:
    first = decide([POOL], observe(jobs=(job(),)), Memory())
    [name] = first.memory.pending
    failed = OperationState(True, InsertError("no-capacity", "none left"))
    second = decide([POOL], observe(jobs=(job(),), operations={name: failed}), first.memory)
    assert inserts(second) == [("us-central1-b", "spot")]
    assert second.memory.cooldowns == {"us-central1-a g2-standard-8 spot": Cooldown(NOW + 60, 1)}


def test_if_no_zone_has_capacity_the_reason_names_the_zones_and_the_next_try() -> None:
    memory = Memory(
        cooldowns={
            "us-central1-a g2-standard-8 spot": Cooldown(NOW + 40, 1),
            "us-central1-b g2-standard-8 spot": Cooldown(NOW + 100, 2),
        }
    )
    decision = decide([POOL], observe(jobs=(job(),)), memory)
    assert decision.reasons == {
        job().key: Reason("no-capacity", "no machine in us-central1-a, us-central1-b", NOW + 40)
    }
    later = decide([replace(POOL, max=9)], observe(jobs=(job(1), job(2), job(3)), now=NOW + 41), memory)
    # One insert tests each zone for all jobs.
    assert inserts(later) == [("us-central1-a", "spot"), ("us-central1-b", "spot")]


def test_a_pool_without_an_open_zone_tries_each_zone_a_minute_after_its_stockout() -> None:
    out = {"us-central1-a g2-standard-8 spot": Cooldown(NOW + 1750, 9),
           "us-central1-b g2-standard-8 spot": Cooldown(NOW + 1770, 9)}  # fmt: skip
    memory = Memory(cooldowns=out)
    waits = decide([POOL], observe(jobs=(job(),), now=NOW + 9), memory)
    assert (inserts(waits), waits.reasons[job().key].next_try) == ([], NOW + 10)
    asked = decide([POOL], observe(jobs=(job(),), now=NOW + 10), memory)
    assert inserts(asked) == [("us-central1-a", "spot")]
    [name] = asked.memory.pending
    failed = decide([POOL], observe(jobs=(job(),), now=NOW + 20, operations={name: stockout()}), asked.memory)
    # The pause counts from this stockout for pools that have another place.
    assert failed.memory.cooldowns["us-central1-a g2-standard-8 spot"] == Cooldown(NOW + 1820, 10)
    assert failed.reasons[job().key].next_try == NOW + 30


def test_zones_of_a_region_without_a_stockout_are_tried_first() -> None:
    memory = Memory(cooldowns={"us-central1-a g2-standard-8 spot": Cooldown(NOW - 600, 2)})
    assert inserts(decide([POOL], observe(jobs=(job(),)), memory)) == [("us-central1-b", "spot")]
    # Another market, machine type or region comes later on the ladder because users want that order.
    for other in (FIRM, replace(B, zone="us-east4-a"), replace(B, machine_type="g2-standard-16")):
        pool = replace(POOL, rungs=(A, other, B))
        assert inserts(decide([pool], observe(jobs=(job(),)), memory)) == [("us-central1-a", "spot")]


def test_a_used_up_quota_closes_the_region_for_that_gpu_and_market() -> None:
    pool = replace(POOL, rungs=(A, B, FIRM))
    first = decide([pool], observe(jobs=(job(),)), Memory())
    [name] = first.memory.pending
    failed = OperationState(True, InsertError("over-quota", "Quota exceeded", quota="PREEMPTIBLE-NVIDIA-L4-GPUS"))
    second = decide([pool], observe(jobs=(job(),), operations={name: failed}), first.memory)
    assert inserts(second) == [("us-central1-a", "standard")]
    only = decide([POOL], observe(jobs=(job(),), operations={name: failed}), first.memory)
    assert only.reasons[job().key] == Reason(
        "over-quota", "the quota PREEMPTIBLE-NVIDIA-L4-GPUS is used up in us-central1", NOW + 120
    )


def test_after_a_refusal_the_pool_requests_nothing_for_five_minutes() -> None:
    first = decide([POOL], observe(jobs=(job(),)), Memory())
    [name] = first.memory.pending
    failed = OperationState(True, InsertError("refused", "Permission denied"))
    second = decide([POOL], observe(jobs=(job(),), operations={name: failed}), first.memory)
    assert second.actions == ()
    assert second.reasons[job().key] == Reason("refused", "the machine is refused: Permission denied", NOW + 300)
    assert len(inserts(decide([POOL], observe(jobs=(job(),), now=NOW + 301), second.memory))) == 1


def test_rungs_above_the_price_ceiling_are_skipped() -> None:
    pool = replace(POOL, rungs=(FIRM,), price_ceiling_usd=0.5)
    assert decide([pool], observe(jobs=(job(),)), Memory()).reasons[job().key] == Reason(
        "price-ceiling", "every step of the ladder costs more than 0.5 USD an hour"
    )


@pytest.mark.parametrize(("on_sec", "reason"), [(3660, []), (3661, ["on for more than 3600 s (maxRunDurationSec)"])])
def test_a_machine_beyond_its_time_limit_is_deleted_with_its_job(on_sec: float, reason: list[str]) -> None:
    limited, busy = replace(POOL, max_run_duration_sec=3600), Runner(1, "l4-a", online=True, busy=True)
    found = machine("l4-a", on_unix=NOW - on_sec)
    running = job(status="in_progress", runner="l4-a")
    decision = decide([limited], observe(jobs=(running,), runners=(busy,), machines=(found,)), Memory())
    assert [each.reason for each in decision.actions if isinstance(each, Delete)] == reason


def test_a_pool_at_its_cost_of_the_day_starts_nothing_also_not_for_standby() -> None:
    cap = Reason("cost-cap", "it has cost enough", NOW + 60)
    pool = replace(POOL, standby=1, registered_by="manager")
    decision = decide([pool], observe(jobs=(job(),), cost_caps={"l4": cap}), Memory())
    assert (decision.actions, decision.reasons) == ((), {job().key: cap})
    assert decide([pool], observe(cost_caps={"l4": cap}), Memory()).actions == ()
    assert len(inserts(decide([pool], observe(), Memory()))) == 1
    other = replace(POOL, name="other")
    decision = decide([pool, other], observe(jobs=(job(),), cost_caps={"l4": cap}), Memory())
    assert [each.pool for each in decision.actions if isinstance(each, Insert)] == ["other"]


def test_at_most_three_machines_are_started_for_a_job() -> None:
    memory = Memory(jobs={slug(job().key): JobMemory(inserts=3, machines=3, last_seen=NOW)})
    decision = decide([POOL], observe(jobs=(job(),)), memory)
    assert decision.reasons == {
        job().key: Reason("never-picked-up", "3 machines were started for the job, and GitHub assigned it to none")
    }


@pytest.mark.parametrize(
    ("others", "another", "inserts_after"),
    [
        # Another job runs on the machine, or has run on it between two passes.
        ({"status": "RUNNING"}, True, 4),
        ({"status": "TERMINATED", "end": End("job-done")}, False, 4),
        # The machine ended without a job, or is still idle.
        ({"status": "TERMINATED", "end": End("runner-failed")}, False, 3),
        ({"status": "RUNNING"}, False, 3),
    ],
)
def test_a_machine_that_ran_another_job_does_not_count_as_one_of_three(
    others: dict[str, object], another: bool, inserts_after: int
) -> None:
    memory = Memory(jobs={slug(job().key): JobMemory(inserts=3, machines=3, last_seen=NOW)})
    busy = job(2, "gpu", status="in_progress", runner="l4-1")
    seen = observe(
        jobs=(job(), busy) if another else (job(),),
        runners=(Runner(7, "l4-1", online=True, busy=True),) if another else (),
        machines=(machine("l4-1", job=slug(job().key), **others),),
    )
    first = decide([POOL], seen, memory)
    # A second pass that sees the same counts it once.
    second = decide([POOL], replace(seen, now=NOW + 1), first.memory)
    assert second.memory.jobs[slug(job().key)] == JobMemory(inserts_after, machines=3, last_seen=NOW + 1)


def test_a_machine_counts_as_one_of_three_if_its_own_job_ran_on_it() -> None:
    memory = Memory(jobs={slug(job().key): JobMemory(inserts=1, machines=1, last_seen=NOW)})
    own = job(status="in_progress", runner="l4-1")
    seen = observe(jobs=(own,), machines=(machine("l4-1", job=slug(own.key)),))
    assert decide([POOL], seen, memory).memory.jobs[slug(own.key)].machines == 1


def test_machines_that_are_off_are_deleted_whatever_else_is_unknown() -> None:
    off = machine("l4-a", "TERMINATED", end=End("job-done", "the one job has ended"))
    decision = decide([POOL], observe(machines=(off,), jobs=None, runners=None), Memory())
    assert decision.actions == (Delete(off, "job-done: the one job has ended"),)


def test_an_end_that_stops_its_pool_stops_it_until_the_template_changes() -> None:
    off = machine("l4-a", "TERMINATED", end=End("no-secret", "permission denied", stops_pool=True))
    decision = decide([POOL], observe(machines=(off,), jobs=(job(),)), Memory())
    assert inserts(decision) == []
    assert decision.memory.stopped == {
        "templates/l4": StoppedPool("templates/l4", "l4-a", "no-secret", "permission denied")
    }
    assert decision.reasons[job().key] == Reason("pool-stopped", "l4-a ended with no-secret: permission denied")
    mended = replace(POOL, template="templates/l4-2")
    assert len(inserts(decide([mended], observe(jobs=(job(),)), decision.memory))) == 1


def test_an_idle_runner_that_no_job_needs_is_unregistered_after_half_a_minute() -> None:
    idle, runner = machine("l4-a"), Runner(7, "l4-a", online=True, busy=False)
    first = decide([POOL], observe(machines=(idle,), runners=(runner,)), Memory())
    assert first.actions == ()
    second = decide([POOL], observe(machines=(idle,), runners=(runner,), now=NOW + 30), first.memory)
    assert second.actions == (RemoveRunner(runner, idle, "no queued job needs it"),)
    needed = decide([POOL], observe(machines=(idle,), runners=(runner,), jobs=(job(),), now=NOW + 30), first.memory)
    assert needed.actions == ()


def test_a_machine_that_registers_no_runner_is_deleted_a_minute_after_the_agents_deadline() -> None:
    silent = machine("l4-a")
    memory = decide([POOL], observe(machines=(silent,)), Memory()).memory
    assert decide([POOL], observe(machines=(silent,), now=NOW + 360), memory).actions == ()
    late = decide([POOL], observe(machines=(silent,), now=NOW + 361), memory)
    assert late.actions == (Delete(silent, "no runner within 360 s"),)
    assert decide([POOL], observe(machines=(silent,), runners=None, now=NOW + 361), memory).actions == ()


def test_a_machine_whose_runner_is_gone_is_deleted_after_two_minutes_unless_a_job_names_it() -> None:
    left = machine("l4-a")
    memory = Memory(machines={"l4-a": MachineMemory("l4", NOW - 900, registered=True, missing_since=NOW - 121)})
    assert decide([POOL], observe(machines=(left,)), memory).actions == (
        Delete(left, "on for 120 s after its runner was gone from GitHub"),
    )
    running = job(status="in_progress", runner="l4-a")
    assert decide([POOL], observe(machines=(left,), jobs=(running,)), memory).actions == ()
    assert decide([POOL], observe(machines=(left,), jobs=None), memory).actions == ()


LOST = JobKey("example-org/kernels", 11, 1, 1)
RUN = RunKey("example-org/kernels", 11)


def lost_memory() -> Memory:
    """Return the memory of a job whose machine Google has just preempted."""
    known = MachineMemory("l4", NOW - 900, registered=True, job=LOST, place="us-central1 g2-standard-8")
    memory = Memory(machines={"l4-a": known})
    decision = decide([POOL], observe(preempted=frozenset({"l4-a"})), memory)
    assert decision.memory.lost == {slug(LOST): LostJob(LOST, "l4", NOW, 1)}
    return decision.memory


def failed_run(**others: object) -> Run:
    plain = Run(RUN, 1, "completed", "failure", NOW - 1000, (1,))
    return replace(plain, **others)  # type: ignore[arg-type]


def test_the_job_of_a_preempted_machine_is_run_again_once_its_run_has_ended() -> None:
    memory = lost_memory()
    running = decide([POOL], observe(runs={RUN: failed_run(status="in_progress", conclusion="")}), memory)
    assert running.actions == ()
    ended = decide([POOL], observe(runs={RUN: failed_run()}), running.memory)
    assert ended.actions == (Rerun(RUN, 1, None),)
    soon = decide([POOL], observe(runs={RUN: failed_run()}, now=NOW + 59), ended.memory)
    assert soon.actions == ()
    begun = decide([POOL], observe(runs={RUN: failed_run(attempt=2, status="queued")}, now=NOW + 70), soon.memory)
    assert (begun.actions, begun.memory.lost) == ((), {})


@pytest.mark.parametrize(
    "run",
    [
        failed_run(conclusion="cancelled", failed_jobs=(1, 2)),
        failed_run(conclusion="success"),
        failed_run(attempt=2),
        failed_run(created_unix=NOW - 31 * 24 * 3600),
    ],
    ids=["cancelled by a person", "not lost after all", "rerun by a person", "older than 30 days"],
)
def test_no_rerun_of_a_run_that_needs_none(run: Run) -> None:
    decision = decide([POOL], observe(runs={RUN: run}), lost_memory())
    assert (decision.actions, decision.memory.lost) == ((), {})


def test_a_job_that_its_runner_cancelled_at_the_preemption_is_run_again() -> None:
    decision = decide([POOL], observe(runs={RUN: failed_run(conclusion="cancelled")}), lost_memory())
    assert decision.actions == (Rerun(RUN, 1, None),)


def test_a_job_that_ended_before_the_preemption_is_not_lost() -> None:
    ending = machine("l4-a")
    known = MachineMemory("l4", NOW - 900, registered=True, job=LOST)
    ended = decide([POOL], observe(machines=(ending,)), Memory(machines={"l4-a": known})).memory
    taken = decide([POOL], observe(machines=(ending,), preempted=frozenset({"l4-a"})), ended)
    assert taken.memory.lost == {}


def test_a_rerun_job_gets_a_standard_machine() -> None:
    pool = replace(POOL, rungs=(A, B, FIRM))
    asked = decide([pool], observe(runs={RUN: failed_run()}), lost_memory())
    again = replace(job(), key=JobKey("example-org/kernels", 11, 5, 2))
    decision = decide([pool], observe(jobs=(again,), now=NOW + 30), asked.memory)
    assert inserts(decision) == [("us-central1-a", "standard")]


def stockout(*zones: str) -> OperationState:
    return OperationState(True, InsertError("no-capacity", "none left", zones))


def test_inserts_that_fail_together_count_as_one_stockout() -> None:
    pool, jobs = replace(POOL, rungs=(A,), max=9), tuple(job(number) for number in range(1, 9))
    first = decide([pool], observe(jobs=jobs), Memory())
    assert len(first.memory.pending) == 8
    failed = dict.fromkeys(first.memory.pending, stockout())
    second = decide([pool], observe(jobs=jobs, operations=failed), first.memory)
    assert second.memory.cooldowns == {"us-central1-a g2-standard-8 spot": Cooldown(NOW + 60, 1)}


def test_an_insert_of_a_pool_that_the_configuration_no_longer_has_is_dropped() -> None:
    first = decide([POOL], observe(jobs=(job(),)), Memory())
    second = decide([replace(POOL, name="other", labels=frozenset({"x"}))], observe(), first.memory)
    assert (second.actions, second.memory.pending) == ((), {})


def test_the_deadline_of_a_machine_counts_from_when_it_runs() -> None:
    staging = decide([POOL], observe(machines=(machine("l4-a", "STAGING"),)), Memory()).memory
    runs = decide([POOL], observe(machines=(machine("l4-a"),), now=NOW + 300), staging).memory
    assert decide([POOL], observe(machines=(machine("l4-a"),), now=NOW + 660), runs).actions == ()
    assert len(decide([POOL], observe(machines=(machine("l4-a"),), now=NOW + 661), runs).actions) == 1
    stuck = machine("l4-a", "STAGING")
    assert decide([POOL], observe(machines=(stuck,), now=NOW + 361), staging).actions == (
        Delete(stuck, "no runner within 360 s"),
    )


@pytest.mark.parametrize(
    ("online", "seconds", "why"),
    [(False, 120, "its runner has been offline for 120 s"), (True, 660, "its runner has been idle for 660 s")],
)
def test_a_machine_that_hangs_with_an_idle_runner_is_replaced(online: bool, seconds: int, why: str) -> None:
    hanging, runner = machine("l4-a"), Runner(7, "l4-a", online=online, busy=False)
    first = decide([POOL], observe(machines=(hanging,), runners=(runner,), jobs=(job(),)), Memory())
    assert first.actions == ()
    in_time = observe(machines=(hanging,), runners=(runner,), jobs=(job(),), now=NOW + seconds)
    assert decide([POOL], in_time, first.memory).actions == ()
    late = decide([POOL], replace(in_time, now=NOW + seconds + 1), first.memory)
    assert late.actions[0] == RemoveRunner(runner, hanging, why)
    assert inserts(late) == [("us-central1-a", "spot")]


def test_a_busy_runner_that_is_offline_stays() -> None:
    working, runner = machine("l4-a"), Runner(7, "l4-a", online=False, busy=True)
    memory = Memory(machines={"l4-a": MachineMemory("l4", NOW - 9000, registered=True, offline_since=NOW - 8000)})
    assert decide([POOL], observe(machines=(working,), runners=(runner,)), memory).actions == ()


def test_a_busy_runner_stays_although_its_machine_seems_to_have_none() -> None:
    """Somebody removed the registration from the metadata. The memory keeps since when the runner was idle before."""
    working, runner = machine("l4-a", registered_by="manager"), Runner(7, "l4-a", online=True, busy=True)
    entry = MachineMemory("l4", NOW - 9000, registered=True, idle_since=NOW - 8000)
    assert (
        decide([POOL], observe(machines=(working,), runners=(runner,)), Memory(machines={"l4-a": entry})).actions == ()
    )


def test_a_job_that_a_person_cancels_after_the_preemption_is_not_run_again() -> None:
    """GitHub waits minutes for a lost runner. In that time a person or a newer run may cancel the job."""
    still = Job(LOST, frozenset({"gpu", "l4"}), "in_progress", NOW - 900, runner_name="l4-a")
    waits = decide(
        [POOL], observe(jobs=(still,), runs={RUN: failed_run(status="in_progress")}, now=NOW + 61), lost_memory()
    )
    cancelled = observe(runs={RUN: failed_run(conclusion="cancelled")}, now=NOW + 90)
    decision = decide([POOL], cancelled, waits.memory)
    assert (decision.actions, decision.memory.lost) == ((), {})
    lost = decide([POOL], observe(runs={RUN: failed_run()}, now=NOW + 90), waits.memory)
    assert lost.actions == (Rerun(RUN, 1, None),)


def test_a_job_whose_insert_is_not_answered_for_five_minutes_has_that_as_its_reason() -> None:
    first = decide([POOL], observe(jobs=(job(),)), Memory())
    [name] = first.memory.pending
    assert decide([POOL], observe(jobs=(job(),), now=NOW + 300), first.memory).reasons == {}
    late = decide([POOL], observe(jobs=(job(),), now=NOW + 301), first.memory)
    assert late.reasons == {
        job().key: Reason("no-answer", f"there is no answer to the insert of {name} in us-central1-a")
    }
    assert late.actions == first.actions


def test_an_insert_with_a_lost_answer_is_not_repeated_after_its_job_ended() -> None:
    first = decide([POOL], observe(jobs=(job(),)), Memory())
    second = decide([POOL], observe(), first.memory)
    assert second.actions == ()
    # The machine may be listed late, and counts until then.
    one = decide([replace(POOL, max=1)], observe(jobs=(job(2),), now=NOW + 10), second.memory)
    assert inserts(one) == []
    assert decide([POOL], observe(now=NOW + 61), second.memory).memory.pending == {}


def test_pauses_after_stockouts_double_up_to_half_an_hour_and_end_with_a_machine() -> None:
    one, memory, pauses = replace(POOL, rungs=(A,)), Memory(), []
    now = NOW
    for _ in range(7):
        asked = decide([one], observe(jobs=(job(),), now=now), memory).memory
        [name] = asked.pending
        memory = decide([one], observe(jobs=(job(),), now=now, operations={name: stockout()}), asked).memory
        [cooldown] = memory.cooldowns.values()
        pauses.append(cooldown.until - now)
        now = cooldown.until
    assert pauses == [60, 120, 240, 480, 960, 1800, 1800]
    asked = decide([one], observe(jobs=(job(),), now=now), memory).memory
    [name] = asked.pending
    given = decide([one], observe(jobs=(job(),), now=now, operations={name: OperationState(True)}), asked).memory
    assert given.cooldowns == {}


def test_a_zone_that_google_names_is_tried_again_before_its_pause_is_over() -> None:
    memory = Memory(cooldowns={"us-central1-b g2-standard-8 spot": Cooldown(NOW + 900, 6)})
    first = decide([POOL], observe(jobs=(job(),)), memory)
    [name] = first.memory.pending
    named = stockout("us-central1-b")
    second = decide([POOL], observe(jobs=(job(),), operations={name: named}), first.memory)
    assert inserts(second) == [("us-central1-b", "spot")]
    assert second.memory.preferred == {"us-central1-b g2-standard-8 spot": NOW + 300}


def test_the_breaker_counts_preemptions_close_together_and_opens_for_half_an_hour() -> None:
    pool, place = replace(POOL, rungs=(A, FIRM)), "us-central1 g2-standard-8"
    for times, market in (
        ([NOW - 1700, NOW - 799], "spot"),
        ([NOW - 1700, NOW - 800], "standard"),
        ([NOW - 1800, NOW - 1000], "spot"),
        ([NOW - 1799, NOW - 1000], "standard"),
    ):
        assert inserts(decide([pool], observe(jobs=(job(),)), Memory(preemptions={place: times}))) == [
            ("us-central1-a", market)
        ], times


def test_the_quota_of_all_regions_closes_every_rung() -> None:
    first = decide([POOL], observe(jobs=(job(),)), Memory())
    [name] = first.memory.pending
    failed = OperationState(True, InsertError("over-quota", "Quota exceeded", quota="gpus_all_regions"))
    far = replace(POOL, rungs=(A, replace(FIRM, zone="europe-west4-a")))
    second = decide([far], observe(jobs=(job(),), operations={name: failed}), first.memory)
    assert inserts(second) == []
    assert second.reasons[job().key].code == "over-quota"


def test_a_rung_at_the_price_ceiling_or_without_a_price_is_tried() -> None:
    for price in (0.85, None):
        pool = replace(POOL, rungs=(replace(FIRM, usd_per_hour=price),), price_ceiling_usd=0.85)
        assert len(inserts(decide([pool], observe(jobs=(job(),)), Memory()))) == 1


def test_a_pending_machine_counts_for_its_own_pool_until_it_is_listed_or_a_minute_has_passed() -> None:
    first = decide([POOL], observe(jobs=(job(),)), Memory())
    [name] = first.memory.pending
    done = {name: OperationState(True)}
    second = decide([POOL], observe(jobs=(job(),), operations=done), first.memory)
    assert list(second.memory.pending) == [name]
    assert list(decide([POOL], observe(jobs=(job(),), now=NOW + 60), second.memory).memory.pending) == [name]
    unknown = decide([POOL], observe(jobs=(job(),), machines=None, now=NOW + 99), second.memory)
    assert list(unknown.memory.pending) == [name]
    listed = decide([POOL], observe(jobs=(job(),), machines=(machine(name, job=slug(job().key)),)), second.memory)
    assert (listed.actions, listed.memory.pending, listed.assigned) == ((), {}, {job().key: name})
    # A machine that is listed before its operation has ended counts once, and never for another pool.
    early = observe(jobs=(job(), job(2)), machines=(machine(name, job=slug(job().key)),))
    twice = decide([POOL], early, first.memory)
    assert [each.job for each in twice.actions if isinstance(each, Insert)] == [job(), job(2)]
    assert inserts(decide([replace(POOL, max=1)], early, second.memory)) == []
    other = replace(POOL, name="t4", labels=frozenset({"t4"}), max=1)
    both = decide([POOL, other], observe(jobs=(job(), job(2, "t4"))), first.memory)
    assert [each.pool for each in both.actions if isinstance(each, Insert)] == ["l4", "t4"]


def test_after_a_failed_insert_the_next_one_has_another_name_and_the_budget_is_whole() -> None:
    first = decide([POOL], observe(jobs=(job(),)), Memory())
    [name] = first.memory.pending
    second = decide([POOL], observe(jobs=(job(),), operations={name: stockout()}), first.memory)
    assert list(second.memory.pending) == [machine_name("l4", job().key, 2)]
    assert second.memory.jobs == {slug(job().key): JobMemory(inserts=2, machines=1, last_seen=NOW)}


def test_a_job_of_the_pools_of_two_managers_belongs_to_the_first_name() -> None:
    far = OtherPool("prod-batch", frozenset({"gpu", "t4"}), "Default")
    for labels, first, second in (
        (("gpu", "l4"), False, True),
        (("gpu", "t4"), True, False),
        (("gpu",), False, True),
        (("gpu", "v5"), False, False),
    ):
        waiting = job(1, *labels)
        assert is_of_another(waiting, "prod", [POOL], [far]) is first, labels
        own = replace(POOL, labels=far.labels)
        assert is_of_another(waiting, "prod-batch", [own], [OtherPool("prod", POOL.labels)]) is second, labels
    other_group = replace(job(1, "gpu", "t4"), runner_groups=frozenset({"other"}))
    assert not is_of_another(other_group, "prod", [POOL], [far])


def test_a_job_belongs_to_the_first_loop_with_a_pool_for_it_or_to_the_most_similar_one() -> None:
    other = replace(POOL, name="toy", labels=frozenset({"toy", "gpu"}))
    loops = {"compute-engine": [POOL], "toy": [other]}
    asked = (job(1, "gpu"), job(2, "toy"), job(3, "nothing"), job(4, "toy", "nothing"))
    assert [owner_of(each, loops) for each in asked] == ["compute-engine", "toy", "compute-engine", "toy"]
