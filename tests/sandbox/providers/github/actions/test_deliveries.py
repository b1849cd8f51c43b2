"""The webhook of the sandbox's GitHub, whose receiver is the runner manager's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from gpu_manager.webhook import Hints, Reply
from pulumi_sandbox.providers.github.actions.deliveries import Deliveries

from tests.sandbox.providers.github.actions.conftest import Hub

SECRET = b"It's a Secret to Everybody"
EXAMPLES = Path(__file__).parents[4] / "manager" / "webhook" / "examples.json"


class Receiver:
    """An HTTP server that hands deliveries to the manager's hints."""

    def __init__(self) -> None:
        self.payloads: list[Any] = []
        self.ids: list[str] = []
        self.replies: list[Reply] = []
        self.hints = Hints(lambda: SECRET, {"gpu"}, lambda: None)
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                given = {name.lower(): value for name, value in self.headers.items()}
                receiver.ids.append(given["x-github-delivery"])
                receiver.payloads.append(json.loads(body))
                receiver.replies.append(receiver.hints.take(given, body))
                self.send_response(receiver.replies[-1].status)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Nothing on the error output."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/webhook"
        Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.server.shutdown()
    made.server.server_close()


def test_each_change_of_a_job_is_delivered_once_and_the_manager_takes_it(hub: Hub, receiver: Receiver) -> None:
    deliveries = Deliveries(hub.world, receiver.url, SECRET)
    run, [job] = hub.queue("unit", labels=("self-hosted", "gpu"))
    deliveries.send()
    deliveries.send()
    hub.ask("POST", f"/repos/acme/kernels/actions/runs/{run}/cancel")
    deliveries.send()
    assert [(each["action"], each["workflow_job"]["id"]) for each in receiver.payloads] == [
        ("queued", job),
        ("completed", job),
    ]
    assert [(reply.status, reply.wakes) for reply in receiver.replies] == [(202, True), (202, True)]
    assert len(set(receiver.ids)) == 2


def test_an_event_has_the_fields_of_githubs_own(hub: Hub, receiver: Receiver) -> None:
    deliveries = Deliveries(hub.world, receiver.url, SECRET)
    hub.queue("unit")
    deliveries.send()
    [payload] = receiver.payloads
    examples = json.loads(EXAMPLES.read_text())["examples"]["workflow_job"]
    queued = next(each for each in examples if each["action"] == "queued")
    assert payload["workflow_job"].keys() == queued["workflow_job"].keys()
    assert payload.keys() == {"action", "workflow_job", "repository", "organization", "sender"}


def test_what_changed_before_the_webhook_is_no_event(hub: Hub, receiver: Receiver) -> None:
    hub.queue("unit")
    Deliveries(hub.world, receiver.url, SECRET).send()
    assert receiver.payloads == []


def test_a_delivery_that_fails_is_not_sent_again(hub: Hub, receiver: Receiver) -> None:
    """As GitHub does."""
    failures: list[str] = []
    deliveries = Deliveries(hub.world, receiver.url, b"another secret of enough length", failures.append)
    _, [job] = hub.queue("unit")
    deliveries.send()
    deliveries.send()
    assert [reply.status for reply in receiver.replies] == [401]
    assert failures == [f"webhook: queued of job {job}: HTTP Error 401: Unauthorized"]
