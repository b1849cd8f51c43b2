"""google-cloud-aiplatform reads each request of rollouts and training jobs, and each kind of answer of the fakes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from gpu_ci.delivery.training.jobs import hash_of
from gpu_ci.delivery.training.settings import Settings, job_spec

from .fake_jobs import FakeJobs, jobs_of
from .fake_vertex import ENDPOINT, PARENT, FakeVertex, served
from .rollouts import BAD, Rollout
from .test_training import FULL, NAME, RESERVATION, RUN_1, settings

PYTHON = Path(__file__).parents[3] / ".venv-vertex" / "bin" / "python"
PROGRAM = Path(__file__).with_name("google_client.py")

pytestmark = pytest.mark.slow


def ask(fake: FakeVertex, requests: Any, name: str = ENDPOINT) -> Any:
    assert PYTHON.exists(), "google-cloud-aiplatform is not installed; run: make vertex-client"
    fake.deploy_sec = fake.undeploy_sec = 0
    with served(fake) as address:
        done = subprocess.run(
            [PYTHON, PROGRAM, address, name],
            input=json.dumps(requests), capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_client_reads_requests_and_answers() -> None:
    rollout = Rollout(latency={"limitMs": 200}, machine={"type": "g2-standard-8", "accelerator": "NVIDIA_L4"})
    rollout.start(BAD)
    rollout.watch()
    rollout.start()
    rollout.watch(20)
    fake = rollout.fake
    found = ask(fake, fake.requests)
    canary = fake.labels["gpu-ci-rollout"]
    assert {each[0] for each in fake.requests} == {"GET", "PATCH", "POST"}
    assert found == {
        "refused": [],
        "errors": [400, 400, found["errors"][2]],
        "split": {canary: 10, "5001": 90},
        "labels": fake.labels,
        "models": {"5001": 1, canary: 1},
        "deployed": "4242",
    }
    assert found["errors"][2] in (400, 409, 412)


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ({"deployedModel": {"modelName": "scan"}}, "modelName"),
        ({"deployedModel": {"dedicatedResources": {"machineSpec": {"acceleratorType": "nvidia-l4"}}}}, "nvidia-l4"),
        ({"deployedModel": {"dedicatedResources": {"flexStart": {}}}}, "flexStart"),
        ({"trafficSplit": {"0": "ten"}}, "ten"),
    ],
)
def test_client_refuses_a_wrong_request(body: Any, part: str) -> None:
    found = ask(FakeVertex(), [["POST", f"/v1/{ENDPOINT}:deployModel", {}, body]])
    [refused] = found["refused"]
    assert part in refused


def test_client_reads_requests_and_answers_of_training_jobs() -> None:
    fake = FakeJobs()
    jobs = jobs_of(fake)
    strategies = [
        {"strategy": "FLEX_START", "maxWaitMinutes": 60},
        {"strategy": "SPOT", "disableRetries": False},
        {"reservation": RESERVATION},
    ]
    for number, changed in enumerate(strategies):
        jobs.cancel([jobs.submit(hash_of(number), NAME, job_spec(settings(**changed)))])
    job = jobs.submit(RUN_1, NAME, job_spec(Settings.model_validate(FULL)))
    fake.sleep(100)
    fake.cancel_sec = 0.15  # each request takes 0.1 s of the fake's time
    wrong = ["POST", f"/v1/{PARENT}/customJobs", {}, {"jobSpec": {"timeout": "1s"}}]
    found = ask(fake, [*fake.requests, wrong], job["name"])
    [refused] = found.pop("refused")
    assert "timeout" in refused
    assert found == {
        "listed": [job["name"]],
        "states": ["JOB_STATE_RUNNING", "JOB_STATE_CANCELLING"],
        "labels": job["labels"],
        "accelerator": "NVIDIA_L4",
        "timeout": 5400,
    }
