"""How long a call takes on a device: after a warm-up, by the device's own clock, the median of many."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

WARM_SEC, FILL_SEC = 1.0, 1.0  # modules load lazily, clocks rise and libraries choose kernels in the first second
WARM_CALLS, MOST = 5, 500


def timed(torch: Any, target: Any, call: Callable[[int], Any], at_least: int = 10) -> dict[str, Any]:
    """Median seconds of a call, how far the slowest twentieth lies above it, and of how many; calls are numbered."""
    on_cpu = target.type == "cpu"
    seconds = sorted(_by_the_clock(call) if on_cpu else _by_events(torch, target, call, at_least))
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


def _by_events(torch: Any, target: Any, call: Callable[[int], Any], at_least: int) -> list[float]:
    began, number = time.perf_counter(), 0
    while number < WARM_CALLS or time.perf_counter() - began < WARM_SEC:
        call(number)
        torch.cuda.synchronize(target)
        number += 1
    each = (time.perf_counter() - began) / number
    count = max(at_least, min(MOST, int(FILL_SEC / each)))
    events = [tuple(torch.cuda.Event(enable_timing=True) for _ in range(2)) for _ in range(count)]
    for number, (start, end) in enumerate(events):
        start.record()
        call(number)
        end.record()
    torch.cuda.synchronize(target)
    return [start.elapsed_time(end) / 1e3 for start, end in events]
