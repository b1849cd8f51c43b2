"""The simulation of runner managers: small histories worked out by hand, and what holds for every history."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from gpu_manager.github.rate_limits import RateLimits

from bench.manager import availability, world
from bench.manager.arrivals import Arrival, week
from bench.manager.availability import Place, Series
from bench.manager.compare import STANDBY, History, Row, outcome, rows, simulate, total
from bench.manager.ours import GpuCi
from bench.manager.ours import Settings as OurSettings
from bench.manager.peers.garm import Garm
from bench.manager.peers.garm import Settings as GarmSettings
from bench.manager.peers.google_cloud import GoogleCloud
from bench.manager.peers.google_cloud import Settings as GoogleSettings
from bench.manager.peers.runs_on import RunsOn
from bench.manager.peers.runs_on import Settings as RunsOnSettings
from bench.manager.peers.terraform_aws import Settings as AwsSettings
from bench.manager.peers.terraform_aws import TerraformAws
from bench.manager.world import Machine, Policy, World

SPOT, FIRM = Place("us-central1-a", "spot"), Place("us-central1-a", "standard")
ALWAYS = Series([True])
DAY = 86400.0


@pytest.fixture(autouse=True)
def _one_boot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "BOOT_SEC", (100.0, 100.0))


def history(
    policy: Callable[[World], Policy], *jobs: Arrival, spot: Series = ALWAYS, standard: Series = ALWAYS
) -> World:
    made = World({SPOT: spot, FIRM: standard}, jobs, DAY, seed=1, start_sec=(50.0, 50.0))
    made.run(policy)
    return made


def out_between(*times: tuple[int, int]) -> Series:
    """Return a place that has no machines in these seconds."""
    return Series([not any(first <= second < end for first, end in times) for second in range(5000)], step_sec=1)


def spans(made: World) -> list[tuple[str, float, float | None]]:
    return [(machine.place.market, machine.created, machine.ended) for machine in made.machines]


def test_google_cloud_starts_one_machine_and_deletes_it_when_the_job_has_ended() -> None:
    made = history(lambda own: GoogleCloud(own, GoogleSettings(SPOT)), Arrival(1, 0, 600))
    # The webhook, the insert, 100 s of boot, 600 s of the job, the webhook.
    assert spans(made) == [("spot", 11, 712)]
    assert (made.jobs[0].began_at, made.jobs[0].done_at) == (111, 711)


def test_google_cloud_does_not_notice_a_stockout_and_its_job_waits_until_github_cancels_it() -> None:
    made = history(lambda own: GoogleCloud(own, GoogleSettings(SPOT)), Arrival(1, 0, 600), spot=out_between((0, 20)))
    assert (spans(made), made.jobs[0].status) == ([], "expired")
    assert outcome(made).waits_sec == (DAY,)


def test_terraform_aws_requests_a_machine_every_half_minute_until_it_gets_one() -> None:
    settings = AwsSettings([SPOT], [], 4)
    made = history(lambda own: TerraformAws(own, settings), Arrival(1, 0, 600), spot=out_between((0, 95)))
    # 1 s of webhook, 30 s of delay, 3 s for the fleet; again after 30 s and 3 s, and once more.
    assert [created for _, created, _ in spans(made)] == [100]


def test_a_place_has_no_more_machines_than_its_depth() -> None:
    made = World({SPOT: ALWAYS, FIRM: ALWAYS}, [Arrival(1, 0, 600), Arrival(2, 0, 600)], DAY, seed=1, depth=1)
    made.run(lambda own: TerraformAws(own, AwsSettings([SPOT], [FIRM], 4)))
    assert [place for place, *_ in spans(made)] == ["spot", "standard"]


def test_terraform_aws_fails_over_to_an_on_demand_machine_where_it_is_reported_to() -> None:
    settings = AwsSettings([SPOT], [FIRM], 4)
    made = history(lambda own: TerraformAws(own, settings), Arrival(1, 0, 600), spot=out_between((0, 95)))
    assert spans(made) == [("standard", 37, 37 + 100 + 600 + 10)]


def test_terraform_aws_loses_the_job_of_a_machine_that_is_taken_back() -> None:
    settings = AwsSettings([SPOT], [], 4)
    made = history(lambda own: TerraformAws(own, settings), Arrival(1, 0, 600), spot=out_between((300, 400)))
    assert spans(made) == [("spot", 34, 300)]
    found = outcome(made)
    assert (made.jobs[0].status, found.lost, found.done, found.reruns) == ("failed", 1, 0, 0)


def test_runs_on_falls_back_at_once_and_runs_an_interrupted_job_again_on_demand() -> None:
    settings = RunsOnSettings([SPOT], [FIRM])
    jobs, out = (Arrival(1, 0, 600), Arrival(2, 950, 60)), out_between((300, 400), (950, 970))
    made = history(lambda own: RunsOn(own, settings), *jobs, spot=out)
    # The first machine is lost at 300; GitHub says so 30 s later; webhooks of 1 s each; the queue; the fleet.
    assert spans(made) == [
        ("spot", 5, 300),
        ("standard", 300 + 30 + 1 + 1 + 1 + 3, 336 + 100 + 600 + 10),
        ("standard", 950 + 5 + 3, 958 + 100 + 60 + 10),
    ]
    assert [(job.status, job.reruns) for job in made.jobs] == [("done", 1), ("done", 0)]


def test_runs_on_buys_no_spot_machine_for_half_an_hour_after_two_interruptions() -> None:
    settings = RunsOnSettings([SPOT], [FIRM])
    jobs = [Arrival(number, 0, 600) for number in (1, 2)] + [Arrival(3, 2000, 60), Arrival(4, 2102, 60)]
    made = history(lambda own: RunsOn(own, settings), *jobs, spot=out_between((300, 301)))
    # The breaker opened at 301 and closes at 2101.
    assert [place for place, *_ in spans(made)] == ["spot", "spot", "standard", "standard", "standard", "spot"]


def test_runs_on_starts_a_stopped_machine_of_its_pool_and_a_new_one_where_there_is_none_left() -> None:
    settings = RunsOnSettings([SPOT], [FIRM], stopped=1)
    made = history(lambda own: RunsOn(own, settings), Arrival(1, 1000, 600), Arrival(2, 1001, 60))
    # The loop of 30 s sees the warm machine at 120, and that one is missing at 1020. The stop takes 30 s.
    assert [(each.place.market, each.created, each.stops) for each in made.machines] == [
        ("standard", 0, [(150, 1002)]),
        ("spot", 1001 + 1 + 1 + 3, []),
        ("standard", 1020, [(1020 + 120 + 30, None)]),
    ]
    assert [job.began_at for job in made.jobs] == [1002 + 50, 1006 + 100]


def test_runs_on_gets_a_machine_as_without_a_pool_where_none_of_it_starts() -> None:
    settings = RunsOnSettings([SPOT], [FIRM], stopped=1)
    out = out_between((900, 1100))
    made = history(lambda own: RunsOn(own, settings), Arrival(1, 1000, 600), standard=out)
    # The answer to the start, and the one of the fleet.
    assert [(each.place.market, each.created) for each in made.machines] == [("standard", 0), ("spot", 1002 + 3 + 3)]
    assert made.machines[0].stops == [(150, None)]


def test_garm_leaves_a_young_job_to_idle_runners_and_requests_a_machine_five_times() -> None:
    made = history(lambda own: Garm(own, GarmSettings([FIRM], 4)), Arrival(1, 0, 600))
    # The webhook and 30 s; the loop at 35; the other loop and the insert.
    assert [created for _, created, _ in spans(made)] == [47.5]
    out = history(lambda own: Garm(own, GarmSettings([FIRM], 4)), Arrival(1, 0, 600), standard=out_between((0, 640)))
    # Five times 15 s are over at 107.5. The lock ends after 10 minutes, in the loop at 635.
    assert [created for _, created, _ in spans(out)] == [635 + 12.5]


def test_our_loop_sees_a_job_in_its_next_pass_and_deletes_the_machine_after_it() -> None:
    made = history(lambda own: GpuCi(own, OurSettings([SPOT], 4)), Arrival(1, 5, 600))
    # Idle passes are 32 s apart, other passes 12 s. The machine checks its GPU for 10.8 s. The manager reads the
    # machine's key in the passes at 44, 56, 68, 80, 104 s and so on, four in a minute. The runner starts 5 s after its
    # registration.
    [(_, created, ended)] = spans(made)
    assert (created, made.jobs[0].began_at, ended) == (32, 164 + 5, 169 + 600 + 10)
    assert made.machines[0].ready
    assert made.machines[0].deleted
    assert made.jobs[0].done_at == 769


def test_our_loop_stops_a_checked_machine_and_starts_it_for_a_job() -> None:
    made = history(lambda own: GpuCi(own, OurSettings([SPOT], 4, standby=1)), Arrival(1, 1000, 600))
    first, second = made.machines
    # The key of 110.8 is read at 132, and the stop takes 30 s. The job is seen at 1000, in an idle pass; the second
    # boot and check end at 1060.8, and its key is read at 1072.
    assert (first.created, first.stops, first.boots, first.ended) == (0, [(132 + 30, 1000)], 2, 1077 + 600 + 10)
    assert made.jobs[0].began_at == 1072 + 5
    # Another one is made for it in the same pass. Its disk is counted to the end of the day with jobs.
    assert (second.created, second.stops, second.ended) == (1000, [(1162, None)], None)
    found = outcome(made)
    assert found.machine_hours == pytest.approx((162 + 687 + 162) / 3600)
    assert found.disk_usd == pytest.approx((838 + DAY - 1162) / 3600 * 100 * 0.10 / 730)
    assert found.usd == pytest.approx(found.machine_hours * 0.5121 + found.disk_usd)


def test_where_a_stopped_machine_does_not_start_the_job_gets_another_one() -> None:
    settings = OurSettings([SPOT, FIRM], 4, standby=1)
    made = history(lambda own: GpuCi(own, settings), Arrival(1, 1000, 600), spot=out_between((900, 1100)))
    # The outage took nothing from the stopped machine. Its start is answered at 1010, and seen at 1012.
    assert [(each.place.market, each.created) for each in made.machines] == [("spot", 0), ("standard", 1012)]
    assert (made.machines[0].stops, made.machines[0].boots, made.machines[0].preempted) == ([(162, None)], 1, False)


def test_a_stopped_machine_leaves_its_room_to_others() -> None:
    made = World({SPOT: ALWAYS, FIRM: ALWAYS}, [], DAY, seed=1, depth=1)
    made.run(Policy)
    first = made.create(SPOT)
    assert first is not None
    first.state = "ready"
    assert not made.available(SPOT)
    made.stop(first)
    made._stopped(first)
    assert made.create(SPOT) is not None
    assert not made.start(first)


def test_a_webhook_brings_our_next_pass_forward() -> None:
    made = history(lambda own: GpuCi(own, OurSettings([SPOT], 4, hint=True)), Arrival(1, 5, 600))
    # The webhook, and the pause after a hint.
    assert [created for _, created, _ in spans(made)] == [5 + 1 + RateLimits(lambda: 0).hinted_interval_sec()]


def test_our_loop_runs_a_lost_job_again_on_a_machine_that_stays() -> None:
    made = history(
        lambda own: GpuCi(own, OurSettings([SPOT, FIRM], 4)), Arrival(1, 5, 600), spot=out_between((300, 400))
    )
    assert [place for place, *_ in spans(made)] == ["spot", "standard"]
    assert [(job.status, job.attempt) for job in made.jobs] == [("done", 2)]


def test_our_loop_tries_the_next_zone_if_a_zone_has_no_machine() -> None:
    made = history(lambda own: GpuCi(own, OurSettings([SPOT, FIRM], 4)), Arrival(1, 5, 60), spot=out_between((0, 60)))
    # The insert at 32 is answered at 42; the pass at 44 sees that.
    assert spans(made)[0][:2] == ("standard", 44)


QUIET = [Arrival(each.number, each.created - 9 * 3600, each.duration_sec, each.cancelled_after_sec)
         for each in week(4, 1) if 9 * 3600 <= each.created < 14 * 3600]  # fmt: skip


@pytest.fixture(scope="module")
def places() -> dict[Place, Series]:
    return availability.synthetic(4, 3)


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row.name}, {row.markets}")
def test_each_job_ends_once_and_each_machine_takes_one_job(row: Row, places: dict[Place, Series]) -> None:
    made = simulate(History(places, QUIET, 4, 1), row.make("us-west1"))
    found = outcome(made)
    states = Counter(job.status for job in made.jobs)
    assert len(made.jobs) == len(QUIET) > 20
    assert found.jobs == found.done + found.lost + found.expired == len(QUIET) - states["cancelled"]
    attempts = Counter(machine.job.number for machine in made.machines if machine.job)
    for job in made.jobs:
        began = job.began_at is not None
        assert attempts[job.number] == (job.reruns + 1 if job.status == "done" else attempts[job.number])
        assert began == (attempts[job.number] > 0)
    # Hours that cost are those of jobs that were done, and more.
    assert found.machine_hours > found.hours_done > 0
    assert found.usd == pytest.approx(sum(_usd(made)))
    if row.ours:
        assert _most_at_once(made) <= 16
        # What is left is on standby.
        left = [machine.state for machine in made.machines if machine.ended is None]
        assert left == ["stopped"] * (STANDBY if row.keeps_machines else 0)


def _usd(made: World) -> Sequence[float]:
    prices = {
        ("us-central1", "spot"): 0.5121, ("us-central1", "standard"): 0.8536,
        ("us-east1", "spot"): 0.479872, ("us-east1", "standard"): 0.853624,
        ("us-west1", "spot"): 0.479872, ("us-west1", "standard"): 0.853624,
    }  # fmt: skip
    disks = [
        (min(end or DAY, DAY) - min(began, DAY)) / 3600 * 10 / 730
        for each in made.machines
        for began, end in each.stops
    ]
    return disks + [
        (end - began) / 3600 * prices[(each.place.region, each.place.market)]
        for each in made.machines
        for began, end in _on(each, made.now)
    ]


def _on(machine: Machine, now: float) -> list[tuple[float, float]]:
    """Return the periods in which the machine was on: start and end of each."""
    stops = [(began, now if end is None else end) for began, end in machine.stops]
    begins = [machine.created, *(end for _, end in stops)]
    ends = [*(began for began, _ in stops), machine.ended or now]
    return list(zip(begins, ends, strict=True))


def _most_at_once(made: World) -> int:
    spans_on = [span for each in made.machines for span in _on(each, made.now)]
    changes = sorted(change for began, end in spans_on for change in ((began, 1), (end, -1)))
    alive = most = 0
    for _, change in changes:
        alive += change
        most = max(most, alive)
    return most


def test_a_total_is_over_all_jobs_of_its_histories() -> None:
    made = history(lambda own: GoogleCloud(own, GoogleSettings(SPOT)), Arrival(1, 0, 600), Arrival(2, 1000, 3600))
    found = total(Row("one", "spot", lambda region: lambda own: Policy(own)), [outcome(made)] * 2)
    assert (found.median_sec, found.longest_sec, found.jobs, found.done) == (111, 111, 4, 4)
    assert found.machine_hours == pytest.approx(2 * (701 + 3701) / 3600)


def test_synthetic_availability_has_the_recorded_shares_and_follows_from_its_seed(
    places: dict[Place, Series],
) -> None:
    assert availability.synthetic(4, 0.5) == availability.synthetic(4, 0.5) != availability.synthetic(5, 0.5)
    shares = [series.share for place, series in places.items() if place.market == "spot"]
    assert len(shares) == 9
    assert sum(shares) / 9 == pytest.approx(sum(availability.SHARES.values()) / 9, abs=0.2)


def test_recorded_availability_begins_with_the_requested_day(tmp_path: Path) -> None:
    for name in availability._RECORDED.values():
        content = {"metadata": {"gap_seconds": 43200}, "data": [1, 1, 0, 2, 0, 0]}
        (tmp_path / f"{name}_v100_1.json").write_text(json.dumps(content))
    series = availability.recorded(tmp_path, days=2, offset=1, seed=1)[SPOT]
    assert (list(series.up), list(series.outages())) == ([False, True, False, False], [2 * 43200])
    with pytest.raises(SystemExit, match="has 2 of the 4 values from day 2 on"):
        availability.recorded(tmp_path, days=2, offset=2, seed=1)
