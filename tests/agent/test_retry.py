"""Retries are as many as the time allows, and none comes earlier than allowed."""

from __future__ import annotations

from contextlib import suppress
from email.utils import formatdate

import pytest
from gpu_agent.clock import Clock
from gpu_agent.http import Answer
from gpu_agent.outcomes import AgentExit
from gpu_agent.retry import RetryableError, backoff, retry_after_sec, retry_until
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.fakes.clock import FakeClock

LIMITED = AgentExit("rate-limited", "too many")


def failing(times: int, after_sec: float = 0):
    left = [times]

    def attempt() -> str:
        left[0] -= 1
        if left[0] >= 0:
            raise RetryableError(LIMITED, after_sec)
        return "done"

    return attempt


def test_the_waits_double_up_to_a_minute():
    assert [backoff(attempts) for attempts in range(1, 10)] == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    clock = FakeClock()
    assert retry_until(failing(9), deadline=clock.now() + 1000, clock=clock) == "done"
    assert clock.slept == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_the_machines_own_clock_spreads_between_half_and_all_of_it():
    spread = {Clock().jitter(10) for _ in range(100)}
    assert min(spread) >= 5
    assert max(spread) <= 10
    assert len(spread) > 1


def test_the_retries_end_if_the_next_wait_would_reach_the_deadline():
    clock = FakeClock()
    with pytest.raises(AgentExit) as ended:
        retry_until(failing(9, after_sec=60), deadline=clock.now() + 90, clock=clock)
    assert str(ended.value) == "rate-limited: too many (tried once; the next wait would be 90 s, over the deadline)"
    assert clock.slept == []


def test_any_other_error_ends_the_retries():
    def attempt() -> None:
        raise AgentExit("refused", "no")

    clock = FakeClock()
    with pytest.raises(AgentExit, match=r"^refused: no$"):
        retry_until(attempt, deadline=clock.now() + 1000, clock=clock)
    assert clock.slept == []


@given(st.lists(st.floats(0, 1e6)), st.floats(0, 1e4))
def test_no_wait_reaches_the_deadline_or_is_shorter_than_requested(asked: list[float], time_sec: float):
    clock, waits = FakeClock(), iter(asked)
    deadline = clock.now() + time_sec

    def attempt() -> str:
        assert clock.now() < deadline or clock.slept == []
        for after_sec in waits:
            raise RetryableError(LIMITED, after_sec)
        return "done"

    with suppress(AgentExit):
        assert retry_until(attempt, deadline=deadline, clock=clock) == "done"
        assert len(clock.slept) == len(asked)
    assert all(slept > after for slept, after in zip(clock.slept, asked, strict=False))


def wait_after(value: str, **headers: str) -> float:
    return retry_after_sec(Answer(429, {"retry-after": value, **headers}, b""), FakeClock())


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0),
        ("17", 17),
        (" 60 ", 60),
        ("", 0),
        ("-5", 0),
        ("1.5", 0),
        ("soon", 0),
        ("٣", 0),
        ("9" * 5000, float("inf")),
    ],
)
def test_retry_after_in_seconds(value: str, seconds: float):
    assert wait_after(value) == seconds


def test_retry_after_as_a_date_is_on_the_servers_clock():
    there = FakeClock().unix() + 3600
    assert wait_after(formatdate(there + 20, usegmt=True), date=formatdate(there, usegmt=True)) == 20
    assert wait_after(formatdate(there - 20, usegmt=True), date=formatdate(there, usegmt=True)) == 0
    assert wait_after(formatdate(FakeClock().unix() + 20, usegmt=True)) == 20
