"""TLS: only a server with a trusted certificate for its name gives an answer."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from gpu_agent.clock import Clock
from gpu_agent.http import Answer, Unreachable, ask

from tests.agent.fakes.peer import hangs, peer, says

CLOCK = Clock()
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


def asked(url: str, within_sec: float = 20) -> Answer:
    return ask("GET", url, deadline=CLOCK.now() + within_sec, clock=CLOCK)


def test_the_deadline_holds_against_a_peer_that_hangs_in_the_tls_handshake():
    with peer(hangs) as made, pytest.raises(Unreachable) as failed:
        asked(f"https://127.0.0.1:{made.port}", 0.3)
    assert failed.value.reason == "no complete answer before the deadline"


def test_an_untrusted_certificate_is_an_error(tls: ssl.SSLContext):
    with peer(says(OK), tls) as made, pytest.raises(Unreachable) as failed:
        asked(f"https://127.0.0.1:{made.port}")
    assert failed.value.reason == "its certificate is not trusted: self-signed certificate"
    assert made.requests == []


def test_a_certificate_of_another_host_is_an_error(
    tls: ssl.SSLContext, certificate: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with peer(says(OK), tls) as made, pytest.raises(Unreachable) as failed:
        asked(f"https://localhost:{made.port}")
    assert failed.value.reason.startswith("its certificate is not trusted: Hostname mismatch")


def test_a_trusted_server_answers_over_tls(tls: ssl.SSLContext, certificate: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with peer(says(OK), tls) as made:
        assert asked(f"https://127.0.0.1:{made.port}").body == b"hello"
