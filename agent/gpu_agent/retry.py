"""Retries of requests: the duration of the waits, and the deadline.

Each call decides which errors are repeated: github/registration.py for GitHub, google/ for Google.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import TypeVar

from .clock import Clock
from .http import Answer
from .outcomes import AgentExit

T = TypeVar("T")


class RetryableError(Exception):
    """Another attempt may succeed, but not before `after_sec`. `ended` is raised if there is no time for an attempt."""

    def __init__(self, ended: AgentExit, after_sec: float = 0) -> None:
        super().__init__(str(ended))
        self.ended = ended
        self.after_sec = after_sec


def backoff(attempts: int) -> float:
    """Return the seconds to wait after this number of attempts: 1, 2, 4 and so on, at most 60."""
    return float(min(2 ** min(attempts - 1, 6), 60))


def retry_until(
    attempt: Callable[[], T], *, deadline: float, clock: Clock, wait: Callable[[int], float] = backoff
) -> T:
    """Return the result of `attempt`, repeated while it raises RetryableError.

    If the next wait would reach the deadline, the AgentExit of the last RetryableError is raised at once. A longer wait
    would only cost GPU time. Any other exception of `attempt` ends the loop.
    """
    attempts = 0
    while True:
        attempts += 1
        try:
            return attempt()
        except RetryableError as error:
            # Machines that were refused together get the same time from the server. A random addition spreads their
            # retries.
            pause = error.after_sec + clock.jitter(max(wait(attempts), error.after_sec / 2))
            if clock.now() + pause >= deadline:
                times = "once" if attempts == 1 else f"{attempts} times"
                detail = (
                    f"{error.ended.detail} (tried {times}; the next wait would be {pause:.0f} s, over the deadline)"
                )
                raise AgentExit(error.ended.end.reason, detail) from None
        clock.sleep(pause)


def retry_after_sec(answer: Answer, clock: Clock) -> float:
    """Return the seconds in the header Retry-After, as a number or a date (RFC 9110, 10.2.3), or 0 if it is
    unreadable.
    """
    value = answer.headers.get("retry-after", "").strip()
    if value.isascii() and value.isdecimal():
        return float(value)
    when = _unix(value)
    return 0 if when is None else max(when - server_unix(answer, clock), 0)


def server_unix(answer: Answer, clock: Clock) -> float:
    """Return seconds since 1970 by the server's clock, from the header Date, or by the machine's clock without it.

    The dates in an answer are on the server's clock.
    """
    when = _unix(answer.headers.get("date", ""))
    return clock.unix() if when is None else when


def _unix(date: str) -> float | None:
    try:
        when = parsedate_to_datetime(date)
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
