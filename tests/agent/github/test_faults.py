"""For any fault of GitHub or the network, the agent ends in time, retries no sooner than allowed, and reveals no
secret.
"""

from __future__ import annotations

import dataclasses
import time
from email.utils import formatdate
from itertools import pairwise

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from gpu_agent.clock import Clock
from gpu_agent.github.registration import Github
from gpu_agent.outcomes import AgentExit

from tests.agent.fakes.github import FakeGithub, Fault
from tests.agent.fakes.github_server import serving
from tests.agent.fakes.world import CONFIG, RUNNER, World

EVERY_ROUTE = pytest.mark.parametrize("route", ["token", "groups", "register"])
SECONDARY = b'{"message": "You have exceeded a secondary rate limit. Please wait."}'


@EVERY_ROUTE
@pytest.mark.parametrize(
    "fault",
    [
        Fault("reset"),
        Fault("truncated"),
        Fault(status=500),
        Fault(status=502, body=b"<html>Bad gateway</html>"),
        Fault(status=503),
        Fault(status=504),
        Fault(status=200, body=b"<html>Please log in</html>"),
        Fault(status=201, body=b'{"token": "cut'),
        Fault(status=201, body=b"[]"),
        Fault(status=200, body=b"[" * 100_000),
    ],
    ids=lambda fault: f"{fault.how}{fault.status or ''}-{len(fault.body)}",
)
def test_a_temporary_fault_is_retried_after_1_2_and_4_seconds(world: World, route: str, fault: Fault):
    world.github.faults[route] = [fault] * 3
    assert world.register().runner_id == 101
    assert world.github.asked.count(route) == 4
    assert world.clock.slept == [1, 2, 4]


@EVERY_ROUTE
@pytest.mark.parametrize("how", ["hang", "drip"])
def test_a_request_without_an_answer_ends_after_30_seconds(world: World, route: str, how: str):
    world.github.faults[route] = [Fault(how)]
    begun = world.clock.now()
    assert world.register().runner_id == 101
    assert 30 <= world.clock.now() - begun <= 32


def test_a_github_that_never_answers_ends_the_agent_before_the_deadline(world: World):
    world.github.faults["token"] = [Fault(status=503, body=b'{"message": "down"}')] * 100
    begun = world.clock.now()
    assert world.ended() == (
        "github-unreachable: POST https://api.github.com/app/installations/77/access_tokens: answered 503: down "
        "(tried 10 times; the next wait would be 60 s, over the deadline)"
    )
    assert world.clock.now() - begun < 300


@EVERY_ROUTE
@pytest.mark.parametrize(
    ("fault", "waits"),
    [
        pytest.param(Fault(status=429, headers={"Retry-After": "20"}), [30], id="429 with seconds"),
        pytest.param(Fault(status=403, headers={"Retry-After": "20"}), [30], id="403 with seconds"),
        pytest.param(Fault(status=503, headers={"Retry-After": "20"}), [30], id="503 with seconds"),
        pytest.param(Fault(status=429), [90], id="429 without a time"),
        pytest.param(Fault(status=403, body=SECONDARY), [90], id="403 that is a secondary limit by its words"),
        pytest.param(Fault(status=403, headers={"X-RateLimit-Remaining": "0"}), [90], id="403 without a reset"),
    ],
)
def test_a_rate_limit_is_waited_for_and_at_most_half_as_long_again(
    world: World, route: str, fault: Fault, waits: list[float]
):
    world.github.faults[route] = [fault]
    assert world.register().runner_id == 101
    assert world.clock.slept == waits


@pytest.mark.parametrize("skew_sec", [0, 20])
def test_the_reset_of_the_hourly_limit_and_a_date_are_on_githubs_clock(world: World, skew_sec: float):
    world.clock.skew_sec = skew_sec
    reset = str(int(world.clock.true_unix() + 40))
    exhausted = Fault(status=403, headers={"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset})
    until = formatdate(world.clock.true_unix() + 40, usegmt=True)
    world.github.faults["token"] = [exhausted]
    world.register()
    world.github.faults["token"] = [Fault(status=429, headers={"Retry-After": until})]
    world.clock.now_sec = 1_000
    world.register("runner-b")
    assert world.clock.slept == pytest.approx([60, 60], abs=2)


def test_a_rate_limit_beyond_the_deadline_ends_the_agent_at_once(world: World):
    reset = str(int(world.clock.true_unix() + 3000))
    exhausted = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset}
    world.github.faults["register"] = [Fault(status=403, headers=exhausted, body=b'{"message": "too many"}')]
    assert world.ended().startswith(
        "rate-limited: POST https://api.github.com/orgs/acme/actions/runners/generate-jitconfig: answered 403: too "
        "many (tried once; the next wait would be 45"
    )
    assert world.clock.slept == []


@EVERY_ROUTE
@pytest.mark.parametrize("status", [301, 400, 403, 404, 410, 422])
def test_a_refusal_is_not_retried(world: World, route: str, status: int):
    world.github.faults[route] = [Fault(status=status, body=b'{"message": "no,\\nno"}')]
    ended = world.ended()
    assert ended.startswith(f"refused: GitHub answered {status} to a request for ")
    assert ": no, no" in ended
    assert world.clock.slept == []


@pytest.mark.parametrize("route", ["groups", "register", "remove"])
def test_a_token_that_github_does_not_know_everywhere_yet_is_tried_again(world: World, route: str):
    world.github.faults[route] = [Fault(status=401, body=b'{"message": "Bad credentials"}')] * 2
    agent = world.agent()
    assert agent.remove(agent.register("runner-a", RUNNER, world.clock.now() + 300).runner_id, world.clock.now() + 60)
    assert world.clock.slept == [1, 2]


def test_a_token_that_github_does_not_know_after_5_seconds_is_refused(world: World):
    world.github.faults["groups"] = [Fault(status=401, body=b'{"message": "Bad credentials"}')] * 20
    assert world.ended().startswith("refused: GitHub answered 401 to a request for the runner groups: Bad credentials")
    assert world.github.asked == ["token", *["groups"] * 4]
    assert world.clock.slept == [1, 2, 4]


def test_a_token_that_is_refused_with_no_time_left_is_refused_and_not_called_late(world: World):
    world.github.faults["groups"] = [Fault(status=401, body=b'{"message": "Bad credentials"}')] * 20
    with pytest.raises(AgentExit) as ended:
        world.agent().register("runner-a", RUNNER, world.clock.now() + 1)
    assert str(ended.value) == (
        "refused: GitHub answered 401 to a token that it has just issued: Bad credentials "
        "(tried once; the next wait would be 1 s, over the deadline)"
    )


# Clocks.


@pytest.mark.parametrize("skew_sec", [-3600, 3600, -400, 400])
def test_a_machine_whose_clock_is_wrong_uses_githubs_clock(world: World, skew_sec: float):
    world.clock.skew_sec = skew_sec
    agent = world.agent()
    assert agent.register("runner-a", RUNNER, world.clock.now() + 300).runner_id == 101
    assert world.github.asked == ["token", "token", "groups", "register"]
    assert agent.skew_sec == pytest.approx(-skew_sec, abs=2)
    assert agent.remove(101, world.clock.now() + 60)
    assert world.github.asked[4:] == ["token", "remove"], "the second token needs no second try"


@pytest.mark.parametrize("skew_sec", [-250, 55])
def test_a_machine_whose_clock_is_a_little_off_needs_no_second_try(world: World, skew_sec: float):
    world.clock.skew_sec = skew_sec
    world.register()
    assert world.github.asked == ["token", "groups", "register"]


def test_a_clock_that_is_off_does_not_hide_a_wrong_key(world: World, other_key: bytes):
    world.key, world.clock.skew_sec = other_key, 3600
    assert world.ended().endswith("; the machine's clock is off by +3600 s, which the second request allowed for")
    assert world.github.asked == ["token", "token"]


def test_a_wrong_date_of_github_is_used_only_once(world: World):
    wrong = Fault(status=401, headers={"Date": "Thu, 01 Jan 2026 00:00:00 GMT"})
    world.github.faults["token"] = [wrong] * 5
    assert world.ended().startswith("refused: GitHub answered 401")
    assert world.github.asked == ["token", "token"]


# Over HTTP.


@pytest.mark.parametrize("how", ["hang", "drip", "reset", "truncated"])
def test_the_deadline_holds_over_http(app_key: bytes, public_key: RSAPublicKey, how: str):
    clock, github = Clock(), FakeGithub(public_key, time.time)
    github.faults["groups"] = [Fault(how)] * 5
    with serving(github) as url:
        agent = Github(dataclasses.replace(CONFIG, api_url=url), app_key, clock)
        with pytest.raises(AgentExit, match=r"^github-unreachable: "):
            agent.register("runner-a", RUNNER, clock.now() + 1)
    assert github.runners == {}


def test_no_request_is_sent_before_a_rate_limit_ends(world: World):
    moments: list[float] = []
    honest = world.github.fault_of
    world.github.fault_of = lambda *request: (moments.append(world.clock.now()), honest(*request))[1]  # type: ignore
    world.github.faults["register"] = [Fault(status=429, headers={"Retry-After": str(each)}) for each in (5, 60, 17)]
    world.register()
    gaps = [later - earlier for earlier, later in pairwise(moments[2:])]
    assert [gap >= asked for gap, asked in zip(gaps, (5, 60, 17), strict=True)] == [True] * 3


def test_a_token_in_githubs_message_is_not_repeated(world: World):
    world.github.faults["groups"] = [Fault(status=404, body=b'{"message": "who is ghs_planted0?"}')]
    assert "404 to a request for the runner groups: who is …?" in world.ended()
