"""A build step in virtual time: its exit code, its output, its places, and the machine that it must not leave."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gpu_agent import config
from gpu_agent.build import workspace
from gpu_ci.gcp.gate.compute_api import ApiError, QuotaInfo
from gpu_ci.gcp.gpu_bridge.build import BridgeBuild
from gpu_ci.gcp.gpu_bridge.reaper import reap
from gpu_ci.gcp.gpu_bridge.steps import READABLE

from tests.gpu_ci.gcp.gpu_bridge.cloud import (
    EXHAUSTED,
    RUNGS,
    SETTINGS,
    TEMPLATE,
    ZONES,
    Client,
    Cloud,
    Step,
)

DAY_SEC = 86_400.0
FORBIDDEN = ApiError("forbidden", "Required 'compute.instances.create' permission for 'x'", 403)
QUOTA = ApiError("QUOTA_EXCEEDED", "Quota 'PREEMPTIBLE_NVIDIA_L4_GPUS' exceeded.", 403, quota=QuotaInfo("L4"))
NAMES_C = ApiError("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", "no", 503, ("us-central1-b", "us-central1-c"))
EAST = TEMPLATE.replace("us-central1", "us-east1")
L4 = {"machine_type": "g2-standard-8", "gpu": "nvidia-l4"}
LADDER = replace(
    SETTINGS,
    rungs=[
        *RUNGS,
        {"zone": "us-east1-b", "market": "spot", "template": EAST, **L4},
        {"zone": "us-central1-c", "market": "standard", **L4},
    ],
)


class Builds:
    """Cloud Build as the reaper sees it."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud

    def status(self, project: str, region: str, build: str) -> str:
        return self.cloud.builds[build]


def reap_all(cloud: Cloud) -> list[str]:
    """Run the reaper once. Return the machines that it deleted."""
    cloud.time.current = None
    client: Any = Client(cloud)
    builds: Any = Builds(cloud)
    return reap(client, builds, "ci-project", cloud.time.now_sec, print, "l4")


@pytest.fixture
def cloud() -> Cloud:
    return Cloud()


def finished(step: Step) -> Step:
    """Let the step run to its end."""
    step.cloud.time.advance(DAY_SEC)
    assert step.is_over
    return step


def tried(step: Step) -> list[str]:
    return [line.rpartition(" ")[2] for line in step.log if line.startswith("starting a build machine in ")]


@pytest.mark.parametrize(("code", "expected"), [(0, 0), (3, 3), (255, 255), (-9, 137)])
def test_the_exit_code_of_a_step_is_that_of_its_command(cloud: Cloud, folder: Path, code: int, expected: int) -> None:
    step = finished(Step(cloud, folder, code=code))
    assert (step.code, step.printed, cloud.machines) == (expected, b"line 1\nline 2\nline 3\n", {})
    # The request may have secrets.
    assert [name for name in cloud.objects if "request" in name] == []


def test_the_machine_of_a_step_has_the_labels_and_the_limits_of_its_build(cloud: Cloud, folder: Path) -> None:
    made = replace(SETTINGS, check_sec=500, fetch_sec=300, labels={"team": "ml"}, artifact_mib=3)
    options: dict[str, Any] = {"region": "europe-west4", "timeout_sec": 100, "artifacts": ["*.xml"]}
    Step(cloud, folder, lines=90, settings=made, environment={"TOKEN": "s3cret"}, **options)
    cloud.time.advance(75)
    [machine] = cloud.machines.values()
    labels = {key: value for key, value in machine.body["labels"].items() if key != "gpu-ci-gate"}
    # The machine has 20 minutes after its command, and the reaper waits another ten.
    assert labels == {
        "team": "ml",
        "gpu-ci-bridge": "l4",
        "gpu-ci-build": "build-1",
        "gpu-ci-build-region": "europe-west4",
        "gpu-ci-ttl": str(500 + 300 + 100 + 1200 + 600),
    }
    assert machine.longest_sec == 500 + 300 + 100 + 1200
    limits = ("timeout_sec", "fetch_sec", "artifacts", "artifact_files", "artifact_bytes")
    assert [machine.request[name] for name in limits] == [100, 300, ["*.xml"], 10_000, 3 * 2**20]
    # The agent refuses a request with another field or type.
    read = config.parse_as(workspace.BuildRequest, json.dumps(machine.request), workspace.KEY)
    assert vars(read) == machine.request
    # Many users of a project can read metadata.
    assert machine.request["environment"] == {"TOKEN": "s3cret"}
    assert "s3cret" not in json.dumps(machine.body)


def test_output_is_printed_less_than_two_seconds_after_the_machine_wrote_it(cloud: Cloud, folder: Path) -> None:
    step = Step(cloud, folder, lines=30)
    cloud.time.advance(75)
    late: list[int] = []
    for _ in range(20):
        cloud.time.advance(1)
        cloud.tick()
        [machine] = cloud.machines.values()
        late.append(machine.written - step.printed.count(b"\n"))
    assert max(late) <= 2
    assert finished(step).printed == step.expected


@pytest.mark.parametrize(("error", "name"), [(EXHAUSTED, "no-capacity"), (QUOTA, "over-quota"), (FORBIDDEN, "refused")])
def test_a_step_whose_machine_cannot_start_names_the_cause(
    cloud: Cloud, folder: Path, error: ApiError, name: str
) -> None:
    cloud.zones = dict.fromkeys(ZONES, error)
    step = finished(Step(cloud, folder))
    assert step.error
    assert (step.error.name, cloud.machines, step.printed) == (name, {}, b"")


@pytest.mark.parametrize("error", [EXHAUSTED, QUOTA])
def test_a_step_goes_down_the_ladder_to_another_region_with_its_template(
    cloud: Cloud, folder: Path, error: ApiError
) -> None:
    cloud.zones = {"us-central1-a": error, "us-central1-b": EXHAUSTED}
    step = finished(Step(cloud, folder, settings=LADDER))
    assert (step.code, tried(step)) == (0, ["us-central1-a", "us-central1-b", "us-east1-b"])
    assert cloud.inserts == [("us-east1-b", EAST, "SPOT")]


def test_a_step_without_any_capacity_names_all_places(cloud: Cloud, folder: Path) -> None:
    zones = ("us-central1-a", "us-east1-b", "us-central1-c")
    cloud.zones = {**dict.fromkeys(zones, EXHAUSTED), "us-central1-b": NAMES_C, "us-east1-b": QUOTA}
    settings = replace(LADDER, rungs=LADDER.rungs[:3])
    step = finished(Step(cloud, folder, settings=settings))
    assert step.error
    assert (step.code, tried(step)) == (201, [each["zone"] for each in settings.rungs])
    assert step.error.detail == (
        "no machine in us-central1-a g2-standard-8 spot, us-central1-b g2-standard-8 spot, us-east1-b g2-standard-8 "
        "spot; Google suggests us-central1-c; Quota 'PREEMPTIBLE_NVIDIA_L4_GPUS' exceeded."
    )


@pytest.mark.parametrize(
    ("reason", "hint"), [("", "read the summary of the check"), ("no-driver", "use another boot image for the bridge")]
)
def test_a_machine_that_fails_its_check_runs_no_command(cloud: Cloud, folder: Path, reason: str, hint: str) -> None:
    cloud.verdict, cloud.reason = "fail", reason
    step = finished(Step(cloud, folder))
    assert step.error
    assert (step.error.name, cloud.machines, step.printed) == ("check-failed", {}, b"")
    assert f"\n  hint: {hint}" in str(step.error)


@pytest.mark.parametrize(
    ("failed", "reason", "name", "hint"),
    [
        ("fetch", "wrong-source", "wrong-digest", "find out what changed the object"),
        ("start", "no-tool", "not-started", "use a boot image with the programs that the detail names"),
        ("command", "stopped", "lost-machine", "read the machine's entry in Cloud Logging"),
        ("output", "storage-refused", "lost-machine", "run pulumi up"),
    ],
)
def test_a_machine_that_ends_early_has_a_cause_and_a_hint(
    cloud: Cloud, folder: Path, failed: str, reason: str, name: str, hint: str
) -> None:
    step = Step(cloud, folder, lines=300)
    cloud.time.advance(100)
    [machine] = cloud.machines.values()
    cloud._end(machine, machine.request["prefix"], failed=failed, reason=reason, detail="what happened")
    finished(step)
    assert step.error
    assert (step.error.name, step.error.detail, cloud.machines) == (name, "what happened", {})
    assert f"\n  hint: {hint}" in str(step.error)


def test_a_stop_is_a_preemption_if_google_lists_one_of_this_machine(cloud: Cloud, folder: Path) -> None:
    """The machine heard of the stop before its announcement."""
    for number, preempted in enumerate([("another", "1"), ("", "1"), ("", "3")]):
        step = Step(cloud, folder, number, lines=300)
        cloud.time.advance(100)
        [(name, machine)] = cloud.machines.items()
        cloud.preempted = [(preempted[0] or name, preempted[1])]
        cloud._end(machine, machine.request["prefix"], failed="command", reason="stopped", detail="stopped")
        finished(step)
        assert step.code == (203 if number == 2 else 207)


def test_a_refused_list_of_operations_is_in_the_log(cloud: Cloud, folder: Path) -> None:
    refused = ApiError("invalid", "Invalid value for field 'orderBy'", 400)
    step = Step(cloud, folder, lines=300)
    step.client.failing_polls = lambda name: refused if name == "operations" else None
    cloud.time.advance(100)
    cloud.preempt(*cloud.machines)
    assert finished(step).code == 207
    assert step.log[-1] == "preemptions in us-central1-a cannot be read: Invalid value for field 'orderBy'"


def test_a_machine_that_another_build_replaced_has_no_result(cloud: Cloud, folder: Path) -> None:
    """Builds of one bridge share an account, which may delete and create machines."""
    step = Step(cloud, folder, lines=300)
    cloud.time.advance(100)
    [machine] = cloud.machines.values()
    machine.id = "9"
    assert finished(step).code == 207


def test_the_names_of_a_builds_objects_are_in_nothing_that_another_build_can_read(cloud: Cloud, folder: Path) -> None:
    """All builds may read the metadata and the labels of machines, but no requests."""
    step = Step(cloud, folder, lines=90)
    assert len(BridgeBuild(*[None] * 6).token) == 32  # type: ignore[arg-type]
    cloud.time.advance(75)
    [machine] = cloud.machines.values()
    assert machine.request["prefix"] == "builds/build-1/token1-1/"
    assert "token1" not in json.dumps(machine.body)
    assert not machine.place["name"].startswith(READABLE)
    assert {name.partition("/")[0] for name in cloud.objects} == {"sources", "requests", "builds"}
    finished(step)
    assert {name.partition("/")[0] for name in cloud.objects} == {"sources", "builds"}


@pytest.mark.parametrize(("settings", "zone"), [(SETTINGS, "us-central1-a"), (LADDER, "us-central1-c")])
def test_a_preempted_command_runs_again_once_on_a_machine_that_is_no_spot_machine(
    cloud: Cloud, folder: Path, settings: Any, zone: str
) -> None:
    step = Step(cloud, folder, lines=500, settings=settings, retries_preempted=True)
    for _ in range(2):
        cloud.time.advance(100)
        [name] = cloud.machines
        cloud.preempt(name)
    # A second preemption is not repeated.
    assert (finished(step).code, cloud.machines) == (203, {})
    assert "--retry-preempted" in str(step.error)
    assert cloud.inserts == [("us-central1-a", TEMPLATE, "SPOT"), (zone, TEMPLATE, "STANDARD")]
    assert [(each["market"], each["takenBack"]) for each in step.build.machines] == [("spot", True), ("standard", True)]


def test_a_step_knows_when_its_machine_was_there_and_when_its_command_ran(cloud: Cloud, folder: Path) -> None:
    cloud.zones = {"us-central1-a": EXHAUSTED}
    step = finished(Step(cloud, folder, lines=100))
    [used] = step.build.machines
    times = [used.pop(name) for name in ("requested", "started", "completed", "gone")]
    assert times == sorted(times)
    assert times[1] - times[0] == pytest.approx(60, abs=15), "boot and check"
    assert times[2] - times[1] == pytest.approx(110, abs=15), "sources and command"
    name = used.pop("machine")
    assert name.startswith("l4-build-")
    assert used == {
        "id": "1", "zone": "us-central1-b", "bridge": "l4", "machineType": "g2-standard-8", "market": "spot",
    }  # fmt: skip


def test_a_machine_that_did_not_pass_its_check_is_not_reported(cloud: Cloud, folder: Path) -> None:
    cloud.verdict = "fail"
    assert finished(Step(cloud, folder)).build.machines == []


@pytest.mark.parametrize(
    ("name", "content"),
    [("log-00000002", b"line two\n"), ("log-00000002", b""), ("result.json", b"{}")],
)
def test_an_altered_or_truncated_object_ends_the_step(cloud: Cloud, folder: Path, name: str, content: bytes) -> None:
    step = Step(cloud, folder, lines=5)
    cloud.time.advance(1)
    original = cloud.put

    def put(path: str, body: bytes) -> None:
        original(path, body)
        if path == f"builds/build-1/token1-1/{name}":
            cloud.change(path, content)

    cloud.put = put  # type: ignore[method-assign]
    finished(step)
    assert (step.code, cloud.machines) == (206, {})
    assert step.expected.startswith(step.printed)


@pytest.mark.parametrize(("at", "code", "text"), [(0, 213, "within 100 s"), (40, 210, "was waiting for a machine")])
def test_a_step_without_a_free_machine_ends_after_its_wait_or_a_cancellation(
    cloud: Cloud, folder: Path, at: float, code: int, text: str
) -> None:
    for number in range(4):
        Step(cloud, folder, number, lines=1700)
    late = Step(cloud, folder, 9, settings=replace(SETTINGS, wait_sec=100))
    if at:
        cloud.time.advance(at)
        late.cancel.set()
    cloud.time.advance(120)
    assert (late.code, "insert" in late.client.names, text in str(late.error)) == (code, False, True)
    assert late.log[1:] == ["waiting up to 100 s, because other builds use all 4 machines of the bridge"]


def test_a_step_waits_for_a_machine_while_google_does_not_answer(cloud: Cloud, folder: Path) -> None:
    """A zone that does not answer makes the list of machines incomplete, whichever zones the bridge has."""
    lacks = ApiError("unreachable", "the list of machines lacks zones/me-west1-a")
    step = Step(cloud, folder)
    step.client.failing_polls = lambda name: lacks if name == "aggregated" and cloud.time.now_sec < 600 else None
    cloud.time.advance(500)
    assert (step.is_over, cloud.most_machines) == (False, 0)
    assert step.log[1] == "waiting up to 3600 s, because the list of machines lacks zones/me-west1-a"
    assert finished(step).code == 0


def test_a_step_that_is_killed_before_any_call_leaves_no_machine_after_the_reaper(folder: Path) -> None:
    count = finished(Step(Cloud(), folder, lines=3, code=3)).client.calls
    assert count > 30
    left = 0
    for call in range(count):
        cloud = Cloud()
        step = Step(cloud, folder, lines=3, code=3)
        step.client.killed_at = call
        cloud.time.advance(1000)
        assert step.code is None
        cloud.builds["build-1"] = "FAILURE"
        left += len(cloud.machines)
        reap_all(cloud)
        assert cloud.machines == {}, f"killed before call {call}, {step.client.names[-1:]}"
        assert step.expected.startswith(step.printed)
    assert left > 15
