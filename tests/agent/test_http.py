"""A request has one deadline, and only a complete answer counts."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

import pytest
from gpu_agent import http
from gpu_agent.clock import Clock
from gpu_agent.http import Answer, Unreachable, ask

from tests.agent.fakes.peer import Talk, drips, hangs, peer, resets, says

CLOCK = Clock()
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


def asked(url: str, within_sec: float = 20, **more: Any) -> Answer:
    return ask("GET", url, deadline=CLOCK.now() + within_sec, clock=CLOCK, **more)


def why_not(talk: Talk, within_sec: float = 20, **more: Any) -> str:
    with peer(talk) as made, pytest.raises(Unreachable) as failed:
        asked(made.url, within_sec, **more)
    return failed.value.reason


def test_an_answer_has_its_status_its_lower_case_headers_and_its_body():
    with peer(says(b"HTTP/1.1 404 No\r\nX-One: 1\r\nx-one: 2\r\nContent-Length: 2\r\n\r\nno and more")) as made:
        assert asked(made.url) == (404, {"x-one": "1, 2", "content-length": "2"}, b"no")


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


def test_a_body_in_chunks_is_put_together():
    with peer(says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n")) as made:
        assert asked(made.url).body == b"hello"


def test_an_answer_without_a_body_is_an_answer():
    with peer(says(b"HTTP/1.1 204 No Content\r\n\r\n")) as made:
        assert asked(made.url) == (204, {}, b"")


def test_a_redirect_is_returned_and_not_followed():
    with peer(says(b"HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n")) as made:
        assert asked(made.url).status == 302
        assert len(made.requests) == 1


def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with peer(says(OK)) as made:
        assert asked(made.url).body == b"hello"


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


def test_the_deadline_holds_against_a_peer_that_does_not_read():
    assert why_not(hangs, within_sec=0.3, body=b"x" * 50_000_000) == "no complete answer before the deadline"


def test_the_deadline_holds_against_a_peer_that_reads_a_little_at_a_time():
    read: list[int] = []

    def talk(made: Any, stream: socket.socket) -> None:
        while piece := stream.recv(65_536):
            read.append(len(piece))
            if made.over.wait(0.004):
                break

    assert why_not(talk, within_sec=0.3, body=b"x" * 50_000_000) == "no complete answer before the deadline"
    assert sum(read) < 25_000_000, "it was given all the time that it took"


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


def test_no_request_is_sent_after_the_deadline():
    with peer(says(OK)) as made, pytest.raises(Unreachable):
        asked(made.url, 0)
    assert made.requests == []


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (OK[:-2], "the answer is truncated: 2 bytes are missing"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
            "the answer is truncated or is not HTTP (IncompleteRead)",
        ),
        (
            b"HTTP/1.1 200 OK\r\n\r\nhello",
            "the answer has no length, so a truncated one would not be detected",
        ),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "the answer is truncated or is not HTTP (BadStatusLine)"),
        (b"", "RemoteDisconnected"),
    ],
)
def test_an_incomplete_answer_is_an_error(answer: bytes, reason: str):
    assert why_not(says(answer)) == reason


def test_an_answer_over_its_limit_is_an_error():
    assert why_not(says(OK), limit_bytes=4) == "the answer is longer than 4 bytes"
    with peer(says(OK)) as made:
        assert asked(made.url, limit_bytes=5).body == b"hello"


def test_a_reset_connection_is_no_answer():
    assert why_not(resets) == "Connection reset by peer"


def test_the_error_of_a_closed_port_has_the_address_without_its_query():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(Unreachable) as failed:
        asked(f"http://127.0.0.1:{port}/path?token=planted")
    assert str(failed.value) == f"GET http://127.0.0.1:{port}/path: Connection refused"


def test_an_unknown_name_is_an_error(monkeypatch: pytest.MonkeyPatch):
    def unknown(*_: Any, **__: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(Unreachable) as failed:
        asked("https://nowhere.example")
    assert failed.value.reason == "Name or service not known"


def test_the_next_address_is_tried_if_the_first_refuses(monkeypatch: pytest.MonkeyPatch):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        closed = listener.getsockname()[1]
    with peer(says(OK)) as made:
        stream = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
        found = [(*stream, ("127.0.0.1", closed)), (*stream, ("127.0.0.1", made.port))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        assert asked("http://two.example").body == b"hello"


def test_a_header_in_the_answer_is_not_repeated_in_the_error():
    def echoes(made: Any, stream: socket.socket) -> None:
        stream.sendall(stream.recv(65_536))

    with peer(echoes) as made, pytest.raises(Unreachable) as failed:
        asked(made.url, headers={"Authorization": "planted"})
    assert "planted" not in repr(failed.value) + str(failed.value)


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


def test_a_chunk_with_a_negative_length_is_an_error(monkeypatch: pytest.MonkeyPatch):
    """http.client reads a chunk of -1 bytes until the connection ends."""
    monkeypatch.setattr(http, "_ENVELOPE_BYTES", 1000)
    talk = says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n" + b"x" * 300_000)
    assert why_not(talk, limit_bytes=1000) == "the answer is longer than the limit"


def test_an_ip_address_needs_no_thread(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(threading.Thread, "start", full)
    with pytest.raises(Unreachable) as failed:
        asked("http://metadata.google.internal/")
    assert failed.value.reason == "no thread for the name lookup could be started"
    for address in ("127.0.0.1", "::1"):
        assert http._addresses(address, 80, CLOCK.now() + 20, CLOCK)[0][4][:2] == (address, 80)


def full(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")
