"""The one place that asks again: how long to wait, and when there is no time left to.

What may be asked again is decided beside each call: github/api.py for GitHub, google/ for Google.
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
    """Another attempt may go better, though not before `after_sec`; without time for one, `ended` is how it ends."""

    def __init__(self, ended: AgentExit, after_sec: float = 0) -> None:
        super().__init__(str(ended))
        self.ended = ended
        self.after_sec = after_sec


def backoff(attempts: int) -> float:
    """Seconds to wait after so many attempts: 1, 2, 4 and so on, at most 60."""
    return float(min(2 ** min(attempts - 1, 6), 60))


def retry_until(
    attempt: Callable[[], T], *, deadline: float, clock: Clock, wait: Callable[[int], float] = backoff
) -> T:
    """What `attempt` returns, repeated while it raises RetryableError.

    Raises the AgentExit of the last RetryableError as soon as the next wait would last until the deadline: waiting
    longer than that only costs a GPU. Anything else that `attempt` raises ends it at once.
    """
    attempts = 0
    while True:
        attempts += 1
        try:
            return attempt()
        except RetryableError as again:
            # Machines that were turned away together are told the same time; half of it more spreads their return.
            pause = again.after_sec + clock.jitter(max(wait(attempts), again.after_sec / 2))
            if clock.now() + pause >= deadline:
                times = "once" if attempts == 1 else f"{attempts} times"
                detail = (
                    f"{again.ended.detail} (asked {times}; the next wait would be {pause:.0f} s, over the deadline)"
                )
                raise AgentExit(again.ended.end.reason, detail) from None
        clock.sleep(pause)


def retry_after_sec(answer: Answer, clock: Clock) -> float:
    """What the header Retry-After asks for, as seconds or as a date (RFC 9110, 10.2.3); 0 without a readable one."""
    value = answer.headers.get("retry-after", "").strip()
    if value.isascii() and value.isdecimal():
        return float(value)
    when = _unix(value)
    return 0 if when is None else max(when - server_unix(answer, clock), 0)


def server_unix(answer: Answer, clock: Clock) -> float:
    """Seconds since 1970 by the clock of whoever answered, which counts for the dates it names; ours without a Date."""
    when = _unix(answer.headers.get("date", ""))
    return clock.unix() if when is None else when


def _unix(date: str) -> float | None:
    try:
        when = parsedate_to_datetime(date)
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
