"""Training jobs: their requests, and submit, wait and cancel with faults."""

from __future__ import annotations

import random
from typing import Any

import pytest
from gpu_ci.delivery.training.jobs import LATE_SEC, RUN, Job, OtherSettingsError, hash_of, state_of
from gpu_ci.delivery.training.settings import ACCELERATORS, ATTEMPTS, MARKETS, Settings, job_spec, worst_case
from gpu_ci.gcp.gate.google_service import ApiError
from pulumi_sandbox.providers.gcp import discovery

from .fake_jobs import FakeJobs, jobs_of
from .fake_vertex import Killed

IMAGE = f"europe-west4-docker.pkg.dev/acme/train/scan@sha256:{'0' * 64}"
NAME = "acme/scan 1 train 1"
REQUIRED = {"image": IMAGE, "machineType": "g2-standard-12", "timeoutMinutes": 90}
RESERVATION = "projects/acme/zones/europe-west4-b/reservations/train"
FULL = REQUIRED | {
    "command": ["python", "train.py"], "args": ["--epochs", "10"], "env": {"DATA": "gs://acme/scan"}, "replicas": 4,
    "serviceAccount": "train@acme.iam.gserviceaccount.com", "network": "projects/1/global/networks/train",
}  # fmt: skip
RUN_1 = hash_of("run 1")


def settings(**changed: Any) -> Settings:
    return Settings.model_validate(REQUIRED | changed)


def submit(fake: FakeJobs, run: str = RUN_1, **changed: Any) -> Job:
    return jobs_of(fake).submit(run, NAME, job_spec(settings(**changed)))


def schema(name: str) -> Any:
    return discovery.document("aiplatform.v1")["schemas"][f"GoogleCloudAiplatformV1{name}"]["properties"]


# Requests


@pytest.mark.parametrize(
    "given",
    [
        REQUIRED,
        FULL,
        REQUIRED | {"strategy": "FLEX_START", "maxWaitMinutes": 120},
        REQUIRED | {"strategy": "SPOT", "disableRetries": False},
        REQUIRED | {"reservation": RESERVATION},
        REQUIRED | {"machineType": "n1-standard-8+nvidia-tesla-t4x2"},
    ],
)
def test_request_fits_the_discovery_document(given: dict[str, Any]) -> None:
    fake = FakeJobs()
    jobs_of(fake).submit(RUN_1, NAME, job_spec(Settings.model_validate(given)))
    assert len(fake.posts()) == 1


def test_request() -> None:
    assert job_spec(Settings.model_validate(FULL)) == {
        "workerPoolSpecs": [
            {
                "machineSpec": {
                    "machineType": "g2-standard-12",
                    "acceleratorType": "NVIDIA_L4",
                    "acceleratorCount": 1,
                },
                "containerSpec": {
                    "imageUri": IMAGE,
                    "command": ["python", "train.py"],
                    "args": ["--epochs", "10"],
                    "env": [{"name": "DATA", "value": "gs://acme/scan"}],
                },
                "replicaCount": count,
            }
            for count in ("1", "3")
        ],
        "scheduling": {"strategy": "STANDARD", "timeout": "5400s", "disableRetries": True},
        "serviceAccount": "train@acme.iam.gserviceaccount.com",
        "network": "projects/1/global/networks/train",
    }


def test_request_with_a_reservation_and_with_a_wait() -> None:
    [pool] = job_spec(settings(reservation=RESERVATION))["workerPoolSpecs"]
    assert pool["machineSpec"]["reservationAffinity"] == {
        "reservationAffinityType": "SPECIFIC_RESERVATION",
        "key": "compute.googleapis.com/reservation-name",
        "values": [RESERVATION],
    }
    assert job_spec(settings(strategy="FLEX_START", maxWaitMinutes=120))["scheduling"]["maxWaitDuration"] == "7200s"


def test_names_of_vertex_ai() -> None:
    field = schema("MachineSpec")["acceleratorType"]
    gpus = {each for each in field["enum"] if each.startswith("NVIDIA") and each != "NVIDIA_TESLA_K80"}
    assert set(ACCELERATORS.values()) == gpus
    strategies = dict(
        zip(*(schema("Scheduling")["strategy"][each] for each in ("enum", "enumDeprecated")), strict=True)
    )
    assert {each for each, is_old in strategies.items() if not is_old} == {*MARKETS, "STRATEGY_UNSPECIFIED"}


# Cost


def test_worst_case_cost() -> None:
    one = worst_case(settings(), "europe-west4")
    assert one.usd
    assert one.text.startswith(f"${one.usd:,.2f} and the fee of Vertex AI: 1.5 h, 1 x g2-standard-12, $")
    assert "the standard price of Compute Engine in europe-west4 of 20" in one.text
    double = worst_case(settings(replicas=2, disableRetries=False), "europe-west4")
    assert double.usd == pytest.approx(one.usd * 2 * ATTEMPTS, abs=0.05)
    assert "4 attempts" in double.text
    spot = worst_case(settings(strategy="SPOT"), "europe-west4")
    assert spot.usd is not None
    assert spot.usd < one.usd


def test_unknown_price() -> None:
    cost = worst_case(settings(strategy="FLEX_START"), "europe-west4")
    assert cost.usd is None
    assert cost.text == "unknown: the catalog has no flex-start price in europe-west4; 1.5 h, 1 x g2-standard-12"


# Submit


def test_repeated_submit_returns_the_same_job() -> None:
    fake = FakeJobs()
    first, second, other = submit(fake), submit(fake), submit(fake, hash_of("run 2"))
    assert first["name"] == second["name"] != other["name"]
    assert len(fake.posts()) == 2
    fake.sleep(4000)
    assert submit(fake)["name"] == first["name"], "also after its end"


def test_other_settings_of_one_run_are_refused() -> None:
    fake = FakeJobs()
    first = submit(fake)
    with pytest.raises(OtherSettingsError, match=first["name"]):
        submit(fake, replicas=2)
    assert len(fake.posts()) == 1


def fault_of_create(fake: FakeJobs, *faults: str) -> None:
    """Answer the first requests to create a job with these faults."""
    left = list(faults)
    fake.fault = lambda number, method, path: (
        left.pop(0) if left and method == "POST" and path.endswith("/customJobs") else None
    )


@pytest.mark.parametrize("late_sec", [0, 50])
@pytest.mark.parametrize(
    ("fault", "posts"), [("lost-request", 2), ("lost-answer", 1), ("quota", 2), ("outage", 2)]
)  # fmt: skip
def test_fault_of_the_create(fault: str, posts: int, late_sec: float) -> None:
    fake = FakeJobs()
    fake.list_late_sec = late_sec
    fault_of_create(fake, fault)
    begin = fake.now
    job = submit(fake)
    assert (list(fake.jobs), len(fake.posts())) == ([job["name"]], posts)
    # A request above a quota was not executed, so that no list is awaited before the next one.
    assert fault != "quota" or fake.now - begin < late_sec + 15


def test_quota_is_not_waited_for_without_end() -> None:
    fake = FakeJobs()
    fault_of_create(fake, *["quota"] * 99)
    with pytest.raises(ApiError, match="Quota exceeded"):
        submit(fake)
    assert fake.jobs == {}


def test_refused_create_is_not_repeated() -> None:
    fake = FakeJobs()
    fault_of_create(fake, "forbidden")
    with pytest.raises(ApiError, match="denied"):
        submit(fake)
    assert len(fake.posts()) == 1


def test_second_job_of_a_late_list_is_cancelled() -> None:
    fake = FakeJobs()
    fake.list_late_sec = LATE_SEC + 30
    fault_of_create(fake, "lost-answer")
    job = submit(fake)
    assert len(fake.jobs) == 2
    assert fake.active() == [job["name"]] == [next(iter(fake.jobs))]


def test_quota_after_a_lost_answer_still_waits_for_the_list() -> None:
    fake = FakeJobs()
    fake.list_late_sec = LATE_SEC + 30
    fault_of_create(fake, "lost-answer", "quota")
    assert [submit(fake)["name"]] == list(fake.jobs)


def test_second_job_after_a_kill_is_cancelled() -> None:
    fake = FakeJobs()
    fake.list_late_sec = 50
    fault_of_create(fake, "kill-after")
    with pytest.raises(Killed):
        submit(fake)
    job = submit(fake)
    assert len(fake.jobs) == 2
    assert fake.active() == [job["name"]] == [next(iter(fake.jobs))]


def test_wait_cancels_a_second_job() -> None:
    fake = FakeJobs()
    fake.list_late_sec = 200
    first, second = submit(fake), submit(fake)
    assert len(fake.active()) == 2
    said: list[str] = []
    end = jobs_of(fake, said).wait(second["name"], fake.now + 9999)
    assert (end.job["name"], state_of(end.job), fake.active()) == (first["name"], "SUCCEEDED", [first["name"]])
    assert any(f"{second['name']} is a second job" in each for each in said)


def test_submit_returns_when_a_list_has_the_job() -> None:
    fake = FakeJobs()
    submit(fake)
    assert fake.now - fake._begin[next(iter(fake.jobs))] < 1
    fake = FakeJobs()
    fake.list_late_sec = 50
    assert submit(fake)["name"] == submit(fake)["name"]
    assert len(fake.posts()) == 1


FAULTS = ("lost-request", "lost-answer", "quota", "outage", "kill-before", "kill-after")


@pytest.mark.parametrize("seed", range(100))
def test_never_two_jobs_for_one_label(seed: int) -> None:
    """With lists that are late by less than LATE_SEC, only a submit that did not end can leave a second job.

    The next submit cancels it.
    """
    draw = random.Random(seed)
    fake = FakeJobs()
    fake.list_late_sec = draw.choice([0, 20, LATE_SEC - 5])
    rate = draw.choice([0.1, 0.3])
    fake.fault = lambda number, method, path: draw.choice(FAULTS) if draw.random() < rate else None
    unfinished = 0
    for _ in range(3):
        try:
            name = submit(fake)["name"]
        except (Killed, ApiError):
            unfinished += 1
            fake.sleep(draw.choice([1, 60]))
            continue
        assert len(fake.jobs) <= (1 + unfinished if fake.list_late_sec else 1)
        fake.sleep(draw.choice([0, 30]))
    fake.fault = lambda number, method, path: None
    name = submit(fake)["name"]
    assert fake.active() == [name] == [next(iter(fake.jobs))]
    end = jobs_of(fake).wait(name, fake.now + 9999)
    assert (end.job["name"], state_of(end.job), len(fake.active())) == (name, "SUCCEEDED", 1)
    assert fake.jobs[name]["labels"][RUN] == RUN_1


# Wait


@pytest.mark.parametrize("result", ["SUCCEEDED", "FAILED", "EXPIRED", "PARTIALLY_SUCCEEDED"])
def test_wait(result: str) -> None:
    fake = FakeJobs()
    fake.end = result
    said: list[str] = []
    name = submit(fake)["name"]
    before = len(fake.requests)
    end = jobs_of(fake, said).wait(name, fake.now + 9999)
    assert (state_of(end.job), end.is_time_over) == (result, False)
    assert [each.partition(":")[0] for each in dict.fromkeys(said)] == ["QUEUED", "PENDING", "RUNNING", result]
    assert said.count(f"RUNNING: {name}") == 4, "each 5 minutes"
    polls = sum(path.endswith(name) for _, path, _, _ in fake.requests[before:])
    assert 1260 / 60 <= polls <= 1260 / 30
    assert jobs_of(fake).wait(name, fake.now).is_time_over is False


def test_wait_until_the_time_is_over() -> None:
    fake = FakeJobs()
    name = submit(fake)["name"]
    begin = fake.now
    end = jobs_of(fake).wait(name, begin + 300)
    assert (state_of(end.job), end.is_time_over) == ("RUNNING", True)
    assert fake.now - begin == pytest.approx(300, abs=5)
    assert len(fake.active()) == 1


def test_wait_for_a_job_that_is_cancelled_meanwhile() -> None:
    fake = FakeJobs()
    name = submit(fake)["name"]

    def cancel(number: int, method: str, path: str) -> None:
        if number == 15:
            fake.cancel(name)

    fake.fault = cancel
    end = jobs_of(fake).wait(name, fake.now + 9999)
    assert (state_of(end.job), end.is_time_over) == ("CANCELLED", False)


def test_wait_survives_an_outage_and_ends_at_a_long_one() -> None:
    fake = FakeJobs()
    fake.run_sec = 6000
    name = submit(fake)["name"]
    begin = fake.now
    fake.fault = lambda number, method, path: "outage" if 100 < fake.now - begin < 700 or number % 3 == 0 else None
    assert state_of(jobs_of(fake).wait(name, begin + 9999).job) == "SUCCEEDED"
    fake.fault = lambda number, method, path: "outage"
    end = jobs_of(fake).wait(name, fake.now + 300)
    assert end.is_time_over
    with pytest.raises(ApiError, match="unavailable"):
        jobs_of(fake).wait(name, fake.now + 99999)
    fake.fault = lambda number, method, path: "forbidden"
    begin = fake.now
    with pytest.raises(ApiError, match="denied"):
        jobs_of(fake).wait(name, begin + 99999)
    assert fake.now - begin < 1


# Cancel


def test_cancel_is_safe_to_repeat() -> None:
    fake = FakeJobs()
    job = submit(fake)
    for _ in range(3):
        [found] = jobs_of(fake).cancel(jobs_of(fake).of_name(job["name"]))
        assert state_of(found) in ("CANCELLING", "CANCELLED")
        fake.sleep(60)
    assert fake.state(job["name"]) == "CANCELLED"
    posts = [path for method, path, _, _ in fake.requests if path.endswith(":cancel")]
    assert len(posts) == 1
    both = jobs_of(fake).cancel([fake.jobs[job["name"]], submit(fake, hash_of("run 2"))])
    assert [state_of(each) for each in both] == ["CANCELLED", "CANCELLING"]


def test_cancel_of_a_job_that_ends_meanwhile() -> None:
    fake = FakeJobs()
    job = submit(fake)
    fake.sleep(4000)
    [found] = jobs_of(fake).cancel([job | {"state": "JOB_STATE_RUNNING"}])
    assert state_of(found) == "SUCCEEDED"


def test_cancel_with_a_lost_answer_and_a_late_list() -> None:
    fake = FakeJobs()
    fake.list_late_sec = 50
    submit(fake)
    left = ["lost-answer", "lost-request"]
    fake.fault = lambda number, method, path: left.pop() if left and path.endswith(":cancel") else None
    jobs = jobs_of(fake)
    [found] = jobs.cancel(jobs.look(RUN_1, LATE_SEC))
    assert state_of(found) == "CANCELLING", "the command waits for it"
    assert fake.active() == []
