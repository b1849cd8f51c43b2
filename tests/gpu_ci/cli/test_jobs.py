"""`gpu-ci jobs collect`: the jobs of pools on clusters, as GitHub lists them, become records of the cost report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from gpu_catalog import machine, price
from gpu_ci.machine_records import MachineRecord, Parts

from tests.gpu_ci.cli.conftest import Ask
from tests.gpu_ci.cli.json_server import json_server

Stack = Callable[..., str]
RUNNER = f"{{scaleSetName: a10g, image: ghcr.io/acme/runner@sha256:{'ab' * 32}, gpus: 2, cpus: 4, memoryGib: 16}}"
STACK = f"""\
config:
  gcp:project: acme-ci
  gpu-ci:site:
    github: {{owner: acme, runnerApp: {{id: 2, installationId: 12, privateKey: projects/acme-ci/secrets/k}}}}
  gpu-ci:github: {{runnerGroup: {{repositories: [kernels, models]}}}}
  gpu-ci:clusters: {{ci: {{region: us-east-1, subnets: {{us-east-1a: subnet-0a1b2c3d4e5f60001}}}}}}
  gpu-ci:pools:
    a10g:
      {{kind: eks-runners, clusterName: ci, instanceTypes: [g5.12xlarge], market: standard, max: 1, runner: {RUNNER}}}
"""
G5 = machine("g5.12xlarge")


def job(number: int = 1, **others: Any) -> dict[str, Any]:
    return {
        "id": number, "run_id": 10, "run_attempt": 1, "labels": ["a10g"], "runner_group_name": "gpu-dev",
        "runner_name": f"a10g-runner-{number}", "name": "test", "workflow_name": "CI", "conclusion": "success",
        "created_at": "2026-11-24T10:00:00Z", "started_at": "2026-11-24T10:05:00Z",
        "completed_at": "2026-11-24T10:35:00Z", **others,
    }  # fmt: skip


class GitHub:
    """GitHub's lists of runs and jobs, for the repository acme/kernels; acme/models has none."""

    def __init__(self) -> None:
        self.jobs: dict[int, list[dict[str, Any]]] = {}
        self.asked: list[str] = []
        self.status = 200

    def answer(self, path: str, _: bytes, authorization: str) -> tuple[int, Any]:
        assert authorization == "Bearer t0ken"
        url = urlsplit(path)
        query = {key: each[0] for key, each in parse_qs(url.query).items()}
        self.asked.append(f"{url.path} {query.get('created') or query.get('filter')} {query['page']}")
        if self.status != 200:
            return self.status, {"message": "Resource not accessible"}
        if url.path == "/repos/acme/models/actions/runs":
            return 200, {"workflow_runs": []}
        if url.path == "/repos/acme/kernels/actions/runs":
            page = int(query["page"])
            return 200, {"workflow_runs": [{"id": number} for number in list(self.jobs)[100 * page - 100 : 100 * page]]}
        return 200, {"jobs": self.jobs[int(url.path.split("/")[-2])]}


@pytest.fixture
def github(monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHub]:
    fake = GitHub()
    monkeypatch.setenv("GITHUB_TOKEN", "t0ken")
    with json_server(fake.answer) as address:
        monkeypatch.setenv("GITHUB_API_URL", address)
        yield fake


COLLECT = ("jobs", "collect", "Pulumi.dev.yaml", "--since", "2026-11-01")


def test_a_job_has_the_part_of_a_nodes_price_for_its_gpus_and_its_own_time(
    ask: Ask, stack: Stack, github: GitHub
) -> None:
    stack(text=STACK)
    github.jobs = {10: [job()]}
    answer = ask(*COLLECT)
    assert answer.code == 0, answer.err
    record = MachineRecord.model_validate_json(answer.out)
    on_demand = price(G5, "us-east-1", "standard")
    assert on_demand
    assert record.usd == pytest.approx(on_demand.usd_per_hour / 2 / 2), "half of the four GPUs for half an hour"
    assert record.parts(1.0) == Parts(job=1.0, overhead=0.0, lost=0.0, idle=0.0)
    assert (record.key, record.pool, record.supplier, record.incomplete) == (
        "a10g-runner-1-1", "a10g", "kubernetes", ["node"]
    )  # fmt: skip
    assert record.job
    assert (record.job.repository, record.job.id, record.job.conclusion) == ("acme/kernels", 1, "success")
    assert github.asked == [
        "/repos/acme/kernels/actions/runs >=2026-11-01 1",
        "/repos/acme/kernels/actions/runs/10/jobs all 1",
        "/repos/acme/models/actions/runs >=2026-11-01 1",
    ]
    assert answer.err == "acme/kernels: 1 jobs since 2026-11-01\nacme/models: 0 jobs since 2026-11-01\n"


@pytest.mark.parametrize(
    "others",
    [
        {"labels": ["a10g", "self-hosted"]},
        {"labels": ["ubuntu-latest"]},
        {"runner_group_name": "Default"},
        {"runner_name": None},
        {"completed_at": None},
        {"completed_at": "2026-11-24T10:04:59Z", "conclusion": "cancelled"},
    ],
)
def test_a_job_that_did_not_run_on_a_pool_or_has_not_ended_has_no_record(
    ask: Ask, stack: Stack, github: GitHub, others: dict[str, Any]
) -> None:
    stack(text=STACK)
    github.jobs = {10: [job(1, **others), job(2, labels=["A10G"])]}
    assert [MachineRecord.model_validate_json(each).id for each in ask(*COLLECT).out.splitlines()] == ["2"]


def test_a_job_that_github_says_to_start_before_its_creation_has_a_record(
    ask: Ask, stack: Stack, github: GitHub
) -> None:
    stack(text=STACK)
    github.jobs = {10: [job(started_at="2026-11-24T09:59:59Z")]}
    record = MachineRecord.model_validate_json(ask(*COLLECT).out)
    assert record.job
    assert (record.requested, record.on_sec) == (record.job.started, 35 * 60 + 1)


def test_all_pages_of_runs_are_read(ask: Ask, stack: Stack, github: GitHub) -> None:
    stack(text=STACK)
    github.jobs = {number: [job(number)] for number in range(1, 131)}
    assert len(ask(*COLLECT).out.splitlines()) == 130
    assert "/repos/acme/kernels/actions/runs >=2026-11-01 2" in github.asked


def test_a_stack_without_clusters_names_the_other_command(ask: Ask, stack: Stack, github: GitHub) -> None:
    stack()
    answer = ask(*COLLECT)
    assert answer.code == 2
    assert answer.err.startswith("Pulumi.dev.yaml: has no runners on a cluster, and no steps of Cloud Build\n")
    assert "gpu-ci manager records" in answer.err


def test_what_stops_the_collection_is_named_without_the_token(
    ask: Ask, stack: Stack, github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack(text=STACK)
    github.status = 403
    refused = ask(*COLLECT)
    github.status, github.jobs = 200, {10: [job(created_at="")]}
    unusable = ask(*COLLECT)
    wrong = ask(*COLLECT[:-1], "tomorrow")
    monkeypatch.delenv("GITHUB_TOKEN")
    missing = ask(*COLLECT)
    answers = (refused, unusable, wrong, missing)
    assert [each.code for each in answers] == [2, 2, 2, 2]
    assert refused.err.startswith(
        "GET /repos/acme/kernels/actions/runs?created=%3E%3D2026-11-01: GitHub answered 403\n"
    )
    assert unusable.err == "GitHub's answer about the job 1 of acme/kernels cannot be used\n"
    assert missing.err.startswith("GITHUB_TOKEN: is not set\n")
    assert not [each for each in answers if "t0ken" in each.err or "Traceback" in each.err]
