"""Rate limits of the sandbox's GitHub, and the cost of an answer with status 304."""

from __future__ import annotations

from pulumi_sandbox.world.faults import Fault
from pulumi_sandbox.world.store import World

from tests.sandbox.providers.github.actions.conftest import KERNELS, STARTED, Hub, jwt

RUNS = f"{KERNELS}/actions/runs"


def used(hub: Hub) -> int:
    return int(hub.ask("GET", RUNS).headers["X-RateLimit-Used"]) - 1


def test_an_answer_that_did_not_change_is_304_and_costs_no_request(hub: Hub) -> None:
    tag = hub.ask("GET", RUNS).headers["ETag"]
    before = used(hub)
    reply = hub.ask("GET", RUNS, headers={"if-none-match": tag})
    assert (reply.status, reply.body, reply.headers["ETag"]) == (304, None, tag)
    assert used(hub) == before + 1
    hub.queue()
    assert hub.ask("GET", RUNS, headers={"if-none-match": tag}).status == 200


def test_an_etag_is_of_the_token_that_asked(hub: Hub) -> None:
    tag = hub.ask("GET", RUNS).headers["ETag"]
    other = hub.ask("GET", RUNS, headers={"if-none-match": tag}, token=hub.new_token())
    assert other.status == 200
    assert other.headers["ETag"] != tag


def test_the_requests_of_an_hour_are_counted_for_the_installation(world: World) -> None:
    hub = Hub(world, requests_per_hour=3)
    first = hub.ask("GET", RUNS)
    assert {name: first.headers[f"X-RateLimit-{name}"] for name in ("Limit", "Remaining", "Used", "Reset")} == {
        "Limit": "3", "Remaining": "2", "Used": "1", "Reset": str(int(STARTED) + 3600),
    }  # fmt: skip
    hub.ask("GET", RUNS, token=hub.new_token())
    hub.ask("GET", f"{RUNS}/1")
    reply = hub.ask("GET", RUNS)
    assert (reply.status, reply.message) == (403, "API rate limit exceeded for installation ID 18.")
    assert (reply.headers["X-RateLimit-Remaining"], reply.headers["X-RateLimit-Used"]) == ("0", "3")
    assert "Retry-After" not in reply.headers
    hub.unix += 3600
    hub.token = hub.new_token()
    assert hub.ask("GET", RUNS).headers["X-RateLimit-Remaining"] == "2"


def test_the_points_of_a_minute_are_limited_and_a_change_has_five(world: World) -> None:
    hub = Hub(world, points_per_minute=6)
    tag = hub.ask("GET", RUNS).headers["ETag"]
    hub.unix += 20
    hub.ask("POST", f"{RUNS}/1/cancel")
    reply = hub.ask("GET", RUNS, headers={"if-none-match": tag})
    assert reply.status == 403
    assert reply.message.startswith("You have exceeded a secondary rate limit.")
    assert reply.headers["Retry-After"] == "41"
    hub.unix += 41
    assert hub.ask("GET", RUNS).status == 200


def test_a_planted_fault_limits_one_call(hub: Hub) -> None:
    hub.world.add_fault(Fault("secondary-limit", on="github:rest/runs", seconds=90))
    assert hub.ask("GET", "/orgs/acme/actions/runners").status == 200
    reply = hub.ask("GET", RUNS)
    assert (reply.status, reply.headers["Retry-After"]) == (403, "90")
    hub.world.add_fault(Fault("rate-limit", on="github:rest/runs", seconds=600))
    reply = hub.ask("GET", RUNS)
    assert (reply.status, reply.headers["X-RateLimit-Remaining"]) == (403, "0")
    assert reply.headers["X-RateLimit-Reset"] == str(int(STARTED) + 600)
    assert hub.ask("GET", RUNS).status == 200


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
