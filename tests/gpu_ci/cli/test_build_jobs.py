"""`gpu-ci jobs collect` for Cloud Build: builds of the sandbox, through Google's own client."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from gpu_catalog import price
from gpu_ci.cli import google_api
from gpu_ci.machine_records import MachineRecord, Parts
from pulumi_sandbox.providers.machines.local_services import Call
from pulumi_sandbox.world.store import World

from tests.gpu_ci.cli.conftest import Ask
from tests.gpu_ci.cli.image_cloud import OWNER, PLACE, ImageCloud

Stack = Callable[..., str]
STACK = """\
config:
  gcp:project: acme-ci
  gpu-ci:site: {subnetworks: {us-central1: projects/acme-ci/regions/us-central1/subnetworks/ci}}
  gpu-ci:pools:
    tests: {kind: cloud-build-gpu, machineType: g2-standard-8, zones: [us-central1-a], market: spot, max: 2}
"""
COLLECT = ("jobs", "collect", "Pulumi.dev.yaml", "--since", "2026-11-01")
BEGIN = datetime(2026, 11, 20, 10, tzinfo=UTC)
# It writes what the environment of the step has, as the program of a step does.
PROGRAM = "import os, pathlib\npathlib.Path(os.environ['BUILDER_OUTPUT'], 'output').write_text(os.environ['REPORT'])\n"


def used(**others: Any) -> dict[str, Any]:
    """Return a step's report about a machine: an hour, of which the command ran for half an hour."""
    times = {name: BEGIN.timestamp() + 60 * minute for name, minute in
             {"requested": 5, "started": 20, "completed": 50, "gone": 65}.items()}  # fmt: skip
    return {"machine": "tests-dev-build-1a2b3c", "id": "77", "zone": "us-central1-a", "bridge": "tests-dev",
            "machineType": "g2-standard-8", "market": "spot", **times, **others}  # fmt: skip


class CloudBuild:
    """The sandbox's Cloud Build, whose clock is that of the test, with a program that stands for the step's."""

    def __init__(self, folder: Path) -> None:
        self.world = World(folder / "world.db")
        self.cloud = ImageCloud(self.world)
        self.cloud.now = BEGIN
        self.program = folder / "program"
        package = self.program / "gpu_ci" / "gcp" / "gpu_bridge"
        package.mkdir(parents=True)
        for each in (package, package.parent, package.parent.parent):
            (each / "__init__.py").touch()
        (package / "__main__.py").write_text(PROGRAM)

    def run(self, *reports: Any, code: int = 0, **build: Any) -> dict[str, Any]:
        """Run a build with a step for each report, and return the build."""
        steps = [
            {"id": f"step-{number}", "entrypoint": "python",
             "args": ["-m", "gpu_ci.gcp.gpu_bridge", "run", "--settings", "gs://b/bridge.json", "--", "true"],
             "env": [f"PYTHONPATH={self.program}", f"REPORT={each if isinstance(each, str) else json.dumps(each)}"]}
            for number, each in enumerate(reports)
        ]  # fmt: skip
        steps.append({"script": f"#!/bin/sh\nexit {code}\n"})
        answer = self._call("POST", f"{PLACE}/builds", {"steps": steps, **build})
        self.cloud.builds.wait(60)
        return self._call("GET", answer["metadata"]["build"]["name"])

    def change(self, build: dict[str, Any], **fields: str) -> None:
        """Change fields of a build. In the sandbox, a build waits for no worker."""
        self.world.set_setting(f"cloudBuild:{build['id']}", json.dumps(build | fields))

    def _call(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        answer = self.cloud.builds.answer(Call(method, f"/v1/{path}", {}, OWNER, body))
        assert answer.status == 200, answer.body
        found: dict[str, Any] = json.loads(answer.body)
        return found


@pytest.fixture
def builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CloudBuild]:
    found = CloudBuild(tmp_path)
    monkeypatch.setattr(google_api, "connect", found.cloud.connect)
    yield found
    found.cloud.builds.close()
    found.world.close()


TRIGGERED = {
    "buildTriggerId": "t-1",
    "substitutions": {"REPO_FULL_NAME": "acme/kernels", "TRIGGER_NAME": "gpu-tests"},
}


def test_a_machine_of_a_step_has_its_time_its_price_and_the_repository_of_the_trigger(
    ask: Ask, stack: Stack, builds: CloudBuild
) -> None:
    stack(text=STACK)
    build = builds.run([used()], **TRIGGERED)
    assert build["status"] == "SUCCESS"
    answer = ask(*COLLECT)
    assert answer.code == 0, answer.err
    record = MachineRecord.model_validate_json(answer.out)
    spot = price("g2-standard-8", "us-central1", "spot")
    assert spot
    assert (record.usd, record.incomplete) == (pytest.approx(spot.usd_per_hour), [])
    assert record.parts(2.0) == Parts(job=1.0, overhead=1.0, lost=0.0, idle=0.0)
    assert (record.key, record.pool, record.supplier, record.gpu) == (
        "tests-dev-build-1a2b3c-77", "tests", "google-cloud-build", "nvidia-l4"
    )  # fmt: skip
    assert record.job
    assert (record.job.repository, record.job.workflow, record.job.name, record.job.conclusion) == (
        "acme/kernels", "gpu-tests", "step-0", "success",
    )  # fmt: skip
    assert (record.job.created, record.job.started) == (BEGIN, BEGIN + timedelta(minutes=20))
    assert answer.err == (
        "acme-ci global: 0 machines of builds since 2026-11-01\n"
        "acme-ci us-central1: 1 machines of builds since 2026-11-01\n"
    )


def test_a_build_of_no_trigger_names_no_repository_although_its_user_claims_one(
    ask: Ask, stack: Stack, builds: CloudBuild
) -> None:
    stack(text=STACK)
    builds.run([used()], substitutions=TRIGGERED["substitutions"], code=7)
    job = MachineRecord.model_validate_json(ask(*COLLECT).out).job
    assert job
    assert (job.repository, job.conclusion) == ("cloud-build/acme-ci", "failure")


def test_a_job_waits_as_long_as_its_build_was_in_the_queue_and_no_running_build_counts(
    ask: Ask, stack: Stack, builds: CloudBuild
) -> None:
    stack(text=STACK)
    builds.change(builds.run([used()]), createTime="2026-11-20T09:58:00Z")
    builds.change(builds.run([used()]), status="WORKING")
    answer = ask(*COLLECT)
    job = MachineRecord.model_validate_json(answer.out).job
    assert job
    assert job.created == BEGIN - timedelta(minutes=2)
    assert "reported no machine" not in answer.err


def test_machines_of_all_steps_and_attempts_count_and_those_of_other_pools_do_not(
    ask: Ask, stack: Stack, builds: CloudBuild
) -> None:
    stack(text=STACK)
    twice = [used(id="1", takenBack=True), used(id="2", market="standard")]
    others = [used(id="4", bridge="tests-prod"), used(id="5", machine="l4-0a1b2c3d")]
    builds.run(twice, [used(id="3"), *others], **TRIGGERED, code=1)
    found = [MachineRecord.model_validate_json(line) for line in ask(*COLLECT).out.splitlines()]
    assert [(each.id, each.market, each.is_lost) for each in found] == [
        ("1", "spot", True), ("2", "standard", False), ("3", "spot", False),
    ]  # fmt: skip
    assert found[1].usd_per_hour != found[0].usd_per_hour


@pytest.mark.parametrize(
    "report",
    ["", "no JSON", "5", "[5]", "[{}]", json.dumps([used(gone="soon")]), json.dumps([used(gone=5)]),
     json.dumps([used(zone=None)]), json.dumps([used(market="free")]), json.dumps([used(started=1e300)]),
     json.dumps([used(machine=5)]), json.dumps([used(bridge=[])]), json.dumps([used(machineType={})]), "[" * 2000,
     json.dumps([used(gone=float("nan"))]), "[" + "9" * 4000 + "]"],
)  # fmt: skip
def test_what_a_build_writes_instead_of_a_report_is_counted_and_stops_nothing(
    ask: Ask, stack: Stack, builds: CloudBuild, report: str
) -> None:
    stack(text=STACK)
    builds.run(report, [used()], **TRIGGERED)
    answer = ask(*COLLECT)
    assert answer.code == 0, answer.err
    assert len(answer.out.splitlines()) == 1
    assert "acme-ci us-central1: 1 GPU steps reported no machine" in answer.err


def test_a_machine_type_that_is_no_longer_in_the_stack_has_no_price(ask: Ask, stack: Stack, builds: CloudBuild) -> None:
    stack(text=STACK)
    builds.run([used(machineType="g2-standard-12")], **TRIGGERED)
    record = MachineRecord.model_validate_json(ask(*COLLECT).out)
    assert (record.usd, record.incomplete) == (None, ["price"])


def test_all_pages_of_builds_are_read(
    ask: Ask, stack: Stack, builds: CloudBuild, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack(text=STACK)
    monkeypatch.setattr("pulumi_sandbox.providers.gcp.builds._PAGE", 2)
    for number in range(5):
        builds.run([used(id=str(number))], **TRIGGERED)
    found = {MachineRecord.model_validate_json(line).id for line in ask(*COLLECT).out.splitlines()}
    assert found == {"0", "1", "2", "3", "4"}


@pytest.mark.usefixtures("builds")
def test_a_refusal_of_google_is_an_error(ask: Ask, stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    stack(text=STACK)
    monkeypatch.setattr("tests.gpu_ci.cli.image_cloud.OWNER", "Bearer other")
    answer = ask(*COLLECT)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("Cloud Build: ")
