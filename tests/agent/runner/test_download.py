"""A download is complete, comes from the requested address, and sends no headers to the target of a redirect."""

from __future__ import annotations

import io
import ssl
from pathlib import Path

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
