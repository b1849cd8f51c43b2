"""The simulation of runner managers: small histories worked out by hand, and what holds for every history."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import pytest

from bench import manager
from bench.manager import STANDBY, GpuCi, Job, Place, Policy, RunsOn, WithScaleSets, World, zones

SPOT, STANDARD = Place("us-central1-a", "spot"), Place("us-central1-a", "standard")
DAY = 86400.0


@pytest.fixture(autouse=True)
def _equal_boots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manager, "BOOT_SEC", (100.0, 100.0))
    monkeypatch.setattr(manager, "START_SEC", (50.0, 50.0))


def run(policy: Callable[[World], Policy], *queued: Job, out: tuple[int, int] = (0, 0)) -> World:
    """Run a day in one zone, whose spot machines are out in these seconds."""
    spot = [not out[0] <= second < out[1] for second in range(5000)]
    return World({SPOT: spot, STANDARD: [True]}, queued, seed=1, step_sec=1).run(policy, DAY)


def spans(made: World) -> list[tuple[str, float, float]]:
    return [(machine.place.market, machine.created, machine.ended) for machine in made.machines]


def test_runs_on_runs_an_interrupted_job_again_on_a_standard_machine() -> None:
    made = run(lambda own: RunsOn(own, [SPOT, STANDARD]), Job(1, 0, 600), out=(300, 400))
    # The machine is lost at 300. GitHub reports it 30 s later; two webhooks, the queue, and the request.
    assert spans(made) == [("spot", 5, 300), ("standard", 336, 336 + 100 + 600 + 10)]
    assert made.jobs[0].status == "success"


def test_runs_on_buys_no_spot_machine_for_half_an_hour_after_two_interruptions() -> None:
    queued = [Job(1, 0, 600), Job(2, 0, 600), Job(3, 2000, 60), Job(4, 2102, 60)]
    made = run(lambda own: RunsOn(own, [SPOT, STANDARD]), *queued, out=(300, 301))
    assert [place for place, *_ in spans(made)] == ["spot", "spot", "standard", "standard", "standard", "spot"]


def test_our_loop_finds_a_job_in_its_next_pass_and_deletes_the_machine_after_it() -> None:
    made = run(lambda own: GpuCi(own, [SPOT]), Job(1, 5, 600))
    [(_, created, ended)] = spans(made)
    # An idle pass every 32 s, a pass every 12 s with a machine, 10.8 s of check, and 5 s from the key to the runner.
    assert created == 32
    assert 32 + 110.8 + 5 < made.jobs[0].began_at < 32 + 110.8 + 5 + 2 * 12
    assert ended == made.jobs[0].began_at + 600 + 10
    assert isinstance(made.policy, GpuCi)
    assert not made.policy.cloud.listed()


def test_a_message_begins_a_pass_and_the_requests_are_those_of_the_adapter() -> None:
    made = run(lambda own: WithScaleSets(own, [SPOT]), Job(1, 5, 600), Job(2, 5, 600), Job(3, 6.5, 600))
    # A message takes a second, and the next one waits until the pass has ended.
    assert [created for _, created, _ in spans(made)] == [6, 6, 8]
    passes = [policy(World({SPOT: [True]}, (), 1), [SPOT]) for policy in (WithScaleSets, GpuCi)]
    for each in passes:
        each._active = 1
    whole, swept = (each._requests_of_pass(0.0) for each in passes)
    passes[0]._began = 0.0
    assert (whole, passes[0]._requests_of_pass(1.0), swept) == (5 + 5 * 30, 5, 4 + 2.6 * 30)


def test_our_loop_runs_a_lost_job_again_on_a_machine_that_stays() -> None:
    made = run(lambda own: GpuCi(own, [SPOT, STANDARD]), Job(1, 5, 600), out=(300, 400))
    assert [place for place, *_ in spans(made)] == ["spot", "standard"]
    assert [(job.status, job.attempt) for job in made.jobs] == [("success", 2)]


def test_our_loop_starts_a_stopped_machine_for_a_job_and_replaces_it() -> None:
    made = run(lambda own: GpuCi(own, [SPOT], standby=1), Job(1, 1000, 600))
    first, second = made.machines
    assert (first.boots, first.stops[0][1]) == (2, second.created)
    assert 1000 <= second.created <= 1000 + 32
    assert made.jobs[0].began_at < second.created + 50 + 10.8 + 5 + 2 * 12
    assert second.state == "stopped"
    on = sum(each.seconds_on(DAY) for each in made.machines) / 3600 * 0.5121
    assert manager.usd(made, 1) == pytest.approx(
        on + sum(each.seconds_stopped(DAY) for each in made.machines) / 3600 * 10 / 730
    )


@pytest.mark.parametrize(
    ("policy", "kept"), [(GpuCi, {}), (WithScaleSets, {}), (GpuCi, {"standby": 1}), (GpuCi, {"warm": 2})]
)
def test_passes_that_are_only_counted_would_do_nothing(
    policy: type[GpuCi], kept: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a workday, with a preemption, a cancelled job, jobs at once, and a job outside the times of warm machines."""

    def history() -> World:
        queued = [Job(1, 5, 600), Job(2, 27000, 900), Job(3, 27100, 30000), Job(4, 41000, 600, 50), Job(5, 70000, 60)]
        return run(lambda own: policy(own, [SPOT, STANDARD], **kept), *queued, out=(300, 400))

    skipped = history()
    monkeypatch.setattr(GpuCi, "_quiet_until", lambda *_: 0.0)
    made = history()
    for each in (skipped, made):
        assert [job.status for job in each.jobs] == ["success", "success", "success", "cancelled", "success"]
    assert [job.began_at for job in made.jobs] == [job.began_at for job in skipped.jobs]
    assert spans(made) == spans(skipped)
    # The passes after the last event are not counted.
    assert made.policy.requests == pytest.approx(skipped.policy.requests, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("name", manager.POLICIES)
def test_each_job_ends_once_and_each_machine_takes_one_job(name: str) -> None:
    made = manager.simulate(name, "us-west1", seed=4, days=1)
    states = Counter(job.status for job in made.jobs)
    attempts = Counter(machine.job.number for machine in made.machines if machine.job)
    assert len(made.jobs) == len(manager.jobs(4, 1)) > 50
    assert set(states) <= {"success", "failure", "cancelled"}
    for job in made.jobs:
        assert (job.began_at < math.inf) == (attempts[job.number] > 0)
        assert job.status != "success" or attempts[job.number] == job.attempt
    left = [machine.state for machine in made.machines if machine.state != "off"]
    assert left == ["stopped"] * (STANDBY if "standby" in name else 0)


def test_a_seed_gives_the_same_history_with_about_the_recorded_shares() -> None:
    made = zones(4, 3)
    assert made == zones(4, 3) != zones(5, 3)
    shares = [sum(up) / len(up) for place, up in made.items() if place.market == "spot"]
    assert sum(shares) / 9 == pytest.approx(sum(manager.SHARES.values()) / 9, abs=0.2)
