"""A machine that the manager registers: it publishes its key, and accepts only a registration for that key."""

from __future__ import annotations

import base64
import json
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key, pkcs7
from gpu_agent import openssl
from gpu_agent.broker import registration as broker_registration
from gpu_agent.broker.registration import Broker, KeyPair, new_key_pair
from gpu_agent.config import RunnerConfig
from gpu_agent.github.registration import Registration, Run
from gpu_agent.google.compute_engine import GoogleHost
from gpu_agent.outcomes import AgentExit

from tests.agent.fakes.google import FakeGoogle, Fault
from tests.agent.google.test_compute_engine import Ticking

NAME = "l4-x7k2-42"
RUNNER = RunnerConfig(version="2.336.0", sha256={})
MESSAGE = {"machine": NAME, "runnerId": 5, "jitConfig": "eyJwbGFudGVkIjoxfQ=="}
SEALED = "gpu-agent-registration"
FOREIGN, NONE = "is not encrypted for this machine's key", "is not a registration of this machine"


@pytest.fixture(scope="module")
def own_pair() -> KeyPair:
    return new_key_pair()


@pytest.fixture
def pair(own_pair: KeyPair, monkeypatch: pytest.MonkeyPatch) -> KeyPair:
    """Make every key pair of the machine this one."""
    monkeypatch.setattr(broker_registration, "new_key_pair", lambda: own_pair)
    return own_pair


def register(google: FakeGoogle, runner: RunnerConfig = RUNNER, *, within_sec: float = 300.0) -> Registration:
    clock = Ticking()
    return Broker(GoogleHost(clock, google.environ), clock).register(NAME, runner, clock.now() + within_sec)


class Stopped(Ticking):
    """A clock that stops the machine in its first wait. The manager may already have read the key."""

    def sleep(self, seconds: float) -> None:
        if seconds > 0:
            raise AgentExit("stopped", "the machine received a stop signal")


def test_a_machine_that_is_stopped_while_it_publishes_its_key_ends_as_stopped(google: FakeGoogle) -> None:
    clock = Stopped()
    google.clock = clock.now
    broker = Broker(GoogleHost(clock, google.environ), clock)
    with pytest.raises(AgentExit, match=r"^stopped: the machine received a stop signal$") as raised:
        broker.register(NAME, RUNNER, clock.now() + 300)
    assert google.written() == ["gpu-agent/key"]
    assert raised.value.end.stops_pool is False


def ended(google: FakeGoogle) -> str:
    with pytest.raises(AgentExit) as raised:
        register(google)
    return str(raised.value)


def answered(message: Any, certificate: bytes) -> str:
    return base64.b64encode(sealed(json.dumps(message).encode(), certificate)).decode()


def test_the_machine_publishes_its_key_and_decrypts_the_registration(google: FakeGoogle) -> None:
    """The key is real, and the registration is encrypted as by the manager while the machine waits."""

    def manager() -> None:
        while not google.published:
            time.sleep(0.01)
        value = google.last("gpu-agent/key")
        assert value["machine"] == NAME
        google.attributes[SEALED] = answered(MESSAGE, base64.b64decode(value["certificate"]))

    thread = threading.Thread(target=manager)
    thread.start()
    registration = register(google)
    thread.join()
    assert (registration.runner_id, registration.jitconfig) == (5, "eyJwbGFudGVkIjoxfQ==")
    assert google.written() == ["gpu-agent/key"]
    assert MESSAGE["jitConfig"] not in repr(registration)


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ({"usdPerHour": 0.35, "market": "spot"}, (0.35, "spot")),
        ({"usdPerHour": None, "market": "spot"}, (None, "spot")),
        ({"usdPerHour": "free", "market": 1}, (None, "")),
        ({"usdPerHour": True}, (None, "")),
        ({}, (None, "")),
    ],
)
def test_a_registration_may_have_the_price_of_the_machine(
    google: FakeGoogle, pair: KeyPair, sent: dict[str, Any], expected: tuple[float | None, str]
) -> None:
    google.attributes[SEALED] = answered({**MESSAGE, **sent}, pair.certificate)
    registration = register(google)
    assert (registration.usd_per_hour, registration.market) == expected


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ({"run": {"repository": "acme/kernels", "id": 7, "attempt": 2}}, Run("acme/kernels", "7", "2")),
        ({}, "names no run, and this pool is public"),
        ({"run": {}}, "names no run, and this pool is public"),
        ({"run": {"repository": "acme/kernels"}}, FOREIGN),
        ({"run": "all"}, FOREIGN),
    ],
)
def test_a_machine_of_a_public_pool_needs_the_run_of_its_job(
    google: FakeGoogle, pair: KeyPair, sent: dict[str, Any], expected: Run | str
) -> None:
    google.attributes[SEALED] = answered({**MESSAGE, **sent}, pair.certificate)
    if isinstance(expected, Run):
        assert register(google, replace(RUNNER, public=True)).run == expected
    else:
        with pytest.raises(AgentExit, match=f"^not-registered: the metadata {SEALED} {expected}$"):
            register(google, replace(RUNNER, public=True))


def test_a_manager_that_does_not_answer_ends_the_machine(google: FakeGoogle, pair: KeyPair) -> None:
    assert ended(google) == "not-registered: the runner manager sent no registration within 300 s"


def test_after_the_deadline_no_key_is_published(google: FakeGoogle, pair: KeyPair) -> None:
    with pytest.raises(AgentExit) as raised:
        register(google, within_sec=0)
    assert raised.value.end.reason == "not-registered"
    assert not any("guest-attributes" in line for line in google.asked)


def test_a_server_that_answers_at_once_gets_one_request_a_second(google: FakeGoogle, pair: KeyPair) -> None:
    """The server does not hold back its answer to a request for missing metadata."""
    ended(google)
    asked = [line for line in google.asked if SEALED in line]
    assert 25 <= len(asked) <= 301


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (lambda pair: "no base64!", FOREIGN),
        (lambda pair: f"{(whole := answered(MESSAGE, pair.certificate))[:40]}!{whole[40:]}", FOREIGN),
        (lambda pair: answered(MESSAGE, new_key_pair().certificate), FOREIGN),
        (lambda pair: answered("text", pair.certificate), FOREIGN),
        (lambda pair: answered({**MESSAGE, "machine": "l4-x7k2-43"}, pair.certificate), NONE),
        (lambda pair: answered({**MESSAGE, "jitConfig": ""}, pair.certificate), NONE),
        (lambda pair: answered({**MESSAGE, "runnerId": "5"}, pair.certificate), NONE),
    ],
)  # fmt: skip
def test_only_a_registration_for_this_machine_and_key_is_accepted(
    google: FakeGoogle, pair: KeyPair, value: Callable[[KeyPair], str], problem: str
) -> None:
    google.attributes[SEALED] = value(pair)
    assert ended(google) == f"not-registered: the metadata {SEALED} {problem}"


def test_forbidden_guest_attributes_end_the_machine_and_the_rehearsal(google: FakeGoogle, pair: KeyPair) -> None:
    google.faults.append(Fault("guest-attributes", times=99, status=403))
    assert ended(google) == "not-registered: the machine's key could not be published: the metadata server answered 403"
    clock = Ticking()
    with pytest.raises(AgentExit) as raised:
        Broker(GoogleHost(clock, google.environ), clock).rehearse(clock.now() + 60)
    assert raised.value.end.reason == "not-registered"


def test_a_rehearsal_publishes_a_key_and_waits_for_nothing(google: FakeGoogle) -> None:
    clock = Ticking()
    Broker(GoogleHost(clock, google.environ), clock).rehearse(clock.now() + 60)
    assert google.written() == ["gpu-agent/key"]
    assert not any(SEALED in line for line in google.asked)


def test_a_rehearsal_fails_if_openssl_decrypts_nothing(google: FakeGoogle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KeyPair, "open", lambda self, sealed: b"")
    clock = Ticking()
    with pytest.raises(AgentExit) as raised:
        Broker(GoogleHost(clock, google.environ), clock).rehearse(clock.now() + 60)
    assert raised.value.end.reason == "no-tool"


def test_the_machine_never_removes_its_runner_itself(google: FakeGoogle) -> None:
    clock = Ticking()
    assert Broker(GoogleHost(clock, google.environ), clock).remove(5, clock.now() + 5) is False


CONTENT = b'{"jitConfig": "eyJhIjoi"}\r\n' * 200


def sealed(message: bytes, certificate: bytes) -> bytes:
    to = x509.load_der_x509_certificate(certificate)
    envelope = pkcs7.PKCS7EnvelopeBuilder().set_data(message).add_recipient(to)
    return envelope.set_content_encryption_algorithm(AES256).encrypt(Encoding.DER, [pkcs7.PKCS7Options.Binary])


def test_openssl_decrypts_what_cryptography_encrypts(own_pair: KeyPair) -> None:
    assert own_pair.open(sealed(CONTENT, own_pair.certificate)) == CONTENT


def test_cryptography_decrypts_what_openssl_encrypts(own_pair: KeyPair) -> None:
    private = load_pem_private_key(own_pair._private[: own_pair._private.index(b"-----BEGIN CERT")], None)
    certificate = x509.load_der_x509_certificate(own_pair.certificate)
    opened = pkcs7.pkcs7_decrypt_der(own_pair.seal(CONTENT), certificate, private, [])  # type: ignore[arg-type]
    assert opened == CONTENT


def test_each_machine_has_its_own_key_and_decrypts_no_message_of_another(own_pair: KeyPair) -> None:
    other = new_key_pair()
    assert other.certificate != own_pair.certificate
    assert other.open(sealed(CONTENT, own_pair.certificate)) != CONTENT


def test_the_key_has_2048_bits_and_is_in_no_text_of_the_own_pair(own_pair: KeyPair) -> None:
    key = x509.load_der_x509_certificate(own_pair.certificate).public_key()
    assert isinstance(key, RSAPublicKey)
    assert key.key_size == 2048
    assert "PRIVATE" not in repr(own_pair)


@pytest.mark.parametrize("change", [0, 40, -1])
def test_a_changed_message_does_not_decrypt_to_the_original(own_pair: KeyPair, change: int) -> None:
    content = bytearray(sealed(CONTENT, own_pair.certificate))
    content[change] ^= 1
    assert own_pair.open(bytes(content)) != CONTENT


def test_no_key_is_in_an_argument_or_in_the_environment(
    own_pair: KeyPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fake openssl records its arguments and environment, which every user of a machine could read."""
    seen = tmp_path / "seen"
    fake = tmp_path / "openssl"
    fake.write_text(f'#!/bin/sh\n{{ echo "$@"; env; }} >>"{seen}"\nexit 1\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("GPU_AGENT_PLANTED", "planted")
    own_pair.open(b"sealed")
    text = seen.read_text()
    assert "cms -decrypt -binary -inform DER -inkey /dev/fd/" in text
    assert "PRIVATE" not in text
    assert "planted" not in text


def test_without_openssl_there_is_no_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AgentExit) as ended:
        new_key_pair()
    assert str(ended.value) == "no-tool: openssl is not on PATH; it opens the registration of the runner"


def test_an_openssl_that_creates_no_key_ends_with_no_tool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = tmp_path / "openssl"
    fake.write_text("#!/bin/sh\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(AgentExit) as ended:
        new_key_pair()
    assert str(ended.value) == "no-tool: openssl does not create an RSA key; it opens the registration of the runner"


def test_an_openssl_that_hangs_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def hangs(*arguments: object, timeout: float, **_: object) -> None:
        raise subprocess.TimeoutExpired("openssl", timeout)

    monkeypatch.setattr(openssl.subprocess, "run", hangs)
    with pytest.raises(AgentExit) as ended:
        new_key_pair()
    assert str(ended.value) == "timed-out: openssl did not end within 30 s; it opens the registration of the runner"
