"""Deliveries from GitHub that wake the manager, and deliveries that are refused."""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import pytest
from gpu_manager.webhook import Hints, Reply

SECRET = b"It's a Secret to Everybody"
EXAMPLES = json.loads((Path(__file__).parent / "examples.json").read_text())["examples"]
LABELS = {"self-hosted", "gpu", "l4"}


class Woken:
    """Hints of a manager, with the number of times that they woke it."""

    def __init__(self, labels: set[str] = LABELS) -> None:
        self.times = 0
        self.hints = Hints(lambda: SECRET, labels, self.wake)

    def wake(self) -> None:
        self.times += 1


def headers(
    body: bytes, event: str = "workflow_job", delivery: str = "72d3162e", secret: bytes = SECRET
) -> dict[str, str]:
    return {
        "content-type": "application/json",
        "x-github-event": event,
        "x-github-delivery": delivery,
        "x-hub-signature-256": "sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest(),
    }


def deliver(woken: Woken, payload: Any, event: str = "workflow_job", delivery: str = "72d3162e") -> Reply:
    body = json.dumps(payload).encode()
    return woken.hints.take(headers(body, event, delivery), body)


def queued(*labels: str, action: str = "queued") -> dict[str, Any]:
    return {"action": action, "workflow_job": {"labels": list(labels)}}


@pytest.mark.parametrize(
    ("event", "payload"), [(event, payload) for event, payloads in EXAMPLES.items() for payload in payloads]
)
def test_every_example_of_githubs_payloads_is_accepted(event: str, payload: dict[str, Any]) -> None:
    woken = Woken({"ubuntu-latest", "gpu", "k8s"})
    reply = deliver(woken, payload, event)
    assert reply.status == 202
    waking = payload["action"] in ("queued", "waiting", "completed")
    assert (reply.wakes, woken.times) == (waking, int(waking))


def test_the_signature_is_githubs() -> None:
    """The test values of docs.github.com, "Validating webhook deliveries"."""
    body = b"Hello, World!"
    expected = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert headers(body)["x-hub-signature-256"] == expected
    woken = Woken()
    assert woken.hints.take(headers(body) | {"x-hub-signature-256": expected}, body).status == 400


@pytest.mark.parametrize("signature", ["", "sha256=", f"sha256={'0' * 64}", f"sha1={'0' * 40}", "sha256=é"])
def test_a_forged_delivery_is_refused_and_wakes_nothing(signature: str) -> None:
    woken, body = Woken(), json.dumps(queued("gpu")).encode()
    assert woken.hints.take(headers(body) | {"x-hub-signature-256": signature}, body).status == 401
    assert woken.times == 0


def test_a_signature_of_another_body_or_secret_is_refused() -> None:
    woken, body = Woken(), json.dumps(queued("gpu")).encode()
    assert woken.hints.take(headers(b"{}"), body).status == 401
    assert woken.hints.take(headers(body, secret=b"another secret"), body).status == 401
    assert woken.times == 0


def test_a_delivery_that_comes_again_wakes_once() -> None:
    woken = Woken()
    assert deliver(woken, queued("gpu")).wakes
    again = deliver(woken, queued("gpu"))
    assert (again.status, again.wakes) == (202, False)
    assert deliver(woken, queued("gpu"), delivery="72d3162f").wakes
    assert woken.times == 2


@pytest.mark.parametrize(
    ("payload", "event"),
    [
        (queued("ubuntu-latest"), "workflow_job"),
        (queued("gpu", action="in_progress"), "workflow_job"),
        ({"action": "queued"}, "workflow_job"),
        ({"action": "queued", "workflow_job": {"labels": "gpu"}}, "workflow_job"),
        ({"action": ["queued"]}, "workflow_job"),
        ({"action": "requested"}, "workflow_run"),
        ([], "workflow_job"),
        ({"zen": "Keep it logically awesome.", "hook_id": 1}, "ping"),
        (queued("gpu"), "push"),
    ],
)
def test_a_delivery_that_concerns_no_pool_is_accepted_and_wakes_nothing(payload: Any, event: str) -> None:
    woken = Woken()
    assert deliver(woken, payload, event) == Reply(202, "this event starts no pass")
    assert woken.times == 0


def test_labels_are_compared_as_github_does() -> None:
    assert deliver(Woken(), queued("GPU")).wakes


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"x-github-event": ""}, 400),
        ({"x-github-delivery": ""}, 400),
        ({"x-github-delivery": "a" * 65}, 400),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({"content-type": "application/json; charset=utf-8"}, 202),
    ],
)
def test_headers_that_github_always_sends_are_needed(changed: dict[str, str], status: int) -> None:
    body = json.dumps(queued("gpu")).encode()
    assert Woken().hints.take(headers(body) | changed, body).status == status


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 100_000, b"\xff"])
def test_a_signed_body_that_is_no_json_is_refused(body: bytes) -> None:
    assert Woken().hints.take(headers(body), body) == Reply(400, "the body is not JSON")
