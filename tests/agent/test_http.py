"""A request has one deadline, and only a complete answer counts."""

from __future__ import annotations

import io
import socket
import ssl
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from gpu_agent.clock import Clock
from gpu_agent.http import Answer, Unreachable, ask, download

from tests.agent.fakes.peer import Talk, drips, hangs, peer, says

CLOCK = Clock()
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


def asked(url: str, within_sec: float = 20, **more: Any) -> Answer:
    return ask("GET", url, deadline=CLOCK.now() + within_sec, clock=CLOCK, **more)


def why_not(talk: Talk, within_sec: float = 20, **more: Any) -> str:
    with peer(talk) as made, pytest.raises(Unreachable) as failed:
        asked(made.url, within_sec, **more)
    return failed.value.reason


def test_a_request_has_the_given_headers_and_closes_its_connection():
    with peer(says(OK)) as made:
        ask(
            "POST",
            f"{made.url}/a/b?c=d#part",
            headers={"X-Key": "value"},
            body=b"{}",
            deadline=CLOCK.now() + 20,
            clock=CLOCK,
        )
        [head, *lines] = made.requests[0].decode().split("\r\n")
    assert head == "POST /a/b?c=d HTTP/1.1"
    assert {"X-Key: value", "Connection: close", f"Host: 127.0.0.1:{made.port}", "Content-Length: 2"} <= set(lines)


def test_a_redirect_is_returned_and_not_followed():
    with peer(says(b"HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n")) as made:
        assert asked(made.url).status == 302
        assert len(made.requests) == 1


@pytest.mark.parametrize(
    "talk",
    [
        pytest.param(hangs, id="that says nothing"),
        pytest.param(drips(OK), id="that drips its headers"),
        pytest.param(drips(b"HTTP/1.1 200 OK\r\n" + b"X-Header: value\r\n" * 1000), id="whose headers never end"),
        pytest.param(drips(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000), id="that says to go on for ever"),
    ],
)
def test_the_deadline_holds_against_a_peer(talk: Talk):
    begun = time.monotonic()
    assert why_not(talk, within_sec=0.3) == "no complete answer before the deadline"
    # This does not measure speed. Without the deadline the first server never answers, and the others need more than a
    # second.
    assert time.monotonic() - begun > 0.29


def test_the_deadline_holds_against_a_peer_that_drips_its_body():
    def talk(made: Any, stream: socket.socket) -> None:
        stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        drips(b"x" * 1000)(made, stream)

    assert why_not(talk, within_sec=0.3) == "no complete answer before the deadline"


def test_the_deadline_holds_against_a_name_server_that_hangs(monkeypatch: pytest.MonkeyPatch):
    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [] if over.wait() else None)
    begun = time.monotonic()
    with pytest.raises(Unreachable) as failed:
        asked("http://somewhere.example", 0.1)
    # The lookup continues until here, so only the deadline can have ended the wait.
    assert time.monotonic() - begun < 4
    over.set()
    assert failed.value.reason == "no complete answer before the deadline"


def test_the_error_of_a_closed_port_has_the_address_without_its_query():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(Unreachable) as failed:
        asked(f"http://127.0.0.1:{port}/path?token=planted")
    assert str(failed.value) == f"GET http://127.0.0.1:{port}/path: Connection refused"


def test_the_next_address_is_tried_if_the_first_refuses(monkeypatch: pytest.MonkeyPatch):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        closed = listener.getsockname()[1]
    with peer(says(OK)) as made:
        stream = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
        found = [(*stream, ("127.0.0.1", closed)), (*stream, ("127.0.0.1", made.port))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        assert asked("http://two.example").body == b"hello"


@pytest.mark.parametrize("value", ["planted\r\nX-Other: 1", "planted\n", "plant\0ed", "plantéd"])
def test_a_header_cannot_hold_another_and_the_refusal_does_not_quote_it(value: str):
    with pytest.raises(ValueError, match=r"^header X-Key: its value") as refused:
        asked("http://127.0.0.1:1", headers={"X-Key": value})
    assert "plant" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1/a\r\nX-Other: 1",
        "http://127.0.0.1:1/planted HTTP/1.1",
        "http://user:planted@127.0.0.1:1/",
        "ftp://127.0.0.1/planted",
        "file:///etc/planted",
        "http:///planted",
        "http://127.0.0.1:planted/",
        "http://127.0.0.1:99999/planted",
        "http://127.0.0.1:0/planted",
        "http://[planted/",
    ],
)
def test_an_unusual_url_is_refused_without_quoting_it(url: str):
    with pytest.raises(ValueError, match=r"URL") as refused:
        asked(url)
    assert "planted" not in str(refused.value)


@pytest.mark.parametrize(
    ("chunks", "reason"),
    [
        (b"-5\r\nabc\r\n0\r\n\r\n", "the answer is truncated or is not HTTP (ValueError)"),
        (b"-1\r\nabc", "the answer is truncated or is not HTTP (IncompleteRead)"),
        (b"z\r\nabc\r\n0\r\n\r\n", "the answer is truncated or is not HTTP (IncompleteRead)"),
    ],
)
def test_a_chunk_without_a_valid_length_is_an_error(chunks: bytes, reason: str):
    assert why_not(says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks)) == reason


def downloaded(url: str, limit_bytes: int = 100) -> bytes:
    sink = io.BytesIO()
    download(url, sink, deadline=CLOCK.now() + 20, clock=CLOCK, limit_bytes=limit_bytes)
    return sink.getvalue()


@pytest.mark.parametrize("target", ["http://192.0.2.1/file", "ftp://127.0.0.1/file", "file:///etc/passwd"])
def test_a_download_follows_no_redirect_to_http(target: str):
    with (
        peer(says(_moved(target))) as made,
        pytest.raises(Unreachable, match="redirects to an address without https"),
    ):
        downloaded(made.url)


def test_a_download_follows_no_redirect_from_https_to_a_server_of_this_machine(
    tls: ssl.SSLContext, certificate: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    refused = pytest.raises(Unreachable, match="redirects to an address without https")
    with peer(says(OK)) as there, peer(says(_moved(there.url)), tls) as made, refused:
        downloaded(f"https://127.0.0.1:{made.port}")
    assert there.requests == []


def test_a_truncated_download_fails():
    with peer(says(OK[:-1])) as made, pytest.raises(Unreachable, match="truncated: 1 bytes are missing"):
        downloaded(made.url)


def test_a_download_over_its_limit_fails():
    with peer(says(OK)) as made, pytest.raises(Unreachable, match="longer than 4 bytes"):
        downloaded(made.url, limit_bytes=4)


def _moved(target: str) -> bytes:
    return f"HTTP/1.1 302 Found\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n".encode()


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
