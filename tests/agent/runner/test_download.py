"""A download is complete, comes from the requested address, and sends no headers to the target of a redirect."""

from __future__ import annotations

import errno
import io
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gpu_agent.clock import Clock
from gpu_agent.http import Unreachable, download

from tests.agent.fakes.peer import peer, says

CLOCK = Clock()
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


def downloaded(url: str, limit_bytes: int = 100) -> bytes:
    sink = io.BytesIO()
    download(url, sink, deadline=CLOCK.now() + 20, clock=CLOCK, limit_bytes=limit_bytes)
    return sink.getvalue()


def test_a_download_follows_a_redirect_and_takes_no_headers_along():
    with peer(says(OK)) as there, peer(says(_moved(f"{there.url}/file"))) as made:
        assert downloaded(made.url) == b"hello"
    assert b"authorization" not in there.requests[0].lower()
    assert there.requests[0].startswith(b"GET /file HTTP/1.1\r\n")


@pytest.mark.parametrize(
    "location", ["https://[x", "//[", "https://a b/", "https://u:p@h/", "https://h:99999/", "https://"]
)
def test_a_redirect_to_an_invalid_url_fails(location: str):
    with peer(says(_moved(location))) as made, pytest.raises(Unreachable) as failed:
        downloaded(made.url)
    assert failed.value.reason == "redirects to an invalid URL"


def test_a_download_follows_five_redirects_and_no_sixth():
    def talk(last: int) -> Callable[[Any, socket.socket], None]:
        def answer(made: Any, stream: socket.socket) -> None:
            number = int(stream.recv(65_536).split()[1][1:])
            stream.sendall(OK if number == last else _moved(f"/{number + 1}"))

        return answer

    with peer(talk(5)) as made:
        assert downloaded(f"{made.url}/0") == b"hello"
    with peer(talk(6)) as made, pytest.raises(Unreachable, match="redirects more than 5 times"):
        downloaded(f"{made.url}/0")


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


def test_a_missing_download_reports_the_status():
    refused = pytest.raises(Unreachable, match="answered 404 Not Found")
    with peer(says(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")) as made, refused as failed:
        downloaded(made.url)
    assert failed.value.status == 404


def test_a_full_disk_is_not_reported_as_a_network_error():
    class Full(io.BytesIO):
        def write(self, _: Any) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        def writelines(self, lines: Any) -> None:
            for line in lines:
                self.write(line)

    with peer(says(OK)) as made, pytest.raises(OSError, match="No space left") as failed:
        download(made.url, Full(), deadline=CLOCK.now() + 20, clock=CLOCK, limit_bytes=100)
    assert failed.value.errno == errno.ENOSPC
    assert not isinstance(failed.value, Unreachable)


def _moved(target: str) -> bytes:
    return f"HTTP/1.1 302 Found\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n".encode()
