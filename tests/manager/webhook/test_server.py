"""The endpoint on a real socket: the requests that reach the hints, and the limits."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest
from gpu_ci.cli.output import InputError
from gpu_manager import webhook
from gpu_manager.webhook import listening

from tests.manager.webhook.test_hints import LABELS, SECRET, headers, queued

BODY = json.dumps(queued("gpu")).encode()


class Endpoint:
    """A receiver that runs on a free port."""

    def __init__(self, port: int, secret: Path, woken: list[str]) -> None:
        self.url, self.secret, self.woken = f"http://127.0.0.1:{port}/webhook", secret, woken


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[Endpoint]:
    secret, woken, port = tmp_path / "secret", list[str](), free_port()
    secret.write_bytes(SECRET + b"\n")
    with listening(f"127.0.0.1:{port}", secret, LABELS, lambda: woken.append("woken")):
        yield Endpoint(port, secret, woken)


def test_a_delivery_wakes_the_manager(endpoint: Endpoint) -> None:
    answer = httpx2.post(endpoint.url, content=BODY, headers=headers(BODY))
    assert (answer.status_code, answer.text) == (202, "the manager looks for jobs\n")
    assert endpoint.woken == ["woken"]


def test_there_is_no_other_page_and_no_other_method(endpoint: Endpoint) -> None:
    assert httpx2.get(endpoint.url).status_code == 405
    assert httpx2.get(endpoint.url.replace("/webhook", "/")).status_code == 404


def test_a_long_body_is_refused_before_it_is_complete(endpoint: Endpoint) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(64):
            yield b"x" * 65536

    assert httpx2.post(endpoint.url, content=endless(), headers=headers(b"")).status_code == 413


def test_a_missing_body_ends_the_request_at_the_time_limit(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "_BODY_WITHIN_SEC", 0.1)
    port = httpx2.URL(endpoint.url).port
    with socket.create_connection(("127.0.0.1", port or 0), timeout=10) as connection:
        connection.sendall(b"POST /webhook HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        assert connection.recv(100).startswith(b"HTTP/1.1 408")


def is_closed(connection: socket.socket) -> bool:
    """Return True if the receiver closes the connection within the time limit of the socket."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_connections_without_a_request_use_up_no_file_descriptors(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections share the manager's process. Without free file descriptors it reaches neither GitHub nor Google."""
    monkeypatch.setattr(webhook, "_CONNECTIONS", 2)
    address = ("127.0.0.1", httpx2.URL(endpoint.url).port or 0)
    with ExitStack() as opened:
        silent = [opened.enter_context(socket.create_connection(address, timeout=5)) for _ in range(3)]
        assert is_closed(silent[2])
        silent[0].close()
        silent[1].close()
        assert httpx2.post(endpoint.url, content=BODY, headers=headers(BODY)).status_code == 202


def test_a_connection_that_sends_its_header_slowly_is_closed(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "_CONNECTION_SEC", 0.1)
    with socket.create_connection(("127.0.0.1", httpx2.URL(endpoint.url).port or 0), timeout=5) as connection:
        connection.sendall(b"POST /webhook HTTP/1.1\r\nHost: x\r\nX-A")
        assert is_closed(connection)


def test_a_new_secret_needs_no_restart(endpoint: Endpoint) -> None:
    new = b"another secret of enough length"
    endpoint.secret.write_bytes(new)
    assert httpx2.post(endpoint.url, content=BODY, headers=headers(BODY)).status_code == 401
    assert httpx2.post(endpoint.url, content=BODY, headers=headers(BODY, secret=new)).status_code == 202
    endpoint.secret.unlink()
    assert httpx2.post(endpoint.url, content=BODY, headers=headers(BODY)).status_code == 503


@pytest.mark.parametrize(
    ("address", "content", "problem"),
    [
        ("127.0.0.1", SECRET, "--webhook: is not an address"),
        ("127.0.0.1:99999", SECRET, "--webhook: is not an address"),
        ("127.0.0.1:1", b"short", "has fewer than 16 characters"),
        ("127.0.0.1:1", None, "No such file or directory"),
    ],
)
def test_a_mistake_is_found_before_the_manager_starts(
    tmp_path: Path, address: str, content: bytes | None, problem: str
) -> None:
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InputError, match=problem) as found:
        listening(address, file, LABELS, lambda: None)
    assert "secret of" not in str(found.value)
