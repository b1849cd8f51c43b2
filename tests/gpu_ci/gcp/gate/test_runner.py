"""The gate's check with a fake of Google that can fail in every way. Every machine is deleted."""

from __future__ import annotations

from dataclasses import replace
from threading import Event
from typing import Any

import pytest
from gpu_ci.gcp.gate.compute_api import ApiError
from gpu_ci.gcp.gate.runner import CheckSpec, GateRunner
from gpu_ci.gcp.gate.verdict import Verdict
from hypothesis import given
from hypothesis import strategies as st

from tests.gpu_ci.gcp.gate.fake_api import EXHAUSTED, PASSED, FakeClock, FakeGoogle, result_line, step_line

ZONES = ("us-central1-a", "us-central1-b")
A, B = ZONES


class Scenario:
    """One check, its fake of Google, and the progress messages."""

    def __init__(self, *, zones: tuple[str, ...] = ZONES, deadline_sec: int = 300, **google: Any) -> None:
        self.clock = FakeClock()
        self.google = FakeGoogle(self.clock, **google)
        self.cancel = Event()
        self.messages: list[str] = []
        self.spec = CheckSpec(
            gate="urn:pulumi:s::p::gpu-ci:gcp:SmokeGate::l4-gate",
            project="p",
            template="https://www.googleapis.com/compute/v1/projects/p/regions/us-central1/instanceTemplates/t-1",
            zones=zones,
            pool="l4",
            labels={"team": "ml"},
            deadline_sec=deadline_sec,
        )

    def verdict(self) -> Verdict:
        runner = GateRunner(self.google, self.messages.append, self.cancel, self.clock, suffix=lambda: "abc123")
        try:
            return runner.run(self.spec)
        finally:
            assert self.google.machines == {}


def exhausted(zone: str, available: tuple[str, ...] = ()) -> ApiError:
    return ApiError(EXHAUSTED, f"{zone} does not have enough resources available", 0, available)


def test_a_pass_is_a_pass_in_the_checks_own_words() -> None:
    scenario = Scenario()
    assert scenario.verdict() == Verdict("pass", "1 x NVIDIA L4 computes", A)
    assert scenario.google.log == [("template", "p", "us-central1", "t-1"), ("insert", A), ("delete", A)]


def test_the_machine_is_the_template_with_the_role_check() -> None:
    scenario = Scenario()
    scenario.verdict()
    (body,) = scenario.google.bodies
    assert body == {
        "name": "l4-check-abc123",
        "labels": {"gpu-ci-pool": "l4", "team": "ml", "gpu-ci-gate": body["labels"]["gpu-ci-gate"]},
        "metadata": {
            "items": [{"key": "startup-script", "value": "#!"}, {"key": "gpu-ci-role", "value": "check"}],
        },
        "scheduling": {
            "provisioningModel": "SPOT",
            "instanceTerminationAction": "DELETE",
            "maxRunDuration": {"seconds": "600"},
        },
    }


def progress(scenario: Scenario) -> list[str]:
    scenario.verdict()
    return [
        line.partition(" s of 300 s")[0] + line.partition(" s of 300 s")[2]
        for line in scenario.messages
        if "300 s" in line
    ]


def test_progress_has_the_last_serial_line_once_no_step_came_for_a_minute() -> None:
    text = f"{step_line('driver')}\x1b[0;32m  OK  \x1b[0m token ghs_abcdefgh \x07\u202e {'x' * 400}\r\n\r\n"
    scenario = Scenario(boots_in=0, verdict_after=80, serial_text=text)
    said = progress(scenario)
    shown = f"OK   token [secret] \\u0007\\u202e {'x' * 300}"[:299] + "…"
    quiet = "check machine in us-central1-a is running, step driver, {}"
    assert said[0] == quiet.format(6)
    assert quiet.format(54) in said
    assert f"{quiet.format(60)}; last line on its serial port: {shown}" in said


def test_guest_attributes_are_read_within_googles_limits_and_leave_the_machine_half_of_them() -> None:
    scenario = Scenario(verdict=None, deadline_sec=1200)
    scenario.verdict()
    google = scenario.google
    assert google.refused_queries == 0
    *queries, last = google.queries
    assert last >= 1200
    assert max(sum(at <= other < at + 60 for other in queries) for at in queries) == 5


def test_the_serial_port_is_read_on_from_where_the_last_answer_ended() -> None:
    text = f"boot\n{step_line('driver')}"
    scenario = Scenario(verdict=None, serial_text=text, deadline_sec=60)
    scenario.verdict()
    assert set(scenario.google.serial_reads) == {0, len(text)}


def test_a_verdict_on_the_serial_port_needs_no_guest_attribute_and_is_read_within_seconds() -> None:
    scenario = Scenario(verdict=None, serial_text=f"x login: {result_line(PASSED)}\r\n", serial_after=60)
    assert scenario.verdict() == Verdict("pass", "1 x NVIDIA L4 computes", A)
    assert scenario.clock.time < 64


@pytest.mark.parametrize("replaced_after", [30.0, None])
def test_a_verdict_of_another_machine_of_the_name_does_not_count(replaced_after: float | None) -> None:
    """An account that may create machines replaced the check machine, before or while its verdict was read."""
    scenario = Scenario(zones=(A,), replaced_after=replaced_after, provisioning_model="STANDARD")
    read = scenario.google.guest_attribute

    def replaced(*place: str) -> str:
        if answer := read(*place):
            scenario.google.replaced_after = 0
        return answer

    scenario.google.guest_attribute = replaced  # type: ignore[method-assign,assignment]
    verdict = scenario.verdict()
    assert (verdict.outcome, verdict.reason) == ("fail", "no-verdict")
    assert "was deleted before it had a verdict" in verdict.summary


def test_a_verdict_counts_once_google_says_again_which_machine_it_is_from() -> None:
    down = ApiError("backendError", "The service is currently unavailable.", 503)
    scenario = Scenario(serial_text=result_line(PASSED) + "\n", serial_after=60, status_error=down)
    scenario.google.status_fails = (60.0, 100.0)
    assert scenario.verdict().outcome == "pass"
    assert scenario.clock.time >= 100


def test_a_long_line_of_a_program_holds_no_verdict() -> None:
    scenario = Scenario(verdict=None, serial_text=f"| {'x' * 70_000}", deadline_sec=60)

    def more() -> None:
        if scenario.clock.now() >= 30:
            scenario.google.serial_text = f"| {'x' * 70_000}{result_line(PASSED)}\n"

    scenario.google.on_status = more
    assert scenario.verdict().outcome == "fail"


def test_a_machine_that_is_off_is_read_within_the_limits_until_both_sources_have_answered() -> None:
    scenario = Scenario(verdict_after=100, stops_after=40, serial_error=ApiError("backendError", "TIMEOUT", 503))
    assert scenario.verdict().outcome == "pass"
    assert scenario.google.refused_queries == 0


@pytest.mark.parametrize(
    "error",
    [
        # cloud.google.com/compute/api-quota: "a 403 error with the reason rateLimitExceeded", until the next minute.
        ApiError("rateLimitExceeded", "Quota exceeded for quota metric 'Read requests'", 403),
        ApiError("backendError", "The service is currently unavailable.", 503),
        ApiError("unreachable", "cannot connect to the compute API: timed out"),
    ],
)
def test_a_state_that_google_does_not_answer_for_a_minute_costs_no_check(error: ApiError) -> None:
    scenario = Scenario(verdict_after=100, status_error=error, status_fails=(30, 91))
    assert scenario.verdict() == Verdict("pass", "1 x NVIDIA L4 computes", A)


def test_a_state_that_google_does_not_answer_any_more_is_its_own_error() -> None:
    error = ApiError("rateLimitExceeded", "Quota exceeded for quota metric 'Read requests'", 403)
    scenario = Scenario(verdict=None, status_error=error, status_fails=(30, 10_000))
    with pytest.raises(ApiError, match="Read requests"):
        scenario.verdict()
    assert 145 <= scenario.clock.time < 160


POLICY = "Constraint constraints/compute.disableGuestAttributesAccess violated for projects/p."


def test_an_organization_policy_on_guest_attributes_leaves_the_serial_port() -> None:
    scenario = Scenario(
        attribute_error=ApiError("conditionNotMet", POLICY, 412),
        serial_text=f"{result_line(PASSED)}\n",
        serial_after=60,
        boots_in=8,
    )
    assert scenario.verdict().outcome == "pass"
    said = [line for line in scenario.messages if "rejects" in line]
    policy = "organization policy compute.disableGuestAttributesAccess"
    assert said == [
        (
            f"Google rejects guest attributes of the check machine ({policy}); "
            "the gate reads the verdict from the serial port"
        )
    ]


@pytest.mark.parametrize(
    "error",
    [
        ApiError("EXTERNAL_RESOURCE_NOT_FOUND", "The resource 'a@p' of type 'serviceAccount' was not found.", 400),
        ApiError(
            "notFound", "The resource 'projects/p/serviceAccounts/a@p' of type 'serviceAccount' was not found.", 404
        ),
        ApiError("SERVICE_ACCOUNT_ACCESS_DENIED", "The user does not have access to service account 'a@p'.", 400),
    ],
)
def test_a_service_account_that_is_new_is_waited_for(error: ApiError) -> None:
    scenario = Scenario(account_error=error, account_known_after=40)
    assert scenario.verdict().outcome == "pass"
    assert [call for call in scenario.google.log if call == ("insert", A)] == [("insert", A)] * 8
    assert scenario.clock.time >= 45  # after 0, 1, 3, 7, 15, 25, 35 and 45 s
    assert scenario.messages[1] == f"Google does not accept the machine's service account yet ({error}); trying again"


def test_a_service_account_that_stays_unknown_is_googles_own_error() -> None:
    error = ApiError("SERVICE_ACCOUNT_ACCESS_DENIED", "The user does not have access to service account 'a@p'.", 400)
    scenario = Scenario(account_error=error, account_known_after=10_000)
    with pytest.raises(ApiError, match="does not have access"):
        scenario.verdict()
    assert 90 <= scenario.clock.time < 105


def test_a_machine_that_stops_may_still_report_its_verdict() -> None:
    scenario = Scenario(verdict_after=75, stops_after=40, stops_for=60)
    assert scenario.verdict().outcome == "pass"


def test_a_machine_that_is_taken_away_slowly_is_no_fault_of_its_gpu() -> None:
    scenario = Scenario(zones=(A,), verdict=None, stops_after=40, stops_for=600, gone_after=70)
    assert scenario.verdict() == Verdict("no-capacity", "no zone had capacity for the check machine: us-central1-a")


def test_no_zone_with_a_machine_is_neither_pass_nor_fail() -> None:
    scenario = Scenario()
    scenario.google.zones = {zone: exhausted(zone) for zone in ZONES}
    assert scenario.verdict() == Verdict(
        "no-capacity", "no zone had capacity for the check machine: us-central1-a, us-central1-b"
    )


def test_a_quota_is_not_tried_around() -> None:
    scenario = Scenario()
    scenario.google.zones = {A: ApiError("QUOTA_EXCEEDED", "Quota 'NVIDIA_L4_GPUS' exceeded.  Limit: 1.0", 403)}
    with pytest.raises(ApiError, match="NVIDIA_L4_GPUS"):
        scenario.verdict()
    assert ("insert", B) not in scenario.google.log


def test_the_time_that_google_takes_to_start_a_machine_is_not_the_machines() -> None:
    scenario = Scenario(boots_in=200, verdict_after=480)
    assert scenario.verdict() == Verdict("pass", "1 x NVIDIA L4 computes", A)
    assert scenario.messages[0] == f"starting a check machine in {A}"
    assert scenario.messages[1].endswith(" s of 600 s")
    assert scenario.messages[-1].endswith(" s of 300 s")


def test_a_zone_that_does_not_start_the_machine_is_left_for_the_next() -> None:
    scenario = Scenario(zones=(A,), boots_in=10_000)
    summary = f"no zone had capacity for the check machine: {A}"
    assert scenario.verdict() == Verdict("no-capacity", summary)
    assert scenario.messages[-1] == f"{A} did not start the check machine within 600 s"
    assert scenario.clock.time >= 600


def test_a_machine_that_stops_without_a_word_is_a_fail_at_once() -> None:
    scenario = Scenario(verdict=None, stops_after=40)
    assert scenario.verdict() == Verdict("fail", "the check machine stopped without a verdict", A)
    assert scenario.clock.time < 60


def test_a_verdict_just_before_the_machine_stops_is_not_missed() -> None:
    assert Scenario(verdict_after=40, stops_after=40).verdict().outcome == "pass"


def test_a_machine_taken_away_is_no_fault_of_its_gpu() -> None:
    scenario = Scenario(zones=(A,), verdict=None, gone_after=40)
    assert scenario.verdict() == Verdict("no-capacity", "no zone had capacity for the check machine: us-central1-a")
    assert "us-central1-a preempted the check machine before its verdict" in scenario.messages


def test_a_machine_on_demand_that_was_deleted_is_a_fail_and_no_other_zone_is_tried() -> None:
    scenario = Scenario(verdict=None, gone_after=40, provisioning_model="STANDARD")
    verdict = scenario.verdict()
    assert verdict == Verdict("fail", "the check machine was deleted before it had a verdict", A, "no-verdict")
    assert [zone for call, zone in scenario.google.log[1:] if call == "insert"] == [A]
    assert [line for line in scenario.messages if "rejects" in line] == []


def test_a_cancelled_gate_whose_machine_was_deleted_starts_no_other() -> None:
    scenario = Scenario(verdict=None, gone_after=40)

    def cancel_when_it_is_gone() -> None:
        if scenario.clock.now() >= 40:
            scenario.cancel.set()

    scenario.google.on_status = cancel_when_it_is_gone
    assert scenario.verdict() == Verdict("cancelled", "the check was cancelled", A)
    assert [zone for call, zone in scenario.google.log[1:] if call == "insert"] == [A]


@pytest.mark.parametrize(
    "answer", ["", "pass", "[]", '{"verdict":"maybe","summary":"x"}', '{"verdict":"pass"}', '{"summary":"x"}', "null"]
)
def test_what_is_no_verdict_is_never_a_pass(answer: str) -> None:
    assert Scenario(zones=(A,), verdict=answer).verdict().outcome == "fail"


@given(st.text())
def test_nothing_a_machine_publishes_breaks_the_gate(answer: str) -> None:
    assert Scenario(zones=(A,), verdict=answer, deadline_sec=70).verdict().outcome == "fail"


@pytest.mark.parametrize("answer", ["[" * 100_000, '{"verdict": ' * 50_000])
def test_no_depth_of_json_breaks_the_gate(answer: str) -> None:
    assert Scenario(zones=(A,), verdict=answer, serial_text=result_line(answer)).verdict().outcome == "fail"


def test_a_cancelled_check_deletes_its_machine() -> None:
    scenario = Scenario()
    scenario.google.on_status = scenario.cancel.set
    assert scenario.verdict() == Verdict("cancelled", "the check was cancelled", A)
    assert scenario.google.log[-1] == ("delete", A)


def test_a_check_cancelled_while_its_machine_is_made_waits_for_it_and_deletes_it() -> None:
    scenario = Scenario(boots_in=30)

    def say(text: str) -> None:
        scenario.messages.append(text)
        if "provisioning" in text:
            scenario.cancel.set()

    runner = GateRunner(scenario.google, say, scenario.cancel, scenario.clock)
    assert runner.run(scenario.spec).outcome == "cancelled"
    assert scenario.google.machines == {}
    assert scenario.clock.time >= 30


def test_what_an_earlier_check_left_is_removed_first() -> None:
    scenario = Scenario(leftovers={B: ["l4-check-old111"]})
    scenario.verdict()
    assert scenario.google.log[0] == ("delete", B)
    assert scenario.messages[0] == "deleting l4-check-old111, left in us-central1-b by an earlier check"
    assert scenario.google.leftovers == {B: []}


def test_a_failed_deletion_is_logged_and_keeps_the_verdict() -> None:
    scenario = Scenario(delete_error=ApiError("forbidden", "Required 'compute.instances.delete' permission", 403))
    runner = GateRunner(
        scenario.google, scenario.messages.append, scenario.cancel, scenario.clock, suffix=lambda: "abc123"
    )
    assert runner.run(scenario.spec).outcome == "pass"
    assert scenario.messages[-1] == (
        "could not delete l4-check-abc123 in us-central1-a (Required 'compute.instances.delete' permission); "
        "Google deletes it at its time limit"
    )


@pytest.mark.parametrize(("part", "one", "other"), [("gate", "l4-gate", "t4-gate"), ("template", "/t-1", "/t-2")])
def test_two_gates_never_take_each_others_machines_for_leftovers(part: str, one: str, other: str) -> None:
    first, second = Scenario(), Scenario()
    second.spec = replace(first.spec, **{part: getattr(first.spec, part).replace(one, other)})
    first.verdict()
    second.verdict()
    labels = [scenario.google.bodies[0]["labels"]["gpu-ci-gate"] for scenario in (first, second)]
    assert labels[0] != labels[1]
    assert max(map(len, labels)) <= 63


def test_a_template_that_is_named_with_its_id_is_asked_for_without() -> None:
    scenario = Scenario()
    scenario.spec = replace(scenario.spec, template=f"{scenario.spec.template}?uniqueId=1234567890")
    assert scenario.verdict().outcome == "pass"
