"""The manager's measurements, as lines of its log and for Prometheus."""

from __future__ import annotations

import http.client
import json
import re
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gpu_ci.machine_records import End, MachineRecord, Parts
from gpu_manager.cli.run_command import Log
from gpu_manager.decision.decide import decide
from gpu_manager.loop import Event, NewRecord, PassResult
from gpu_manager.memory import Memory
from gpu_manager.metrics.measure import CONCLUSIONS, LogLines, Meter, PoolState, Sample, conclusion_of
from gpu_manager.metrics.prometheus import Prometheus
from gpu_manager.model import Observation, Runner

from tests.manager.test_decide import NOW, POOL, job, machine, observe
from tests.manager.test_records import ID, at, ran

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/runner-manager.md"
OBJECTIVE = replace(POOL, wait_objective_sec=60)


RECORD = MachineRecord(
    manager="ci", pool="l4", machine="l4-a", id=ID, zone="us-central1-a", machine_type="g2-standard-8", market="spot",
    usd_per_hour=0.4, requested=at(0), on=[(at(10), at(310))], gone=at(340), end=End(reason="job-done"), job=ran().job,
)  # fmt: skip


class Loop:
    """Passes of one pool, each with the memory of the previous one."""

    def __init__(self) -> None:
        self.memory = Memory()
        self.meter = Meter([OBJECTIVE])

    def pass_(self, observation: Observation, *events: Event) -> tuple[PassResult, list[Sample]]:
        decision = decide([OBJECTIVE], observation, self.memory)
        self.memory = decision.memory
        done = PassResult(observation, decision, list(events))
        return done, self.meter.take(done)


def test_a_pool_is_its_queue_its_machines_by_state_and_their_price() -> None:
    loop = Loop()
    loop.pass_(
        observe(
            jobs=(job(1, age=90), job(2, age=30), job(3, status="in_progress", runner="l4-c")),
            runners=(Runner(1, "l4-b", True, False), Runner(2, "l4-c", True, True)),
            machines=(
                machine("l4-a"), machine("l4-b"), machine("l4-c"), machine("l4-d", "STOPPING"),
                machine("l4-e", "TERMINATED"), machine("l4-f", "STAGING"), machine("l4-g", zone="europe-west4-a"),
                machine("l4-h", "PENDING"),
            ),
        )
    )  # fmt: skip
    [state] = loop.meter.states
    machines = {"waiting": 1, "booting": 3, "idle": 1, "busy": 1, "stopping": 1, "standby": 0, "off": 1}
    assert state == PoolState("l4", 2, 90.0, 1, machines, pytest.approx(5 * 0.4))


def test_a_boot_and_a_wait_are_measured_once() -> None:
    loop = Loop()
    waiting = job(1, age=5)
    loop.pass_(observe(jobs=(waiting,), machines=(machine("l4-a"),)))
    idle = (Runner(1, "l4-a", True, False),)
    _, samples = loop.pass_(observe(now=NOW + 70, jobs=(waiting,), machines=(machine("l4-a"),), runners=idle))
    assert samples == [Sample("boot", "l4", "l4-a", 70.0)]
    running = replace(job(1, age=5, status="in_progress", runner="l4-a"), started_unix=NOW + 72)
    now = {"now": NOW + 80, "github_unix": NOW + 80, "machines": (machine("l4-a"),)}
    _, samples = loop.pass_(observe(jobs=(running,), runners=(Runner(1, "l4-a", True, True),), **now))
    assert samples == [Sample("wait", "l4", "example-org/kernels#1", 77.0)]
    assert loop.pass_(observe(jobs=(running,), runners=(Runner(1, "l4-a", True, True),), **now))[1] == []


@pytest.mark.parametrize("listed", [True, False])
def test_a_preemption_is_counted_once(listed: bool) -> None:
    loop = Loop()
    loop.pass_(observe(machines=(machine("l4-a"),)))
    left = (machine("l4-a"),) if listed else ()
    taken = observe(machines=left, preempted=frozenset({"l4-a"}))
    assert loop.pass_(taken)[1] == [Sample("preempted", "l4", "l4-a")]
    assert loop.pass_(taken)[1] == []


def test_the_wait_of_a_job_that_no_pass_saw_is_measured_with_the_record_of_its_machine() -> None:
    loop = Loop()
    done = PassResult(observe(), decide([OBJECTIVE], observe(), Memory()))
    done.records = [NewRecord(RECORD, job_was_seen=seen, boot_was_seen=True) for seen in (True, False)]
    assert loop.meter.take(done) == [Sample("wait", "l4", "example-org/kernels#1", 100.0)]


def test_the_boot_of_a_machine_whose_runner_no_pass_saw_is_measured_with_its_record() -> None:
    loop = Loop()
    done = PassResult(observe(), decide([OBJECTIVE], observe(), Memory()))
    twice = RECORD.model_copy(update={"on": [(at(-50), at(-20)), *RECORD.on, (at(320), at(330))]})
    late = RECORD.model_copy(update={"on": [(at(101), at(310))]})
    done.records = [NewRecord(each, True, boot_was_seen=False) for each in (RECORD, twice, late)]
    done.records += [NewRecord(RECORD, True, True), NewRecord(RECORD.model_copy(update={"job": None}), True, False)]
    assert loop.meter.take(done) == [Sample("boot", "l4", "l4-a", 90.0)] * 2


def test_the_boot_of_a_machine_that_the_first_list_shows_with_its_runner_is_measured_from_its_start() -> None:
    loop = Loop()
    loop.pass_(observe())
    fast = {"machines": (machine("l4-a", on_unix=NOW + 5),), "runners": (Runner(1, "l4-a", True, False),)}
    assert loop.pass_(observe(now=NOW + 60, **fast))[1] == [Sample("boot", "l4", "l4-a", 55.0)]
    assert loop.pass_(observe(now=NOW + 90, **fast))[1] == []
    unknown = {"machines": (machine("l4-b"),), "runners": (Runner(2, "l4-b", True, False),)}
    assert loop.pass_(observe(now=NOW + 120, **unknown))[1] == []


def test_prometheus_counts_the_money_by_part_and_the_ends_of_machines_and_jobs() -> None:
    metrics, loop = Prometheus(), Loop()
    metrics.add([OBJECTIVE])
    done = PassResult(observe(), decide([OBJECTIVE], observe(), Memory()))
    ends = [*(f"forged-{'x' * (number % 26)}{chr(97 + number // 26)}" for number in range(100)), "Not a reason"]
    records = [RECORD, *(RECORD.model_copy(update={"end": End(reason=each), "job": None}) for each in ends)]
    done.records = [NewRecord(each, job_was_seen=True, boot_was_seen=True) for each in records]
    metrics.take(loop.meter, done, loop.meter.take(done))

    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(f"gpu_ci_{name}_total", {"pool": "l4", **labels})

    usd = RECORD.usd or 0.0
    assert [value("cost_usd", part=part) for part in Parts._fields] == [
        pytest.approx(usd * 2 / 3), pytest.approx(usd / 3), 0.0, pytest.approx(usd * len(ends))
    ]  # fmt: skip
    assert [value("jobs", conclusion=each) for each in CONCLUSIONS] == [1.0, 0.0, 0.0, 0.0, 0.0]
    assert value("machines_ended", reason="job-done") == 1.0
    [counter] = [each for each in metrics.registry.collect() if each.name == "gpu_ci_machines_ended"]
    reasons = {sample.labels["reason"] for sample in counter.samples}
    assert ("other" in reasons, len(reasons) <= 61, "Not a reason" in reasons) == (True, True, False)


@pytest.mark.parametrize(
    ("conclusion", "taken_back", "expected"),
    [
        ("success", True, "success"),
        ("failure", True, "lost"),
        ("failure", False, "failure"),
        ("timed_out", False, "other"),
    ],
)
def test_a_job_is_lost_with_a_machine_that_was_taken_back(conclusion: str, taken_back: bool, expected: str) -> None:
    assert RECORD.job is not None
    job = RECORD.job.model_copy(update={"conclusion": conclusion})
    assert conclusion_of(RECORD.model_copy(update={"job": job, "taken_back": taken_back})) == expected


def test_inserts_their_failures_and_reruns_are_counted_by_their_events() -> None:
    events = (
        Event("insert", "l4-a", "in a", "l4"),
        Event("insert-failed", "l4-b", "none", "l4", "no-capacity"),
        Event("rerun", "example-org/kernels run 1"),
        Event("delete", "l4-c", "off", "l4"),
    )
    assert Loop().pass_(observe(), *events)[1] == [
        Sample("insert", "l4", "l4-a"),
        Sample("insert-failed", "l4", "l4-b", code="no-capacity"),
        Sample("rerun", "", "example-org/kernels run 1"),
    ]


def test_the_log_has_the_state_of_each_pool_once_a_minute_and_marks_complete_passes() -> None:
    loop, clock = Loop(), [0.0]
    lines = LogLines(loop.meter, lambda: clock[0])

    def written(observation: Observation) -> list[tuple[str, dict[str, Any]]]:
        done, samples = loop.pass_(observation)
        return [(event, fields) for event, _, fields in lines.of(done, samples)]

    whole = observe(jobs=(job(1, age=90),), github_requests_left=4321)
    state = {
        "pool": "l4", "queued": 1, "queueAgeSec": 90.0, "jobsOverObjective": 1, "usdPerHour": 0.0,
        "machines": dict.fromkeys(("waiting", "booting", "idle", "busy", "stopping", "standby", "off"), 0),
    }  # fmt: skip
    assert written(whole) == [
        ("pass", {"share": 1, "whole": True, "sinceWholeSec": 0.0, "githubRequestsLeft": 4321}),
        ("pool", state),
    ]
    clock[0] = 59
    assert written(whole) == []
    clock[0] = 130
    # An unknown queue is not an empty queue, so it has no line.
    assert written(observe(jobs=None)) == [
        ("pass", {"share": 1, "whole": False, "sinceWholeSec": 71.0, "githubRequestsLeft": 4321})
    ]


def test_a_line_has_the_fields_that_cloud_logging_knows() -> None:
    lines: list[str] = []
    log = Log(as_json=True, write=lines.append, manager="prod")
    log.line("insert-failed", "l4-a", "no capacity", pool="l4", code="no-capacity")
    log.line("stop", "prod", "")
    failed, stopped = map(json.loads, lines)
    assert failed.pop("time").endswith("+00:00")
    assert failed == {
        "severity": "WARNING",
        "message": "insert-failed l4-a: no capacity",
        "event": "insert-failed",
        "subject": "l4-a",
        "detail": "no capacity",
        "pool": "l4",
        "code": "no-capacity",
        "logging.googleapis.com/labels": {"gpu-ci-manager": "prod"},
    }
    assert (stopped["severity"], stopped["message"]) == ("INFO", "stop prod")


def test_prometheus_reads_the_same_numbers_on_this_computer_alone() -> None:
    loop = Loop()
    prometheus = Prometheus()
    prometheus.add([OBJECTIVE])
    port = prometheus.serve(0)
    for observation, events in (
        (observe(jobs=(job(1, age=90),), machines=(machine("l4-a"),), github_requests_left=4321), ()),
        (
            observe(now=NOW + 70, machines=(machine("l4-a"),), runners=(Runner(1, "l4-a", True, False),)),
            (Event("insert-failed", "l4-b", "none", "l4", "over-quota"), Event("rerun", "run 1")),
        ),
    ):
        done, samples = loop.pass_(observation, *events)
        prometheus.take(loop.meter, done, samples)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        text = answer.read().decode()
    found = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert {key: found[key] for key in (
        'gpu_ci_jobs_queued{pool="l4"}', 'gpu_ci_machines{pool="l4",state="idle"}', 'gpu_ci_usd_per_hour{pool="l4"}',
        'gpu_ci_machine_boot_seconds_sum{pool="l4"}', 'gpu_ci_inserts_failed_total{code="over-quota",pool="l4"}',
        "gpu_ci_reruns_total", "gpu_ci_github_requests_left",
        # Without an event, too, because the first event would otherwise be no increase.
        'gpu_ci_inserts_failed_total{code="refused",pool="l4"}', 'gpu_ci_job_wait_seconds_count{pool="l4"}',
    )} == {
        'gpu_ci_jobs_queued{pool="l4"}': "0.0", 'gpu_ci_machines{pool="l4",state="idle"}': "1.0",
        'gpu_ci_usd_per_hour{pool="l4"}': "0.4", 'gpu_ci_machine_boot_seconds_sum{pool="l4"}': "70.0",
        'gpu_ci_inserts_failed_total{code="over-quota",pool="l4"}': "1.0", "gpu_ci_reruns_total": "1.0",
        "gpu_ci_github_requests_left": "4321.0",
        'gpu_ci_inserts_failed_total{code="refused",pool="l4"}': "0.0",
        'gpu_ci_job_wait_seconds_count{pool="l4"}': "0.0",
    }  # fmt: skip
    assert float(found["gpu_ci_since_whole_pass_seconds"]) < 60


def test_a_loop_that_never_had_a_whole_pass_counts_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr("gpu_manager.metrics.prometheus.uptime", lambda: clock[0])
    prometheus, whole, broken = Prometheus(), Loop(), Loop()
    clock[0] += 500
    prometheus.take(whole.meter, *whole.pass_(observe()))
    prometheus.take(broken.meter, *broken.pass_(observe(machines=None)))
    assert prometheus.registry.get_sample_value("gpu_ci_since_whole_pass_seconds") == 500


def test_the_page_has_a_row_for_each_metric() -> None:
    names = re.findall(r"^\| `(gpu_ci_\w+)` \|", PAGE.read_text(), re.MULTILINE)
    families = [family.name for family in Prometheus().registry.collect()]
    assert sorted(name.removesuffix("_total") for name in names) == sorted(families)
    assert len(families) == 18


@pytest.mark.parametrize(("host", "status"), [("127.0.0.1:{}", 200), ("localhost:{}", 200), ("attacker.example", 403)])
def test_metrics_are_for_this_computer_alone(host: str, status: int) -> None:
    port = Prometheus().serve(0)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/metrics", headers={"Host": host.format(port)})
    answer = connection.getresponse()
    assert (answer.status, b"gpu_ci_" in answer.read()) == (status, status == 200)
