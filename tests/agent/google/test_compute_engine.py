"""The agent's requests to Google, with a fake server that answers like Google or fails."""

from __future__ import annotations

import json
import os
import time
from urllib.parse import parse_qs, urlsplit

import pytest
from gpu_agent.clock import Clock
from gpu_agent.google.compute_engine import GoogleHost
from gpu_agent.google.crc32c import crc32c
from gpu_agent.google.metadata import Metadata
from gpu_agent.host import Notice
from gpu_agent.outcomes import AgentExit

from tests.agent.fakes.boot import Tools
from tests.agent.fakes.clock import FakeClock
from tests.agent.fakes.google import TOKEN, FakeGoogle, Fault

NAME = "projects/example-ci/secrets/github-app-key"
KEY = b"-----BEGIN RSA PRIVATE KEY-----\nMII=\n-----END RSA PRIVATE KEY-----\n"


class Ticking(FakeClock):
    """A clock with real time, in which a sleep takes no time but is counted."""

    def __init__(self) -> None:
        super().__init__()
        self.offset = self.now_sec - time.monotonic()

    def now(self) -> float:
        return time.monotonic() + self.offset

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.offset += seconds


def host(google: FakeGoogle, clock: Clock | None = None) -> GoogleHost:
    return GoogleHost(clock or Ticking(), google.environ)


def secret(google: FakeGoogle, within_sec: float = 600, grant_sec: float = 120) -> tuple[bytes, Ticking]:
    clock = Ticking()
    return host(google, clock).secret(NAME, clock.now() + within_sec, grant_sec), clock


def refused(google: FakeGoogle, within_sec: float = 300, reason: str = "no-secret") -> tuple[str, float]:
    """Return the detail and the waits of a read of the secret that ended with this reason."""
    clock = Ticking()
    with pytest.raises(AgentExit) as raised:
        host(google, clock).secret(NAME, clock.now() + within_sec, 120)
    assert raised.value.end.reason == reason
    # A failure of Secret Manager stops no pool, because the next machine may get an answer.
    assert raised.value.end.stops_pool == (reason == "no-secret")
    return raised.value.detail, sum(clock.slept)


def test_an_existing_attribute_is_returned_and_a_missing_one_is_none(google: FakeGoogle) -> None:
    google.attributes["gpu-agent-config"] = "{}"
    assert host(google).attribute("gpu-agent-config") == "{}"
    assert host(google).attribute("gpu-ci-role") is None


@pytest.mark.parametrize("fault", [Fault("x", 3, status=503), Fault("x", 3, status=403), Fault("x", 3, cut=True)])
def test_a_failed_request_to_the_metadata_server_is_retried(google: FakeGoogle, fault: Fault) -> None:
    google.attributes["x"] = "value"
    google.faults = [fault]
    assert host(google).attribute("x") == "value"
    assert len(google.asked) == 4


def test_a_missing_metadata_server_ends_the_read_after_two_minutes(google: FakeGoogle) -> None:
    google.faults = [Fault("x", 1000, status=503)]
    clock = Ticking()
    with pytest.raises(AgentExit, match="timed-out: the metadata server answered 503 to instance/attributes/x"):
        host(google, clock).attribute("x")
    assert 110 <= sum(clock.slept) <= 120


def test_a_runner_is_named_differently_from_that_of_an_earlier_machine(google: FakeGoogle) -> None:
    assert host(google).name() == "l4-x7k2-42"


def test_a_guest_attribute_is_written_without_what_looks_like_a_secret(google: FakeGoogle) -> None:
    host(google).publish("gpu-agent/end", "ghs_abcdefgh é")
    assert google.published == [("gpu-agent/end", "[redacted] é")]


def test_a_guest_attribute_that_is_refused_is_an_error_at_once(google: FakeGoogle) -> None:
    google.faults = [Fault("guest-attributes", 1, status=403)]
    with pytest.raises(OSError, match="the metadata server answered 403"):
        host(google).publish("gpu-agent/end", "{}")


def test_a_guest_attribute_that_meets_a_busy_server_is_written_later(google: FakeGoogle) -> None:
    google.faults = [Fault("guest-attributes", 2, status=429)]
    host(google).publish("gpu-agent/end", "{}")
    assert google.published == [("gpu-agent/end", "{}")]


def test_a_guest_attribute_that_google_dropped_is_written_again(google: FakeGoogle) -> None:
    clock = Ticking()
    google.clock = clock.now
    google.queries = [clock.now()] * 3  # This is the effect of another reader that sends too many queries.
    host(google, clock).publish("gpu-smoke/verdict", "{}")
    assert google.dropped == ["gpu-smoke/verdict"]
    assert google.published == [("gpu-smoke/verdict", "{}")]


def test_a_guest_attribute_that_still_has_its_old_value_is_written_again(google: FakeGoogle) -> None:
    clock = Ticking()
    google.clock = clock.now
    google.queries = [clock.now() - 0.9] * 3  # The write is above the limit, and the next read is below it.
    google.published = [("gpu-smoke/verdict", "old")]
    host(google, clock).publish("gpu-smoke/verdict", "{}")
    assert google.dropped == ["gpu-smoke/verdict"]
    assert google.published == [("gpu-smoke/verdict", "old"), ("gpu-smoke/verdict", "{}")]


def test_a_verdict_and_an_end_in_one_moment_stay_below_three_queries_a_second(google: FakeGoogle) -> None:
    clock = Ticking()
    google.clock = clock.now
    cloud = host(google, clock)
    for key in ("gpu-smoke/verdict", "gpu-agent/end"):
        cloud.publish(key, "{}")
    assert google.dropped == []
    assert len(google.queries) == 4
    assert max(sum(at <= other < at + 1 for other in google.queries) for at in google.queries) == 2


def test_an_agent_and_its_supervisor_together_stay_below_three_queries_a_second(google: FakeGoogle) -> None:
    cloud = host(google, Clock())
    agent = os.fork()
    if agent == 0:
        try:
            cloud.publish("gpu-agent/key", "{}")
        finally:
            os._exit(0)
    cloud.publish("gpu-smoke/verdict", "{}")
    assert os.waitpid(agent, 0) == (agent, 0)
    assert sorted(google.published) == [("gpu-agent/key", "{}"), ("gpu-smoke/verdict", "{}")]


def test_a_guest_attribute_that_is_never_accepted_is_an_error(google: FakeGoogle) -> None:
    google.faults = [Fault("guest-attributes", 1000, status=503)]
    with pytest.raises(OSError, match="the metadata server answered 503"):
        host(google).publish("gpu-agent/end", "{}")


@pytest.mark.parametrize("checksum", [None, str(crc32c(KEY))])
def test_a_secret_comes_whole(google: FakeGoogle, checksum: str | None) -> None:
    google.secrets[NAME], google.checksum = KEY, checksum
    assert secret(google)[0] == KEY
    assert google.asked[-1] == f"GET /v1/{NAME}/versions/latest:access"


def test_a_secret_that_differs_from_its_checksum_is_not_used(google: FakeGoogle) -> None:
    google.secrets[NAME], google.checksum = KEY, "1"
    assert refused(google, reason="secrets-unreachable")[0].startswith(f"{NAME}: the payload differs from its checksum")


def test_a_missing_secret_is_refused_at_once_with_googles_message(google: FakeGoogle) -> None:
    assert refused(google) == (f"{NAME}: 404 Secret [{NAME}] not found.", 0)


def test_a_grant_may_take_two_minutes_to_arrive(google: FakeGoogle) -> None:
    google.secrets[NAME] = KEY
    google.faults = [Fault(":access", 8, status=403)]
    value, clock = secret(google)
    assert value == KEY
    assert 50 <= sum(clock.slept) <= 120


def test_a_machine_that_can_wait_takes_a_grant_of_seven_minutes(google: FakeGoogle) -> None:
    google.secrets[NAME] = KEY
    google.faults = [Fault(":access", 40, status=403)]
    value, clock = secret(google, grant_sec=420)
    assert value == KEY
    assert 120 < sum(clock.slept) <= 420


def test_a_grant_that_does_not_come_is_refused_before_the_deadline(google: FakeGoogle) -> None:
    body = json.dumps({"error": {"message": "Permission denied"}}).encode()
    google.faults = [Fault(":access", 1000, status=403, body=body)]
    words, waited = refused(google)
    assert words == (
        f"{NAME}: 403 Permission denied; refused account: gpu@example-ci.iam.gserviceaccount.com; "
        "gcloud secrets add-iam-policy-binding github-app-key --project example-ci "
        "--member serviceAccount:gpu@example-ci.iam.gserviceaccount.com --role roles/secretmanager.secretAccessor"
    )
    assert 110 <= waited <= 140


@pytest.mark.parametrize("status", [429, 500, 503])
def test_requests_to_secret_manager_are_repeated_until_the_deadline(google: FakeGoogle, status: int) -> None:
    google.faults = [Fault(":access", 1000, status=status)]
    words, waited = refused(google, within_sec=200, reason="secrets-unreachable")
    assert words.startswith(f"{NAME}: {status}")
    assert 180 <= waited <= 200


def test_a_machine_that_does_not_know_its_account_reports_the_refusal(google: FakeGoogle) -> None:
    del google.values["instance/service-accounts/default/email"]
    google.faults = [Fault(":access", 1000, status=403)]
    assert refused(google)[0] == f"{NAME}: 403"


def test_a_secret_server_that_cuts_its_answers_stops_no_pool(google: FakeGoogle) -> None:
    google.faults = [Fault(":access", 1000, cut=True)]
    refused(google, reason="secrets-unreachable")


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"payload": {"data": "!"}}', b'{"payload": []}'])
def test_an_answer_without_a_payload_is_no_secret(google: FakeGoogle, body: bytes) -> None:
    google.faults = [Fault(":access", 1000, status=200, body=body)]
    assert refused(google, reason="secrets-unreachable")[0].startswith(f"{NAME}: the answer has no payload")


def test_a_machine_without_a_service_account_cannot_read_a_secret(google: FakeGoogle) -> None:
    del google.values["instance/service-accounts/default/token"]
    assert refused(google)[0] == "the machine has no service account"


def test_no_error_about_a_secret_contains_its_value(google: FakeGoogle) -> None:
    google.faults = [Fault(":access", 1, status=400, body=json.dumps({"error": {"message": f"no {TOKEN}"}}).encode())]
    assert refused(google)[0] == f"{NAME}: 400 no [redacted]"


def test_a_log_entry_is_the_machines_and_holds_no_secret(google: FakeGoogle) -> None:
    host(google).log("ERROR", "refused: ghs_abcdef", 5, reason="refused")
    assert google.logged == [
        {
            "logName": "projects/example-ci/logs/gpu-agent",
            "resource": {
                "type": "gce_instance",
                "labels": {"project_id": "example-ci", "instance_id": "42", "zone": "us-central1-a"},
            },
            "entries": [{"severity": "ERROR", "jsonPayload": {"reason": "refused", "message": "refused: [redacted]"}}],
        }
    ]


@pytest.mark.parametrize("path", ["entries:write", "token", "project-id"])
def test_a_log_that_is_down_ends_no_machine(google: FakeGoogle, path: str) -> None:
    google.faults = [Fault(path, 1000, status=500)]
    host(google).log("INFO", "fine", 5)


def test_a_preemption_ends_the_wait_for_a_notice(google: FakeGoogle) -> None:
    google.faults = [Fault("instance/preempted", 1, status=503)]
    google.values["instance/preempted"] = "TRUE"
    words = "Google preempts the machine (instance/preempted is TRUE)"
    assert host(google).notice(30) == Notice("preempted", words)


def test_the_end_of_the_host_is_a_notice_and_a_migration_is_not(google: FakeGoogle) -> None:
    google.values["instance/maintenance-event"] = "MIGRATE_ON_HOST_MAINTENANCE"
    assert host(google).notice(0) is None
    google.values["instance/maintenance-event"] = "TERMINATE_ON_HOST_MAINTENANCE"
    words = "host maintenance is announced (instance/maintenance-event is TERMINATE_ON_HOST_MAINTENANCE)"
    assert host(google).notice(0) == Notice("maintenance", words)


def test_a_metadata_server_that_answers_at_once_gets_one_request_a_second(google: FakeGoogle) -> None:
    google.faults = [Fault("instance/", 1000, status=503)]
    clock = Ticking()
    assert host(google, clock).notice(5) is None
    assert len([line for line in google.asked if "preempted" in line]) in (5, 6)


@pytest.mark.parametrize("etag", ["a b&timeout_sec=9#", "\xff\x80"])
def test_the_next_notice_arrives_after_any_etag(google: FakeGoogle, etag: str) -> None:
    google.etag = etag
    heard = host(google)
    assert heard.notice(1.9) is None
    google.values["instance/preempted"] = "TRUE"
    assert heard.notice(1.9) is not None
    sent = [parse_qs(urlsplit(line).query, encoding="latin-1") for line in google.asked if "last_etag" in line]
    assert (sent[-1]["last_etag"], sent[-1]["timeout_sec"]) == ([etag], ["1"])


def test_a_path_that_does_not_fit_into_a_url_gives_no_answer() -> None:
    assert Metadata("127.0.0.1:1", Ticking()).read_once("instance/pre empted\n", 1) == ("", "")


def test_the_checksum_is_that_of_the_standard() -> None:
    """The values are from RFC 3720, appendix B.4, and the check value of CRC-32/ISCSI."""
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(b"") == 0


@pytest.mark.parametrize(("fails", "asked"), [(0, 1), (2, 3)])
def test_the_power_off_is_repeated_if_it_fails(google: FakeGoogle, tools: Tools, fails: int, asked: int) -> None:
    calls = tools.folder / "told"
    tools.add("shutdown", f'echo "$*" >>{calls}; (($(wc -l <{calls}) > {fails}))')
    tools.only("wc")
    host(google).power_off()
    assert calls.read_text() == "-h now\n" * asked


@pytest.mark.parametrize("there", [True, False])
def test_a_machine_that_stays_on_is_left_to_the_boot_script(google: FakeGoogle, tools: Tools, there: bool) -> None:
    if there:
        tools.add("shutdown", "exit 1")
    cut: list[int] = []
    with pytest.raises(OSError, match="the machine cannot be switched off"):
        GoogleHost(Ticking(), google.environ, cut_power=lambda: cut.append(1)).power_off()
    assert cut == [1]
