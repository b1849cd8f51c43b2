"""For any fault of GitHub or the network, the agent ends in time, retries no sooner than allowed, and reveals no
secret.
"""

from __future__ import annotations

import pytest

from tests.agent.fakes.github import Fault
from tests.agent.fakes.world import RUNNER, World

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


# Over HTTP.


def test_a_token_in_githubs_message_is_not_repeated(world: World):
    world.github.faults["groups"] = [Fault(status=404, body=b'{"message": "who is ghs_planted0?"}')]
    assert "404 to a request for the runner groups: who is …?" in world.ended()
