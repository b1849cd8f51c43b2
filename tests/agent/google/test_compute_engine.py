"""The agent's requests to Google, with a fake server that answers like Google or fails."""

from __future__ import annotations

import json
import time

import pytest
from gpu_agent.clock import Clock
from gpu_agent.google.compute_engine import GoogleHost, Metadata
from gpu_agent.host import Notice
from gpu_agent.outcomes import AgentExit

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


def test_a_runner_is_named_differently_from_that_of_an_earlier_machine(google: FakeGoogle) -> None:
    assert host(google).name() == "l4-x7k2-42"


def test_a_guest_attribute_is_written_without_what_looks_like_a_secret(google: FakeGoogle) -> None:
    host(google).publish("gpu-agent/end", "ghs_abcdefgh é")
    assert google.published == [("gpu-agent/end", "[redacted] é")]


def test_a_guest_attribute_that_is_refused_is_an_error_at_once(google: FakeGoogle) -> None:
    google.faults = [Fault("guest-attributes", 1, status=403)]
    with pytest.raises(OSError, match="the metadata server answered 403"):
        host(google).publish("gpu-agent/end", "{}")


def test_a_guest_attribute_that_google_dropped_is_written_again(google: FakeGoogle) -> None:
    clock = Ticking()
    google.clock = clock.now
    google.queries = [clock.now()] * 3  # This is the effect of another reader that sends too many queries.
    host(google, clock).publish("gpu-smoke/verdict", "{}")
    assert google.dropped == ["gpu-smoke/verdict"]
    assert google.published == [("gpu-smoke/verdict", "{}")]


def test_a_secret_that_differs_from_its_checksum_is_not_used(google: FakeGoogle) -> None:
    google.secrets[NAME], google.checksum = KEY, "1"
    assert refused(google, reason="secrets-unreachable")[0].startswith(f"{NAME}: the payload differs from its checksum")


def test_a_missing_secret_is_refused_at_once_with_googles_message(google: FakeGoogle) -> None:
    assert refused(google) == (f"{NAME}: 404 Secret [{NAME}] not found.", 0)


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


def test_a_secret_server_that_cuts_its_answers_stops_no_pool(google: FakeGoogle) -> None:
    google.faults = [Fault(":access", 1000, cut=True)]
    refused(google, reason="secrets-unreachable")


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


def test_a_path_that_does_not_fit_into_a_url_gives_no_answer() -> None:
    assert Metadata("127.0.0.1:1", Ticking()).read_once("instance/pre empted\n", 1) == ("", "")


def test_the_power_is_cut_if_shutdown_fails(google: FakeGoogle) -> None:
    cut: list[str] = []
    with pytest.raises(OSError, match="cannot be switched off"):
        GoogleHost(Ticking(), google.environ, ("false",), lambda: cut.append("power")).power_off()
    assert cut == ["power"]
