"""The record of a machine: its times from the supplier, its job from GitHub, and when it is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from gpu_ci.machine_records import End as RecordedEnd
from gpu_ci.machine_records import GpuUse, JobOfMachine, MachineRecord, Parts
from gpu_manager.decision import records
from gpu_manager.loop import Manager
from gpu_manager.memory import MachineHistory, MachineMemory, Memory, Pending
from gpu_manager.model import End, Job, Machine, RanJob, RunKey, Runner
from gpu_manager.ports import GithubView, Unavailable

from tests.manager.test_decide import NOW, POOL, job, machine
from tests.manager.test_loop import Kept, Scripted

ID = "1419525770052933875"


def at(sec: float) -> datetime:
    return datetime.fromtimestamp(NOW + sec, UTC)


def ran(runner: str = f"l4-a-{ID}", completed: float | None = 300, **others: Any) -> RanJob:
    """Return a job that was created at NOW, started after 100 s, and ended after `completed` seconds."""
    end = None if completed is None else at(completed)
    values = {"run": 11, "attempt": 1, "id": 1, "conclusion": "success", **others}
    return RanJob(
        runner, JobOfMachine(repository="example-org/kernels", created=at(0), started=at(100), completed=end, **values)
    )


def working(runners: Sequence[str]) -> tuple[tuple[Job, ...], tuple[Runner, ...]]:
    """Return a running job for each runner, and the runners."""
    jobs = [replace(job(id_, status="in_progress", age=0, runner=name), started_unix=NOW + 100, runner_id=id_)
            for id_, name in enumerate(runners, 1)]  # fmt: skip
    return tuple(jobs), tuple(Runner(each.runner_id, each.runner_name, True, True) for each in jobs)


class World:
    """A manager, and what GitHub and the supplier answer in each pass."""

    def __init__(self, memory: Memory | None = None) -> None:
        self.answers = Scripted()
        self.store = Kept(memory or Memory(begun=True))
        self.manager = Manager(
            [POOL], self.answers, self.answers, self.store, lambda: self.answers.now, name="ci"  # type: ignore[arg-type]
        )  # fmt: skip

    def pass_(self, sec: float, *machines: Machine, runner: str = "", jobs: Sequence[RanJob] = ()) -> list[str]:
        """Run a pass `sec` seconds after NOW, and return the events of GitHub and the records."""
        self.answers.now = NOW + sec
        self.answers.listed, self.answers.jobs_of_runs = machines, tuple(jobs)
        names = [runner] if runner else []
        self.answers.view = GithubView(NOW + sec, *working(names))
        return [each.detail for each in self.manager.step().events if each.subject in ("GitHub", "the records")]

    @property
    def record(self) -> MachineRecord:
        [found] = self.store.records
        return found


def on(sec: float = 10, **others: Any) -> Machine:
    return machine("l4-a", id=ID, on_unix=NOW + sec, **others)


def off(sec: float, **others: Any) -> Machine:
    return on(status="TERMINATED", off_unix=NOW + sec, **{"end": End("job-done"), **others})


def test_a_record_has_the_suppliers_times_githubs_job_and_the_price_of_its_parts() -> None:
    world = World()
    world.pass_(20, on())
    world.pass_(110, on(), runner=f"l4-a-{ID}")
    world.pass_(330, off(310))
    assert world.store.records == []
    world.pass_(340)
    world.pass_(400, jobs=[ran("l4-b-2"), ran()])
    record = world.record
    assert record.model_dump(exclude={"schema_version", "phases", "gpu_use"}) == {
        "manager": "ci", "supplier": "compute-engine", "pool": "l4", "machine": "l4-a", "id": ID,
        "zone": "us-central1-a", "machine_type": "g2-standard-8", "market": "spot", "gpu": "nvidia-l4",
        "template": "templates/l4", "usd_per_hour": 0.4,
        "requested": at(10), "on": [(at(10), at(310))], "gone": at(340),
        "end": {"reason": "job-done", "detail": ""}, "taken_back": False, "job": ran().job.model_dump(),
        "incomplete": [],
    }  # fmt: skip
    assert record.usd == pytest.approx(300 * 0.4 / 3600)
    assert record.parts(3.0) == Parts(job=2.0, overhead=1.0, lost=0.0, idle=0.0)
    world.pass_(410)
    assert world.store.records == [record]


@pytest.mark.parametrize("seen", [True, False])
def test_a_new_record_says_whether_a_pass_saw_the_runner(seen: bool) -> None:
    world = World()
    world.pass_(110, on(), runner=f"l4-a-{ID}" if seen else "")
    world.pass_(330, off(310, end=End("job-done", run=RunKey("example-org/kernels", 11))))
    world.pass_(340)
    world.answers.now, world.answers.jobs_of_runs = NOW + 400, (ran(),)
    world.answers.view = GithubView(NOW + 400, (), ())
    [new] = world.manager.step().records
    assert (new.job_was_seen, new.boot_was_seen) == (seen, seen)


def test_a_job_that_no_pass_saw_is_found_by_the_name_of_its_runner() -> None:
    world = World()
    world.pass_(0)
    queued = job(1, age=0)
    world.answers.view = GithubView(NOW, (queued,), ())
    world.manager.step()
    [name] = world.answers.started
    there = replace(on(), name=name, id="1")
    world.pass_(200, there)
    world.pass_(340)
    world.pass_(400, jobs=[ran(f"{name}-1"), ran(f"{name}-1", attempt=0)])
    assert world.record.job == ran().job
    assert world.record.requested == at(0)


def test_the_run_that_the_machine_reports_is_a_hint_and_a_job_that_lies_charges_nobody() -> None:
    use = GpuUse(util_avg=0.4, mem_max_mib=9000, joules=5.0)
    end = End("job-done", "", False, {"driver": 3.1}, use, RunKey("example-org/models", 77))
    truth, lie = World(), World()
    for world in (truth, lie):
        world.pass_(20, on())
        world.pass_(90, off(80, end=end))
    asked: list[RunKey] = []
    answer = truth.answers.ran
    truth.answers.ran = lambda run: (asked.append(run), answer(run))[1]  # type: ignore[method-assign]
    truth.pass_(100)
    lie.pass_(100)
    truth.pass_(160, jobs=[ran()])
    assert asked == [RunKey("example-org/models", 77)]
    assert truth.record.job == ran().job
    assert (truth.record.phases, truth.record.gpu_use) == ({"driver": 3.1}, use)
    lie.pass_(160, jobs=[ran("l4-b-2"), ran("their-own-runner")])
    assert lie.store.records == []
    lie.pass_(100 + 3599)
    assert lie.store.records == []
    lie.pass_(100 + 3601)
    assert (lie.record.job, lie.record.incomplete) == (None, ["job"])


def test_a_job_of_another_machine_or_of_an_earlier_one_of_the_name_is_not_taken() -> None:
    world = World()
    world.pass_(20, on(), runner=f"l4-a-{ID}")
    world.pass_(40, off(30))
    others = [ran("l4-a-999"), ran("l4-ab-1"), ran("other"), ran("l4-a"), ran("l4-a-1"), ran("l4-a--"), ran("l4-a-14")]
    world.pass_(50)
    world.pass_(110, jobs=others)
    assert world.store.records == [], "GitHub may show it later"
    world.pass_(50 + 3601, jobs=others)
    assert (world.record.job, world.record.incomplete) == (ran(completed=None, conclusion="").job, ["job-times"])


def test_a_record_waits_for_githubs_end_of_the_job_and_asks_once_a_minute() -> None:
    world = World()
    world.pass_(110, on(), runner=f"l4-a-{ID}")
    world.pass_(320, off(310))
    asked: list[float] = []
    answer = world.answers.ran
    world.answers.ran = lambda run: (asked.append(world.answers.now - NOW), answer(run))[1]  # type: ignore[method-assign]
    for sec in (330, 389, 390, 449, 450, 510):
        world.pass_(sec, jobs=[ran(completed=None if sec < 510 else 300)])
    assert asked == [390, 450, 510]
    assert world.record.job == ran().job


def test_the_record_of_a_preempted_machine_says_that_its_job_is_lost() -> None:
    world = World()
    world.pass_(110, on(), runner=f"l4-a-{ID}")
    world.answers.taken_back = frozenset({f"l4-a-{ID}"})
    world.pass_(210)
    world.pass_(270, jobs=[ran(completed=200, conclusion="failure")])
    record = world.record
    assert record.end is not None
    assert (record.end.reason, record.on, record.incomplete) == ("preempted", [(at(10), at(210))], ["on"])
    assert record.parts(2.0) == Parts(job=0.0, overhead=1.0, lost=1.0, idle=0.0)


def test_a_machine_on_standby_has_an_interval_for_each_time_it_was_on_and_only_one_is_of_the_job() -> None:
    world = World()
    world.pass_(20, on(10))
    # It was switched off, on and off again between two passes.
    world.pass_(90, off(40, end=End("stopped")))
    world.pass_(330, replace(off(310), on_unix=NOW + 90))
    world.pass_(340)
    world.pass_(350)
    record = world.record
    assert record.on == [(at(10), at(40)), (at(90), at(310))]
    assert record.incomplete == ["job"]
    with_job = record.model_copy(update={"job": ran().job})
    assert with_job.parts(2.5) == Parts(job=2.0, overhead=pytest.approx(0.2), lost=0.0, idle=pytest.approx(0.3))


def test_a_start_that_the_supplier_rounds_otherwise_in_a_later_list_is_the_same_start() -> None:
    world = World()
    world.pass_(20, on(10))
    world.pass_(30, on(10.9))
    world.pass_(330, off(310))
    world.pass_(340)
    world.pass_(410)
    assert (world.record.on, world.record.incomplete) == ([(at(10), at(310))], ["job"])


def test_without_the_suppliers_times_those_of_the_passes_count() -> None:
    world = World()
    world.pass_(20, machine("l4-a", id=ID))
    world.pass_(90, machine("l4-a", "TERMINATED", id=ID, end=End("idle")))
    world.pass_(100)
    world.pass_(110)
    assert (world.record.on, world.record.incomplete) == ([(at(20), at(90))], ["on"])


def test_a_machine_that_only_waited_for_capacity_has_no_record() -> None:
    world = World()
    world.pass_(20, machine("l4-a", "PENDING", id=ID))
    world.pass_(30)
    world.pass_(40)
    assert (world.store.records, world.store.memory.histories) == ([], {})


@pytest.mark.parametrize("runner", ["", f"l4-a-{ID}"])
def test_a_machine_that_one_list_lacks_has_one_record_with_all_its_time(runner: str) -> None:
    world = World()
    world.pass_(110, on(), runner=runner)
    world.pass_(120)
    world.pass_(190, on(), runner=runner)
    world.pass_(310, off(300, end=End("idle")))
    world.pass_(320)
    world.pass_(380, jobs=[ran()] if runner else ())
    assert (world.record.on, world.record.gone, world.record.incomplete) == ([(at(10), at(300))], at(320), [])
    assert (world.record.job is not None) == bool(runner)


def test_a_machine_whose_job_wrote_that_it_was_preempted_is_not_lost() -> None:
    world = World()
    world.pass_(110, on(), runner=f"l4-a-{ID}")
    world.pass_(320, off(310, end=End("preempted")))
    world.pass_(330)
    world.pass_(390, jobs=[ran(conclusion="failure")])
    assert (world.record.end, world.record.taken_back) == (RecordedEnd(reason="preempted"), False)
    assert world.record.parts(3.0) == Parts(job=2.0, overhead=1.0, lost=0.0, idle=0.0)


STANDBY_END = End("stopped", "", False, {"driver": 3.1}, None, RunKey("example-org/kernels", 9))


@pytest.mark.parametrize("reported", [None, STANDBY_END, End("job-done", "", False, {"runner": 0.2})])
@pytest.mark.parametrize("seen_on", [True, False])
def test_a_machine_on_standby_has_what_it_reported_since_its_last_start(reported: End | None, seen_on: bool) -> None:
    world = World()
    world.pass_(20, on())
    world.pass_(90, off(80, end=STANDBY_END))
    if seen_on:
        world.pass_(110, on(100))
    asked: list[RunKey] = []
    world.answers.ran = lambda run: (asked.append(run), ())[1]  # type: ignore[method-assign]
    world.pass_(200, replace(off(190, end=reported), on_unix=NOW + 100))
    world.pass_(210)
    world.pass_(210 + 3601)
    fresh = reported if reported != STANDBY_END else None
    assert world.record.on == [(at(10), at(80)), (at(100), at(190))]
    assert world.record.phases == (fresh.phases if fresh else {})
    assert world.record.end == (RecordedEnd(reason="job-done") if fresh else None)
    assert asked == []


def test_a_later_machine_of_the_same_name_has_its_own_record() -> None:
    world = World()
    world.pass_(20, on())
    world.pass_(60, replace(on(50), id="2"))
    world.pass_(90)
    world.pass_(100)
    assert [(each.id, each.on) for each in world.store.records] == [(ID, [(at(10), at(60))]), ("2", [(at(50), at(90))])]


def test_a_requested_machine_does_not_have_the_job_of_an_earlier_one_of_its_name() -> None:
    pending = Pending("l4", POOL.rungs[0], job(2, age=0), "request", NOW + 10)
    world = World(Memory(begun=True, machines={"l4-a": MachineMemory("l4", NOW, "7")}, pending={"l4-a": pending}))
    world.pass_(20, runner="l4-a-7")
    assert world.store.memory.histories["l4-a"].job is None
    world.pass_(40, on(), runner=f"l4-a-{ID}")
    assert world.store.memory.histories["l4-a"].job is not None


def test_a_machine_that_is_on_when_the_manager_loses_its_memory_has_a_record_from_its_start() -> None:
    world = World(Memory(begun=True, machines={"l4-a": MachineMemory("l4", NOW)}))
    world.pass_(500, on())
    world.pass_(510)
    world.pass_(520)
    assert (world.record.requested, world.record.on) == (at(10), [(at(10), at(510))])


def test_a_machine_of_a_removed_rung_has_a_record_without_a_price() -> None:
    world = World()
    world.pass_(20, on(machine_type="g2-standard-96"))
    world.pass_(30)
    world.pass_(40)
    assert (world.record.usd, world.record.incomplete) == (None, ["price", "on"])


def test_a_record_that_could_not_be_stored_is_stored_in_the_next_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.pass_(20, on())
    world.pass_(30)

    def full(_: object) -> None:
        raise Unavailable("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(world.store, "add", full)
        assert world.pass_(40) == ["the disk is full"]
    world.pass_(50)
    assert world.record.gone == at(30)


def test_near_githubs_limit_and_without_its_answer_the_record_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.pass_(110, on(), runner=f"l4-a-{ID}")
    world.pass_(320, off(310))

    def lost(_: object) -> None:
        raise Unavailable("no answer")

    with monkeypatch.context() as broken:
        broken.setattr(world.answers, "ran", lost)
        world.pass_(330)
        assert world.pass_(390) == ["the job of l4-a: no answer"]
    world.answers.listed, world.answers.now = (), NOW + 400
    world.answers.view = GithubView(NOW + 400, (), (), requests_left=499)
    world.answers.jobs_of_runs = (ran(),)
    world.manager.step()
    assert world.store.records == []
    world.answers.view = GithubView(NOW + 400, (), (), requests_left=500)
    world.manager.step()
    assert world.record.job == ran().job


@pytest.mark.parametrize(("runs", "first"), [(7, 5), (1, 7)])
def test_a_pass_asks_about_five_runs_at_most_and_about_each_once(runs: int, first: int) -> None:
    world = World()
    machines = [replace(on(), name=f"l4-{number}", id=str(number)) for number in range(7)]
    names = [f"l4-{number}-{number}" for number in range(7)]
    jobs, runners = working(names)
    jobs = tuple(replace(each, key=each.key._replace(run_id=number % runs)) for number, each in enumerate(jobs))
    world.answers.listed, world.answers.view = tuple(machines), GithubView(NOW + 20, jobs, runners)
    world.manager.step()
    answers = [ran(name, id=number) for number, name in enumerate(names)]
    world.pass_(30)
    world.pass_(90, jobs=answers)
    assert len(world.store.records) == first
    world.pass_(100, jobs=answers)
    assert sorted(each.job.id for each in world.store.records if each.job) == list(range(7))


def test_a_history_whose_times_contradict_each_other_stops_no_pass() -> None:
    world = World()
    world.pass_(20, on())
    [history] = world.store.memory.histories.values()
    history.on = [(NOW + 50, NOW + 40), (NOW + 10, None)]
    world.pass_(30)
    assert world.pass_(40) == ["l4-a: its times cannot be"]
    assert (world.store.records, world.store.memory.ended) == ([], {})


def test_a_job_that_github_shows_late_is_found_although_the_machine_says_that_it_was_idle() -> None:
    world = World()
    world.pass_(20, on(), runner=f"l4-a-{ID}")
    [history] = world.store.memory.histories.values()
    history.job = None  # no pass saw it run
    world.pass_(320, off(310, end=End("idle")))
    world.pass_(330)
    assert world.store.records == []
    world.pass_(390, jobs=[ran()])
    assert world.record.job == ran().job


def test_what_the_machine_measured_stays_when_it_is_preempted() -> None:
    use = GpuUse(util_avg=0.5)
    world = World()
    world.pass_(110, off(100, end=End("preempted", "", False, {"driver": 3.0}, use)))
    world.answers.taken_back = frozenset({f"l4-a-{ID}"})
    world.pass_(120, off(100, end=None))
    world.answers.taken_back = frozenset()
    world.pass_(130)
    world.pass_(140)
    record = world.record
    assert record.end is not None
    assert (record.end.reason, record.phases, record.gpu_use) == ("preempted", {"driver": 3.0}, use)


def test_a_runner_name_that_github_cut_or_that_has_a_suffix_is_the_machines() -> None:
    name = "a-pool-with-a-long-name-of-forty-letter-0a1b2c3d"
    history = MachineHistory(name, "l4", "a", "b", "spot", NOW, id=ID)
    cut = f"{name}-{ID}"[:64]
    assert len(cut) == 64
    assert records.job_of(history, [ran(cut)]) == records.job_of(history, [ran(f"{cut[:62]}-2")]) == ran().job
    assert records.job_of(history, [ran(f"{cut[:60]}-2"), ran(cut[:63])]) is None
    later = JobOfMachine.model_copy(ran().job, update={"attempt": 2, "started": at(200)})
    assert records.job_of(history, [RanJob(cut, later), ran(cut)]) == later
