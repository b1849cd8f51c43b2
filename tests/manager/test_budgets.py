"""Budgets of teams: what counts, when it is reported, and which jobs get no machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from gpu_ci.machine_records import MachineRecord
from gpu_manager.budgets import Budgets, Team
from gpu_manager.decision.decide import decide
from gpu_manager.loop import Manager
from gpu_manager.memory import MachineHistory, Memory
from gpu_manager.model import RunKey, Runner
from gpu_manager.ports import GithubView, Unavailable

from tests.manager.test_decide import NOW, POOL, inserts, job, machine, observe
from tests.manager.test_loop import Kept, Scripted
from tests.manager.test_metrics import RECORD
from tests.manager.test_records import ran

NOVEMBER = datetime(2026, 11, 29, 12, tzinfo=UTC)
KERNELS = Team("vision", frozenset({"example-org/kernels"}), 10.0, "stop")
OTHERS = Team("speech", frozenset({"example-org/models", "example-org/audio"}), 10.0)


def record(
    usd: float, gone: datetime = NOVEMBER, repository: str = "example-org/kernels", name: str = "a"
) -> MachineRecord:
    assert RECORD.job
    on = (gone - timedelta(hours=1), gone)
    return RECORD.model_copy(
        update={
            "machine": name, "gone": gone, "on": [on], "requested": on[0], "usd_per_hour": usd,
            "job": RECORD.job.model_copy(update={"repository": repository}),
        }
    )  # fmt: skip


def budgets(*records: MachineRecord, memory: Memory | None = None, now: datetime = NOVEMBER) -> Budgets:
    found = Budgets([KERNELS, OTHERS], lambda since: [each.line() for each in records if each.gone >= since])
    assert found.update(1, memory or Memory(), now.timestamp()) == []
    return found


def history(name: str, repository: str, hours: float) -> MachineHistory:
    """Return the history of a machine at 0.4 USD an hour that is on since some hours."""
    found = MachineHistory(name, "l4", "us-central1-a", "g2-standard-8", "spot", 0.0, usd_per_hour=0.4)
    found.on = [(NOVEMBER.timestamp() - hours * 3600, None)]
    found.runs = [RunKey(repository, 1)] if repository else []
    return found


def test_a_team_has_spent_the_records_of_this_month_and_its_machines_that_are_on() -> None:
    running = {name: history(name, name, 2.5) for name in ("Example-Org/Kernels", "example-org/unknown", "")}
    found = budgets(
        record(3.0),
        record(100.0, NOVEMBER.replace(day=1, hour=0) - timedelta(seconds=1)),
        record(2.0, repository="example-org/audio", name="b"),
        record(7.0, repository="example-org/models", name="c"),
        record(50.0, repository="example-org/unknown", name="d"),
        memory=Memory(histories=running, ended={"e": history("e", "example-org/kernels", 5.0)}),
    )
    assert found.spent == {"vision": pytest.approx(3.0 + 1.0 + 2.0), "speech": pytest.approx(9.0)}
    assert found.reports() == [("speech", "has spent 80% of 10 USD in 2026-11")]
    assert found.stopped() == {}


def test_machines_of_other_loops_count_and_a_machine_that_is_gone_counts_once() -> None:
    found = budgets(memory=Memory(histories={"a": history("a", "example-org/kernels", 20.0)}))
    found.update(2, Memory(histories={"b": history("b", "example-org/kernels", 5.0)}), NOVEMBER.timestamp())
    assert found.spent["vision"] == pytest.approx(10.0)
    found.update(1, Memory(), NOVEMBER.timestamp())
    found.add([record(8.5), record(8.5)])
    assert found.spent["vision"] == pytest.approx(10.5)
    assert found.stopped() == {"example-org/kernels": "the team vision has spent its 10 USD of 2026-11"}
    assert found.reports() == [("vision", "has spent all of 10 USD in 2026-11")]


@pytest.mark.parametrize(
    ("usd", "reported", "is_stopped"),
    [(7.999, "", False), (8.0, "80%", False), (9.999, "80%", False), (10.0, "all", True)],
)
def test_a_budget_that_is_exactly_reached_is_spent(usd: float, reported: str, is_stopped: bool) -> None:
    found = budgets(record(usd))
    assert [text.split()[2] for _, text in found.reports()] == ([reported] if reported else [])
    assert bool(found.stopped()) == is_stopped


def test_a_machine_that_is_gone_at_midnight_counts_for_the_month_that_begins() -> None:
    begin = NOVEMBER.replace(day=1, hour=0)
    assert budgets(record(3.0, begin)).spent["vision"] == 3.0
    end = datetime(2026, 12, 1, tzinfo=UTC)
    found = budgets(now=end - timedelta(microseconds=1))
    found.add([record(4.0, end - timedelta(microseconds=1)), record(5.0, end, name="b")])
    assert found.spent["vision"] == 4.0


def test_a_new_month_begins_at_zero() -> None:
    found = budgets(record(12.0))
    assert list(found.stopped()) == ["example-org/kernels"]
    found.update(1, Memory(), datetime(2026, 12, 1, tzinfo=UTC).timestamp())
    assert (found.spent["vision"], found.stopped()) == (0.0, {})


def test_a_new_month_stops_nobody_although_its_records_cannot_be_read() -> None:
    def stored(since: datetime) -> Iterable[str]:
        if since.month == 12:
            raise Unavailable("no answer")
        return [record(12.0).line()]

    found = Budgets([KERNELS], stored)
    assert found.update(1, Memory(), NOVEMBER.timestamp()) == []
    december = datetime(2026, 12, 1, tzinfo=UTC)
    assert len(found.update(1, Memory(), december.timestamp())) == 1
    assert (found.stopped(), found.reports()) == ({}, [])
    found.add([record(4.0, december)])
    # Another loop whose clock is still in November does not bring the old month back.
    found.update(2, Memory(), NOVEMBER.timestamp())
    assert found.spent["vision"] == 4.0


def test_a_clock_that_was_in_a_later_month_for_a_while_forgets_no_budget() -> None:
    found = budgets(record(12.0))
    for month, spent in ((5, 0.0), (11, 12.0)):
        now = NOVEMBER if month == 11 else datetime(2027, month, 1, tzinfo=UTC)
        assert found.update(1, Memory(), now.timestamp()) == []
        assert found.spent["vision"] == spent


def test_a_running_machine_costs_the_team_of_its_job_and_not_of_a_run_that_it_names() -> None:
    started = history("a", "example-org/kernels", 5.0)
    started.reported = RunKey("example-org/models", 9)
    seen = history("b", "example-org/kernels", 10.0)
    seen.job = replace(job(2), key=job(2).key._replace(repository="example-org/audio"))
    found = budgets(memory=Memory(histories={"a": started, "b": seen}))
    assert found.spent == {"vision": pytest.approx(2.0), "speech": pytest.approx(4.0)}


def test_a_machine_that_is_on_since_a_time_to_come_costs_nothing_yet() -> None:
    found = budgets(memory=Memory(histories={"a": history("a", "example-org/kernels", -3.0)}))
    assert found.spent["vision"] == 0.0


def test_a_team_that_only_warns_is_never_stopped() -> None:
    assert budgets(record(99.0, repository="example-org/models")).stopped() == {}


def test_a_job_without_a_known_repository_and_a_machine_without_a_price_cost_no_team() -> None:
    nameless = record(50.0).model_copy(update={"job": None})
    assert budgets(nameless, record(5.0, name="b").model_copy(update={"usd_per_hour": None})).spent["vision"] == 0.0


def test_records_that_cannot_be_read_stop_nobody_and_are_read_in_the_next_pass() -> None:
    answers: list[Iterable[str] | Exception] = [Unavailable("no answer"), ["{}"], [record(12.0).line()]]

    def stored(_: datetime) -> Iterable[str]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    found = Budgets([KERNELS], stored)
    first, second, third = (found.update(1, Memory(), NOVEMBER.timestamp()) for _ in range(3))
    assert first == ["the budgets count no earlier machine: no answer"]
    assert (len(second), third, found.spent) == (1, [], {"vision": 12.0})


def test_without_teams_no_record_is_read() -> None:
    def stored(_: datetime) -> Iterable[str]:
        raise AssertionError("read")

    assert Budgets([], stored).update(1, Memory(), NOVEMBER.timestamp()) == []


def test_a_job_of_a_team_over_its_budget_gets_no_machine_and_the_others_do() -> None:
    other = replace(job(2), key=job(2).key._replace(repository="example-org/models"))
    stopped = {"example-org/kernels": "the team vision has spent its 10 USD of 2026-11"}
    shouted = replace(job(1), key=job(1).key._replace(repository="Example-Org/Kernels"))
    decision = decide([POOL], observe(jobs=(shouted, other), over_budget=stopped), Memory())
    assert len(inserts(decision)) == 1
    reason = decision.reasons[shouted.key]
    assert (reason.code, reason.detail, reason.waiting_helps) == ("over-budget", stopped["example-org/kernels"], False)
    assert other.key in decision.assigned


def test_the_loop_stops_a_team_says_so_and_leaves_its_running_job_alone() -> None:
    world, store = Scripted(), Kept(Memory(begun=True))
    world.now = NOVEMBER.timestamp()
    found = Budgets([KERNELS], lambda _: [record(12.0).line()])
    manager = Manager([POOL], world, world, store, lambda: world.now, budgets=found)  # type: ignore[arg-type]
    running = machine("l4-a", id="7", on_unix=world.now - 60)
    busy = replace(job(1, status="in_progress", runner="l4-a-7"), runner_id=1)
    runner = Runner(1, "l4-a-7", online=True, busy=True)
    world.listed, world.view = (running,), GithubView(world.now, (busy, job(2, age=NOW - world.now)), (runner,))
    result = manager.step()
    assert (world.started, world.deleted) == ([], [])
    assert [each.code for each in result.decision.reasons.values()] == ["over-budget"]
    budget = [(each.subject, each.detail) for each in result.events if each.kind == "budget"]
    assert budget == [("vision", "has spent all of 10 USD in 2026-11")]
    world.listed, world.view = (), GithubView(world.now, (), ())
    manager.step()
    world.now += 61
    world.view = GithubView(world.now, (), ())
    world.jobs_of_runs = (ran("l4-a-7"),)
    [(gone, _, _)] = manager.step().records
    assert gone.usd is not None
    assert found.spent["vision"] == pytest.approx(12.0 + gone.usd)


def test_a_pool_has_spent_the_time_of_its_machines_since_midnight() -> None:
    capped = replace(POOL, max_usd_per_day=10.0)
    stored = [record(6.0, NOVEMBER.replace(hour=0, minute=30), name="b"), record(9.0, NOVEMBER - timedelta(days=1))]
    found = Budgets([], lambda since: [each.line() for each in stored if each.gone >= since], [capped, POOL])
    running = Memory(histories={"a": history("a", "", 14.0)}, ended={"c": replace(history("c", "", 5.0), pool="t4")})
    assert found.update(1, running, NOVEMBER.timestamp()) == []
    # Half an hour of the stored machine, and the running one since midnight: 3.0 and 4.8 USD.
    assert found.cost_caps() == {}
    found.add([record(2.2, name="d")])
    [(pool, reason)] = found.cost_caps().items()
    midnight = (NOVEMBER.replace(hour=0) + timedelta(days=1)).timestamp()
    assert (pool, reason.code, reason.next_try, reason.waiting_helps) == ("l4", "cost-cap", midnight, True)
    found.update(1, Memory(), midnight)
    assert found.cost_caps() == {}
