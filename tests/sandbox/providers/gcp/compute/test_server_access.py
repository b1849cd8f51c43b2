"""Who may use the servers of the sandbox: only its user, not another user of the computer, and no web page."""

from __future__ import annotations

import encodings.idna  # noqa: F401 - another user cannot import it later
import http.client
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pulumi_sandbox.providers.machines import local_server, metadata
from pulumi_sandbox.providers.machines.local_server import Answer, LocalServer

from tests.sandbox.providers.gcp.conftest import Google

NOBODY = 65534
# The attack: ask for a token, and insert a VM with a startup script.
ATTACK = (
    ("GET", "/computeMetadata/v1/instance/service-accounts/default/token", {"Metadata-Flavor": "Google"}),
    ("POST", "/compute/v1/projects/p/zones/us-central1-a/instances", {"Authorization": "Bearer ya29.pulumi-sandbox"}),
)


@pytest.fixture
def served() -> Iterator[tuple[LocalServer, list[str]]]:
    ran: list[str] = []

    def answer(request: local_server.Request) -> Answer:
        ran.append(request.content.decode())
        return Answer(200, "ran", "text/plain")

    server = LocalServer("test", answer, ("GET", "POST"))
    yield server, ran
    server.close()


def status(port: int, headers: dict[str, str], body: str | None = None, path: str = "/") -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.putrequest("POST", path, skip_host=True)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders(body.encode() if body else None)
    found = connection.getresponse().status
    connection.close()
    return found


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Host": "127.0.0.1:{port}"}, 200),
        ({"Host": "localhost:{port}"}, 200),
        ({"Host": "attacker.example"}, 403),
        ({"Host": "attacker.example:{port}"}, 403),
        ({"Host": "127.0.0.1"}, 403),
        ({}, 403),
        ({"Host": "127.0.0.1:{port}", "Content-Length": str(100 * 1024 * 1024)}, 413),
        ({"Host": "127.0.0.1:{port}", "Content-Length": "-1"}, 400),
    ],
)
def test_a_foreign_host_and_a_large_body_are_refused(
    served: tuple[LocalServer, list[str]], headers: dict[str, str], expected: int
) -> None:
    server, ran = served
    filled = {name: value.format(port=server.port) for name, value in headers.items()}
    assert (status(server.port, filled), len(ran)) == (expected, int(expected == 200))


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def as_nobody(port: int) -> list[int]:
    """The statuses that another user gets. A fork, because that user cannot read the interpreter of root."""
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            for method, path, headers in ATTACK:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
                connection.request(method, path, "{}", headers)
                os.write(writer, f"{connection.getresponse().status} ".encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as answers:
        return [int(each) for each in answers.read().split()]


@needs_root
def test_another_user_of_the_computer_gets_no_token_and_runs_nothing(
    google: Google, monkeypatch: pytest.MonkeyPatch
) -> None:
    google.cloud.configure({"project": "p"})
    port = google.workspace.compute_port
    assert as_nobody(port) == [403, 403]
    # Where the system has no table of connections, the constant token of version 0.1.0 opens nothing.
    monkeypatch.setattr(local_server, "CONNECTIONS", (Path("/missing"), Path("/missing")))
    assert as_nobody(port)[1] == 401


def test_each_process_has_tokens_of_its_own() -> None:
    show = "from pulumi_sandbox.providers.machines.metadata import TOKEN; print(TOKEN)"
    environment = {name: value for name, value in os.environ.items() if name != "PULUMI_SANDBOX_TOKEN"}
    shown = [
        subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True, env=environment).stdout
        for _ in range(2)
    ]
    assert len({*shown, f"{metadata.TOKEN}\n"}) == 3
    assert not metadata.is_token("Bearer ya29.pulumi-sandbox")
