"""Tokens of the sandbox's GitHub, its clock, and answers with status 304."""

from __future__ import annotations

from tests.sandbox.providers.github.actions.conftest import KERNELS, Hub, jwt

RUNS = f"{KERNELS}/actions/runs"


def test_an_answer_that_did_not_change_is_304(hub: Hub) -> None:
    tag = hub.ask("GET", RUNS).headers["ETag"]
    reply = hub.ask("GET", RUNS, headers={"if-none-match": tag})
    assert (reply.status, reply.body, reply.headers["ETag"]) == (304, None, tag)
    hub.queue()
    assert hub.ask("GET", RUNS, headers={"if-none-match": tag}).status == 200


def test_an_etag_is_of_the_token_that_asked(hub: Hub) -> None:
    tag = hub.ask("GET", RUNS).headers["ETag"]
    other = hub.ask("GET", RUNS, headers={"if-none-match": tag}, token=hub.new_token())
    assert other.status == 200
    assert other.headers["ETag"] != tag


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
