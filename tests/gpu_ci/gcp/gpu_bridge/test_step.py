"""A build step in virtual time: its exit code, its output, and the machine that it must not leave behind."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from gpu_ci.gcp.gate.compute_api import ApiError, QuotaInfo
from gpu_ci.gcp.gpu_bridge.build import refused
from gpu_ci.gcp.gpu_bridge.reaper import reap

from tests.gpu_ci.gcp.gpu_bridge.cloud import CHECKED_SEC, EXHAUSTED, SETTINGS, UNAVAILABLE, Client, Cloud, Killed, Step

DAY_SEC = 86_400.0


class Builds:
    """Cloud Build as the reaper sees it."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud

    def status(self, project: str, region: str, build: str) -> str:
        if build not in self.cloud.builds:
            raise ApiError("notFound", "Requested entity was not found.", 404)
        return self.cloud.builds[build]


def reap_all(cloud: Cloud) -> list[str]:
    """Run the reaper once. Return the machines that it deleted."""
    cloud.time.current = None
    log: list[str] = []
    return [each.name for each in reap(Client(cloud), Builds(cloud), "ci-project", cloud.time.now_sec, log.append)]


@pytest.fixture
def cloud() -> Cloud:
    return Cloud()


def finished(step: Step) -> Step:
    """Let the step run to its end."""
    step.cloud.time.advance(DAY_SEC)
    assert step.is_over
    return step


@pytest.mark.parametrize(("code", "expected"), [(0, 0), (3, 3), (1, 1), (255, 255), (-9, 137), (-15, 143)])
def test_the_exit_code_of_a_step_is_that_of_its_command(cloud: Cloud, folder: Path, code: int, expected: int) -> None:
    step = finished(Step(cloud, folder, code=code))
    assert (step.code, step.printed, cloud.machines) == (expected, b"line 1\nline 2\nline 3\n", {})
    # The request may have secrets, and the slot is free again.
    assert [name for name in cloud.objects if name.startswith("slots/") or "request" in name] == []


def test_the_machine_of_a_step_has_the_labels_and_the_limits_of_its_build(cloud: Cloud, folder: Path) -> None:
    made = replace(SETTINGS, check_sec=500, fetch_sec=300, labels={"team": "ml"}, artifact_mib=3, artifact_files=7)
    Step(cloud, folder, lines=90, settings=made, region="europe-west4", timeout_sec=100, artifacts=["*.xml"])
    cloud.time.advance(75)
    [machine] = cloud.machines.values()
    labels = {key: value for key, value in machine.body["labels"].items() if key != "gpu-ci-gate"}
    # The machine has 20 minutes after its command, and the reaper waits another ten.
    assert labels == {
        "team": "ml",
        "gpu-ci-bridge": "l4",
        "gpu-ci-build": "build-1",
        "gpu-ci-build-region": "europe-west4",
        "gpu-ci-slot": "0",
        "gpu-ci-ttl": str(500 + 300 + 100 + 1200 + 600),
    }
    assert machine.longest_sec == 500 + 300 + 100 + 1200
    limits = ("timeout_sec", "fetch_sec", "artifacts", "artifact_files", "artifact_bytes")
    assert [machine.request[name] for name in limits] == [100, 300, ["*.xml"], 7, 3 * 2**20]


def test_a_machine_that_runs_without_a_result_is_lost_after_all_time_limits(cloud: Cloud, folder: Path) -> None:
    step = Step(cloud, folder, lines=9999, timeout_sec=100)
    cloud.time.advance(CHECKED_SEC + 5)
    [machine] = cloud.machines.values()
    machine.request["timeout_sec"] = 9999
    # 15 minutes for the sources, the command, and 20 minutes for its end.
    cloud.time.advance(900 + 100 + 1200 - 10)
    assert not step.is_over
    cloud.time.advance(10)
    assert (step.code, cloud.machines) == (207, {})
    assert "reported no result in 1000 s" in str(step.error)


@pytest.mark.parametrize(("mib", "code"), [(2, 0), (3, 206)])
def test_an_object_of_the_output_has_a_largest_size(cloud: Cloud, folder: Path, mib: int, code: int) -> None:
    step = Step(cloud, folder, lines=1)
    original = cloud.put
    content = b"x" * mib * 2**20
    cloud.put = lambda name, body: original(name, content if "/log-" in name else body)  # type: ignore[method-assign]
    assert (finished(step).code, len(step.printed)) == (code, 0 if code else len(content))


def test_a_step_that_is_cancelled_while_it_uploads_takes_no_slot(cloud: Cloud, folder: Path) -> None:
    step = Step(cloud, folder)
    step.client.failing_polls = lambda name: step.cancel.set() if name == "upload" else None
    finished(step)
    assert (step.code, step.client.names[-1]) == (210, "upload")
    assert "the workspace was being uploaded" in str(step.error)


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (ApiError("unauthenticated", "no credentials"), "Cloud Build provides credentials"),
        (
            ApiError("conditionNotMet", "Constraint constraints/compute.requireShieldedVm violated", 412),
            "the organization policy compute.requireShieldedVm forbids the machine",
        ),
        (ApiError("forbidden", "Forbidden", 403), "the build must use the service account of the pool"),
        (ApiError("invalid", "Invalid value", 400), "correct what the error names"),
    ],
)
def test_a_refused_request_has_a_hint(error: ApiError, hint: str) -> None:
    assert f"\n  hint: {hint}" in str(refused(error))


def test_the_values_of_variables_are_not_in_the_metadata_of_the_machine(cloud: Cloud, folder: Path) -> None:
    Step(cloud, folder, lines=100, environment={"TOKEN": "s3cret"})
    cloud.time.advance(75)
    [machine] = cloud.machines.values()
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
    assert machine.written > 15
    assert finished(step).printed == step.expected


def test_a_second_build_of_the_same_workspace_uploads_nothing(cloud: Cloud, folder: Path) -> None:
    Step(cloud, folder, 1)
    cloud.time.advance(1000)
    second = finished(Step(cloud, folder, 2))
    assert (second.code, second.client.names.count("upload")) == (0, 0)


def sources(cloud: Cloud) -> str:
    [name] = [each for each in cloud.objects if each.startswith("sources/")]
    return name


@pytest.mark.parametrize(("hours", "uploads"), [(20, 0), (22, 1)])
def test_sources_that_the_bucket_may_delete_before_a_machine_reads_them_are_uploaded_again(
    cloud: Cloud, folder: Path, hours: float, uploads: int
) -> None:
    """The step may wait an hour, and start two machines, each with 35 minutes until its command and 30 for that."""
    finished(Step(cloud, folder, 1))
    cloud.created[sources(cloud)] = cloud.time.now_sec - 3600 * hours
    second = finished(Step(cloud, folder, 2))
    assert (second.code, second.client.names.count("upload")) == (0, uploads)


def test_truncated_sources_are_uploaded_again(cloud: Cloud, folder: Path) -> None:
    finished(Step(cloud, folder, 1))
    cloud.change(sources(cloud), cloud.objects[sources(cloud)][1][:-1])
    assert finished(Step(cloud, folder, 2)).code == 0


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (EXHAUSTED, "no-capacity"),
        (
            ApiError("QUOTA_EXCEEDED", "Quota 'NVIDIA_L4_GPUS' exceeded.", 403, (), QuotaInfo("NVIDIA_L4_GPUS")),
            "over-quota",
        ),
        (ApiError("forbidden", "Required 'compute.instances.create' permission for 'x'", 403), "refused"),
    ],
)
def test_a_step_whose_machine_cannot_start_names_the_cause(
    cloud: Cloud, folder: Path, error: ApiError, name: str
) -> None:
    cloud.zones = dict.fromkeys(SETTINGS.zones, error)
    step = finished(Step(cloud, folder))
    assert step.error
    assert (step.error.name, cloud.machines, step.printed) == (name, {}, b"")


def test_a_zone_without_capacity_is_followed_by_the_next_zone(cloud: Cloud, folder: Path) -> None:
    cloud.zones = {"us-central1-a": EXHAUSTED}
    step = finished(Step(cloud, folder))
    assert step.code == 0
    assert any("in us-central1-b passed its check" in line for line in step.log)


@pytest.mark.parametrize(
    ("reason", "hint"), [("", "read the summary of the check"), ("no-driver", "use another boot image for the bridge")]
)
def test_a_machine_that_fails_its_check_runs_no_command(cloud: Cloud, folder: Path, reason: str, hint: str) -> None:
    cloud.verdict, cloud.reason = "fail", reason
    step = finished(Step(cloud, folder))
    assert step.error
    assert (step.error.name, cloud.machines, step.printed) == ("check-failed", {}, b"")
    assert f"\n  hint: {hint}" in str(step.error)


def test_a_command_over_its_time_limit_ends_with_the_code_of_a_time_out(cloud: Cloud, folder: Path) -> None:
    step = finished(Step(cloud, folder, lines=100, timeout_sec=10))
    assert (step.code, step.printed.count(b"\n"), cloud.machines) == (205, 10, {})


@pytest.mark.parametrize(
    ("failed", "reason", "name", "hint"),
    [
        ("fetch", "no-image", "not-started", "correct --image"),
        ("fetch", "disk-full", "not-started", "raise diskGib"),
        ("fetch", "wrong-source", "wrong-digest", "find out what changed the object"),
        ("start", "no-tool", "not-started", "use a boot image with the programs that the detail names"),
        ("command", "preempted", "preempted", "add --retry-preempted"),
        ("command", "maintenance", "preempted", "add --retry-preempted"),
        ("command", "stopped", "lost-machine", "read the machine's entry in Cloud Logging"),
        ("timeout", "timed-out", "timed-out", "raise --timeout"),
        ("artifacts", "no-artifacts", "no-artifacts", "correct --artifact"),
        ("artifacts", "disk-full", "no-artifacts", "raise diskGib"),
        ("output", "storage-refused", "lost-machine", "run pulumi up"),
        ("report", "crashed", "lost-machine", "read the machine's entry in Cloud Logging"),
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
    for number, names in enumerate((["another"], None)):
        step = Step(cloud, folder, number, lines=300)
        cloud.time.advance(100)
        [(name, machine)] = cloud.machines.items()
        cloud.preempted = names or [name]
        cloud._end(machine, machine.request["prefix"], failed="command", reason="stopped", detail="stopped")
        finished(step)
        assert step.code == (207 if names else 203)


def test_a_preempted_step_fails_and_names_the_option_that_repeats_it(cloud: Cloud, folder: Path) -> None:
    step = Step(cloud, folder, lines=100)
    cloud.time.advance(100)
    cloud.preempt(next(iter(cloud.machines)))
    finished(step)
    assert (step.code, cloud.machines) == (203, {})
    assert "--retry-preempted" in str(step.error)


def test_a_preempted_step_that_may_repeat_its_command_gets_a_machine_that_is_no_spot_machine(
    cloud: Cloud, folder: Path
) -> None:
    step = Step(cloud, folder, lines=500, retries_preempted=True)
    cloud.time.advance(100)
    [name] = cloud.machines
    assert cloud.machines[name].is_spot
    cloud.preempt(name)
    cloud.time.advance(30)
    [second] = cloud.machines
    assert (second != name, cloud.machines[second].is_spot) == (True, False)
    cloud.time.advance(70)
    cloud.preempt(second)
    # A second preemption is not repeated.
    assert (finished(step).code, cloud.machines) == (203, {})


@pytest.mark.parametrize("at", [0.0, 3.0, 62.0, 75.0])
def test_a_cancelled_step_deletes_its_machine(cloud: Cloud, folder: Path, at: float) -> None:
    step = Step(cloud, folder, lines=300)
    cloud.time.advance(at)
    step.cancel.set()
    cloud.time.advance(30)
    assert (step.is_over, step.code, cloud.machines) == (True, 210, {})
    assert [name for name in cloud.objects if name.startswith("slots/")] == []


def test_a_machine_that_disappears_is_lost(cloud: Cloud, folder: Path) -> None:
    step = Step(cloud, folder, lines=300)
    cloud.time.advance(100)
    cloud.machines.clear()
    assert finished(step).code == 207


@pytest.mark.parametrize(
    ("name", "content"),
    [("log-00000002", b"line two\n"), ("log-00000002", b"line"), ("log-00000002", b""), ("result.json", b"{}")],
)
def test_an_altered_or_truncated_object_ends_the_step(cloud: Cloud, folder: Path, name: str, content: bytes) -> None:
    step = Step(cloud, folder, lines=5)
    [prefix] = ["builds/build-1/token1-1/"]
    cloud.time.advance(1)
    original = cloud.put

    def put(path: str, body: bytes) -> int:
        generation = original(path, body)
        if path == prefix + name:
            cloud.change(path, content)
        return generation

    cloud.put = put  # type: ignore[method-assign]
    finished(step)
    assert (step.code, cloud.machines) == (206, {})
    assert step.expected.startswith(step.printed)


@pytest.mark.parametrize(("at", "code"), [(0.0, 208), (30.0, 207), (100.0, 207)])
def test_a_step_whose_bucket_is_deleted_ends_and_deletes_its_machine(
    cloud: Cloud, folder: Path, at: float, code: int
) -> None:
    step = Step(cloud, folder, lines=300)
    if at:
        cloud.time.advance(at)
    cloud.has_bucket = False
    cloud.objects.clear()
    cloud.time.advance(120)
    assert (step.is_over, step.code, cloud.machines) == (True, code, {})


@pytest.mark.parametrize("at", [1.0, 70.0, 400.0])
def test_a_step_that_is_cancelled_while_it_waits_for_a_slot_takes_none(cloud: Cloud, folder: Path, at: float) -> None:
    others = [Step(cloud, folder, number, lines=1700) for number in range(4)]
    waiting = Step(cloud, folder, 9)
    cloud.time.advance(at)
    waiting.cancel.set()
    cloud.time.advance(6)
    assert (waiting.code, "insert" in waiting.client.names) == (210, False)
    assert "the step was waiting for a machine" in str(waiting.error)
    cloud.time.advance(3000)
    assert [step.code for step in others] == [0] * 4
    assert [name for name in cloud.objects if name.startswith("slots/")] == []


def test_altered_sources_start_no_command(cloud: Cloud, folder: Path) -> None:
    step = Step(cloud, folder)
    cloud.time.advance(30)
    cloud.change(sources(cloud), b"other sources")
    finished(step)
    assert (step.code, step.printed, cloud.machines) == (206, b"", {})


@pytest.mark.parametrize("seconds", [60.0, 150.0])
def test_a_network_that_is_cut_for_a_while_delays_the_output_only(cloud: Cloud, folder: Path, seconds: float) -> None:
    step = Step(cloud, folder, lines=300, code=3)
    cloud.time.advance(100)
    cloud.is_cut = True
    cloud.time.advance(seconds)
    cloud.is_cut = False
    finished(step)
    assert (step.code, step.printed, cloud.machines) == (3, step.expected, {})


def fail_at_random(step: Step, seed: int, share: float) -> None:
    """Let this share of the polls for objects fail, once the machine has passed its check."""
    number = random.Random(seed)

    def error(name: str) -> ApiError | None:
        is_poll = name == "poll" and step.cloud.time.now_sec > CHECKED_SEC
        return UNAVAILABLE if is_poll and number.random() < share else None

    step.client.failing_polls = error


@pytest.mark.parametrize("seed", range(20))
def test_polls_that_fail_now_and_then_change_neither_output_nor_exit_code(
    cloud: Cloud, folder: Path, seed: int
) -> None:
    step = Step(cloud, folder, lines=9, code=3)
    fail_at_random(step, seed, 0.4)
    finished(step)
    assert step.client.failures > 5
    assert (step.code, step.printed, cloud.machines) == (3, step.expected, {})


@pytest.mark.parametrize("seed", range(20))
def test_the_output_until_a_preemption_is_complete_although_polls_fail(cloud: Cloud, folder: Path, seed: int) -> None:
    step = Step(cloud, folder, lines=300)
    cloud.time.advance(90)
    fail_at_random(step, seed, 0.9)
    cloud.time.advance(10)
    [(name, machine)] = cloud.machines.items()
    cloud.preempt(name)
    finished(step)
    assert step.client.failures > 0
    assert (step.code, step.printed.count(b"\n")) == (203, machine.written)


def test_a_step_that_is_cancelled_while_it_prints_the_end_of_the_output_is_cancelled(
    cloud: Cloud, folder: Path
) -> None:
    step = Step(cloud, folder, lines=30)

    def write(content: bytes) -> None:
        step._print(content)
        if cloud.time.now_sec > 120:
            step.cancel.set()

    step.build.write = write
    cloud.time.advance(75)
    printed = step.printed.count(b"\n")
    # The command ends meanwhile.
    cloud.is_cut = True
    cloud.time.advance(60)
    cloud.is_cut = False
    finished(step)
    assert (step.code, step.printed.count(b"\n"), cloud.machines) == (210, printed + 1, {})


def test_a_network_that_is_cut_for_long_ends_the_step_and_google_deletes_the_machine(
    cloud: Cloud, folder: Path
) -> None:
    step = Step(cloud, folder, lines=2000)
    cloud.time.advance(100)
    cloud.is_cut = True
    cloud.time.advance(400)
    assert (step.is_over, step.code, len(cloud.machines)) == (True, 208, 1)
    [machine] = cloud.machines.values()
    cloud.time.advance(machine.longest_sec)
    cloud.tick()
    assert cloud.machines == {}


def test_forty_builds_never_have_more_machines_than_the_bridge_allows(cloud: Cloud, folder: Path) -> None:
    steps = [Step(cloud, folder, number, lines=20, code=number % 3) for number in range(40)]
    cloud.time.advance(DAY_SEC)
    assert [step.code for step in steps] == [number % 3 for number in range(40)]
    assert all(step.printed == step.expected for step in steps)
    assert (cloud.most_machines, cloud.machines) == (4, {})


def test_the_slots_of_killed_steps_are_free_again_after_their_machines(cloud: Cloud, folder: Path) -> None:
    killed = [Step(cloud, folder, number, lines=300) for number in range(4)]
    cloud.time.advance(100)
    for step in killed:
        step.kill()
    waiting = Step(cloud, folder, 9)
    cloud.time.advance(400)
    assert (waiting.is_over, len(cloud.machines)) == (False, 4)
    assert len(reap_all(cloud)) == 4
    cloud.time.advance(200)
    assert (waiting.code, cloud.most_machines, cloud.machines) == (0, 4, {})


def test_a_slot_that_its_holder_renews_is_not_taken(cloud: Cloud, folder: Path) -> None:
    def renew() -> None:
        for number in range(4):
            cloud.put(f"slots/{number}", b"another step")

    renew()
    step = Step(cloud, folder)
    for _ in range(10):
        cloud.time.advance(60)
        renew()
    cloud.time.advance(290)
    assert (step.is_over, cloud.most_machines) == (False, 0)
    # The holders were killed before they started their machines.
    assert (finished(step).code, cloud.most_machines) == (0, 1)


def test_a_step_renews_its_slot_while_it_runs(cloud: Cloud, folder: Path) -> None:
    Step(cloud, folder, lines=600)
    generations = set()
    for _ in range(10):
        cloud.time.advance(60)
        generations.add(cloud.objects["slots/0"][0])
    assert len(generations) == 10


@pytest.mark.parametrize(("start", "until"), [("slots/", 1), ("slots/", DAY_SEC), ("builds/", DAY_SEC)])
def test_an_object_whose_write_was_not_answered_belongs_to_its_step(
    cloud: Cloud, folder: Path, start: str, until: float
) -> None:
    step = Step(cloud, folder, lines=100)
    original = cloud.put

    def put(name: str, content: bytes) -> int:
        # Google's client repeats a request without an answer, and the second attempt finds the object.
        generation = original(name, content)
        return 0 if name.startswith(start) and cloud.time.now_sec < until else generation

    cloud.put = put  # type: ignore[method-assign]
    generations = set()
    for _ in range(4):
        cloud.time.advance(40)
        generations.add(cloud.objects["slots/0"][0])
    assert len(generations) == 4
    assert finished(step).code == 0
    assert [name for name in cloud.objects if name.startswith("slots/") or name.endswith("request.json")] == []


def test_a_stale_slot_that_was_taken_without_an_answer_belongs_to_its_step(cloud: Cloud, folder: Path) -> None:
    for number in range(4):
        cloud.put(f"slots/{number}", b"a killed step")
    step = Step(cloud, folder)
    original = cloud.put
    cloud.put = lambda name, content: original(name, content) * (name != "slots/0")  # type: ignore[method-assign]
    cloud.time.advance(400)
    assert (step.code, "slots/0" in cloud.objects) == (0, False)


@pytest.mark.parametrize("error", [ApiError("forbidden", "Forbidden", 403), UNAVAILABLE])
def test_a_step_that_cannot_list_the_machines_gives_its_slot_back(cloud: Cloud, folder: Path, error: ApiError) -> None:
    step = Step(cloud, folder)
    step.client.failing_polls = lambda name: error if name == "aggregated" else None
    cloud.time.advance(4)
    assert (cloud.most_machines, [name for name in cloud.objects if name.startswith("slots/")]) == (0, [])
    assert finished(step).code == 208


def test_a_step_waits_for_a_machine_while_google_does_not_answer(cloud: Cloud, folder: Path) -> None:
    """A zone that does not answer makes the list of machines incomplete, whichever zones the bridge has."""
    lacks = ApiError("unreachable", "the list of machines lacks zones/me-west1-a")
    step = Step(cloud, folder)
    step.client.failing_polls = lambda name: lacks if name == "aggregated" and cloud.time.now_sec < 600 else None
    cloud.time.advance(500)
    assert (step.is_over, cloud.most_machines) == (False, 0)
    assert step.log[1] == "waiting, because the list of machines lacks zones/me-west1-a: 0 s"
    assert finished(step).code == 0


def test_a_step_that_waits_too_long_for_a_machine_ends(cloud: Cloud, folder: Path) -> None:
    for number in range(4):
        Step(cloud, folder, number, lines=1700)
    late = Step(cloud, folder, 9)
    late.build.settings = type(SETTINGS)(**{**vars(SETTINGS), "wait_sec": 100})
    cloud.time.advance(200)
    assert late.code == 213
    assert any("waiting, because other builds use all 4 machines" in line for line in late.log)


def calls_of_a_build(folder: Path) -> int:
    """Return the number of API calls of a build without faults."""
    step = finished(Step(Cloud(), folder, lines=3, code=3))
    assert step.code == 3
    return step.client.calls


def test_a_step_that_is_killed_before_any_call_leaves_no_machine_after_the_reaper(folder: Path) -> None:
    count = calls_of_a_build(folder)
    assert count > 40
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
    assert left > 20


def test_a_step_that_is_killed_leaves_no_machine_after_the_time_limit_without_a_reaper(folder: Path) -> None:
    for call in range(0, calls_of_a_build(folder), 3):
        cloud = Cloud()
        step = Step(cloud, folder, lines=3, code=3)
        step.client.killed_at = call
        cloud.time.advance(DAY_SEC)
        cloud.tick()
        assert cloud.machines == {}


def test_an_error_of_any_call_leaves_no_machine_and_a_complete_log_or_another_exit_code(folder: Path) -> None:
    codes: set[int | None] = set()
    for call in range(calls_of_a_build(folder)):
        for error in (UNAVAILABLE, ApiError("forbidden", "Forbidden", 403)):
            cloud = Cloud()
            step = Step(cloud, folder, lines=3, code=3)
            step.client.failing = {call: error}
            cloud.time.advance(DAY_SEC)
            cloud.tick()
            assert (step.is_over, cloud.machines) == (True, {}), call
            assert step.code in (3, 204, 208), (call, step.error)
            assert step.expected.startswith(step.printed)
            if step.code == 3:
                assert step.printed == step.expected
            codes.add(step.code)
    assert {3, 208} <= codes


def test_the_reaper_leaves_machines_of_builds_that_run_and_of_unknown_builds(cloud: Cloud, folder: Path) -> None:
    steps = [Step(cloud, folder, number, lines=1700) for number in range(3)]
    cloud.time.advance(100)
    cloud.builds["build-0"] = "CANCELLED"
    del cloud.builds["build-1"]
    assert len(reap_all(cloud)) == 1
    assert len(cloud.machines) == 2
    assert [step.is_over for step in steps] == [False] * 3


def test_a_killed_process_makes_no_further_call(cloud: Cloud, folder: Path) -> None:
    step = Step(cloud, folder, lines=300)
    cloud.time.advance(100)
    step.kill()
    calls = step.client.calls
    cloud.time.advance(10)
    assert step.client.calls == calls
    cloud.time.current = step.task
    with pytest.raises(Killed):
        step.client.status("ci-project", "us-central1-a", "m")
