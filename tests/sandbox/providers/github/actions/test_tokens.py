"""Tokens of the sandbox's GitHub, and its clock."""

from __future__ import annotations

from tests.sandbox.providers.github.actions.conftest import KERNELS, Hub, jwt

RUNS = f"{KERNELS}/actions/runs"


def test_every_answer_has_githubs_time(hub: Hub) -> None:
    assert hub.ask("GET", RUNS).headers["Date"] == "Fri, 15 Jan 2027 08:00:00 GMT"
    assert hub.ask("GET", f"{RUNS}/1").headers["Date"] == "Fri, 15 Jan 2027 08:00:00 GMT"


def test_a_token_is_good_for_an_hour(hub: Hub) -> None:
    hub.unix += 3600
    reply = hub.ask("GET", RUNS)
    assert (reply.status, reply.message) == (401, "Bad credentials")


def test_a_token_for_a_repository_that_is_not_there_is_refused(hub: Hub) -> None:
    body = {"repositories": ["kernels", "../other"]}
    reply = hub.ask("POST", "/app/installations/18/access_tokens", body, token=jwt(hub.unix))
    assert reply.status == 422
