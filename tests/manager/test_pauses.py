"""The wait between two passes: stopped by a signal, shortened by a hint."""

from __future__ import annotations

import threading

from gpu_manager.cli.run_command import Pauses
from gpu_manager.github.rate_limits import RateLimits


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def ended(pauses: Pauses, pause_sec: float, shortest_sec: float) -> bool:
    """Return True if a wait ends at once."""
    thread = threading.Thread(target=pauses.wait, args=(pause_sec, shortest_sec), daemon=True)
    thread.start()
    thread.join(0.2)
    return not thread.is_alive()


def test_a_hint_that_came_during_the_pass_shortens_the_next_wait_alone() -> None:
    pauses = Pauses()
    pauses.hint()
    assert ended(pauses, 3600, 0.0)
    assert not ended(pauses, 3600, 0.0)
    pauses.stop()


def test_a_signal_ends_every_wait() -> None:
    pauses = Pauses()
    pauses.stop()
    assert ended(pauses, 3600, 3600)
    assert ended(pauses, 3600, 3600)


def test_a_hint_counts_for_a_minute() -> None:
    clock = Clock()
    pauses = Pauses(clock)
    assert not pauses.hinted
    pauses.hint()
    clock.now += 59
    assert pauses.hinted
    clock.now += 1
    assert not pauses.hinted


def test_hints_keep_within_githubs_limits() -> None:
    limits = RateLimits(lambda: 0.0)
    limits.begin_sweep()
    assert limits.hinted_interval_sec() == 2
    for _ in range(120):
        limits.record_answer(200, {"x-ratelimit-remaining": "4000", "x-ratelimit-limit": "5000"}, "", 0.0)
    assert limits.hinted_interval_sec() == 10
    limits.record_answer(200, {"x-ratelimit-remaining": "900", "x-ratelimit-limit": "5000"}, "", 0.0)
    assert limits.hinted_interval_sec() == 60
