"""Time calls on a device: after a warm-up, by the device's own clock. The result is the median of many calls."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

# In the first second modules load, clocks rise, and libraries choose kernels. The measurement then takes about
# FILL_SEC.
WARM_SEC, FILL_SEC = 1.0, 1.0
WARM_CALLS, MOST_CALLS = 5, 500
# A link is steady from its first large copies on. Eight GPUs have many links, so the number of calls is fixed.
LINK_WARM_CALLS, LINK_CALLS = 3, 10


def timed(torch: Any, target: Any, call: Callable[[int], Any], at_least: int = 10) -> dict[str, Any]:
    """Return the median seconds of a call, the jitter, and the number of calls.

    The jitter is the time that 95 % of the calls do not exceed, divided by the median. The argument of a call is its
    number.
    """
    if target.type == "cpu":
        return _summary(_by_the_clock(call))
    each = warm(torch, target, call, WARM_SEC)
    return _summary(_by_events(torch, target, call, max(at_least, min(MOST_CALLS, int(FILL_SEC / each)))))


def timed_link(torch: Any, target: Any, call: Callable[[int], Any]) -> dict[str, Any]:
    """Time a copy over a link, by a fixed number of calls."""
    if target.type == "cpu":
        return _summary(_by_the_clock(call))
    return _summary(_by_events(torch, target, call, LINK_WARM_CALLS + LINK_CALLS)[LINK_WARM_CALLS:])


def warm(torch: Any, target: Any, call: Callable[[int], Any], sec: float) -> float:
    """Call repeatedly for that time, and return the seconds of one call."""
    began, number = time.perf_counter(), 0
    while number < WARM_CALLS or time.perf_counter() - began < sec:
        call(number)
        torch.cuda.synchronize(target)
        number += 1
    return (time.perf_counter() - began) / number


def _summary(seconds: list[float]) -> dict[str, Any]:
    seconds = sorted(seconds)
    median = statistics.median(seconds)
    late = seconds[min(len(seconds) - 1, int(0.95 * len(seconds)))]
    return {"median_sec": median, "jitter": round(late / median, 3) if median else None, "calls": len(seconds)}


def _by_the_clock(call: Callable[[int], Any]) -> list[float]:
    seconds = []
    for number in range(3):
        began = time.perf_counter()
        call(number)
        seconds.append(time.perf_counter() - began)
    return seconds


def _by_events(torch: Any, target: Any, call: Callable[[int], Any], count: int) -> list[float]:
    events = [tuple(torch.cuda.Event(enable_timing=True) for _ in range(2)) for _ in range(count)]
    for number, (start, end) in enumerate(events):
        start.record()
        call(number)
        end.record()
    torch.cuda.synchronize(target)
    return [start.elapsed_time(end) / 1e3 for start, end in events]
