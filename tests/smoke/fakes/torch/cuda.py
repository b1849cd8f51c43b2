"""The GPUs that FAKE_TORCH describes, and their clock: their work takes as long as `speeds` and `delays` say.

`speeds` has TFLOPS of products, and GB/s of copies:

- `gemm`: products; `cpu`: products of the reference
- copies within a GPU, with page-locked memory of the host, and with other memory of the host (`pageable`)
- copies between GPUs: `pairs` has those that differ ("0-5"), `by_host` those that cannot reach each other's memory
- sums over all GPUs; `pin`: the speed at which memory is page-locked

A capped GPU computes with `boost` for the first `boost_sec` of its work. `delays` are seconds: of an `import`, of the
first import (`cold`), of a `context` on a GPU, of the first copy of a pair (`peer`), and of NCCL's start (`nccl`).
"""

from __future__ import annotations

import math
import os
import sys
import time
import types
import warnings
from typing import Any

import fake_clock

from . import SETTINGS, faulted, happen

# `seen` is how many of them children in a role see: the fourth word that a child is started with.
_SEEN = SETTINGS.get("seen", {}).get("".join(sys.argv[4:5]))
GPUS: list[dict[str, Any]] = SETTINGS.get("gpus", [])[:_SEEN]
# As an L4 has them. Its 72 W hold large products down: TFLOPS by size (zzc0721/torch-performance-test-data issue 120,
# bfloat16); one number for "gemm" is that of all sizes. What the host does takes no time unless a test says so.
BY_SIZE = {1024: 54.42, 2048: 70.89, 4096: 54.91, 8192: 59.40, 10240: 56.90}
SPEEDS = {"gemm": BY_SIZE, "copy": 250.0, "host": 25.0, "peer": 40.0, "sum": 20.0, **SETTINGS.get("speeds", {})}
PAIRS: dict[str, float] = SETTINGS.get("pairs", {})
DELAYS: dict[str, float] = SETTINGS.get("delays", {})
CURRENT = 0  # the GPU that this process uses
_worked = 0.0
_waited: set[Any] = set()

time.perf_counter = lambda: fake_clock.now


def spend(what: str, amount: float, pair: str = "", n: int = 0) -> None:
    """Let the time pass for so many teraflops, of products of that size, or gigabytes."""
    global _worked
    speed = PAIRS.get(pair, SPEEDS.get(what, math.inf))
    speed = speed.get(n, speed[8192]) if isinstance(speed, dict) else speed
    if what == "gemm" and _worked < SETTINGS.get("boost_sec", 0.0):
        speed = SETTINGS["boost"]
    slow = faulted("slow", what)
    # Every kernel and every allocation is waited for.
    waits = {"CUDA_LAUNCH_BLOCKING", "PYTORCH_NO_CUDA_MEMORY_CACHING"} & os.environ.keys()
    seconds = amount / speed / (slow["by"] if slow else 1.0) * (1.5 if waits else 1.0)
    fake_clock.now += seconds
    _worked += seconds if what == "gemm" else 0.0


def wait_once(what: str, *which: Any) -> None:
    """Let the seconds pass that the first occurrence takes."""
    if (what, *which) not in _waited:
        _waited.add((what, *which))
        fake_clock.now += DELAYS.get(what, 0.0)
        if what == "context":
            fake_clock.opened(*which)


def linger(what: str) -> None:
    """Wait in real time once, as `lasts` says, so that the monitor sees the work."""
    time.sleep(SETTINGS.get("lasts", {}).pop(what, 0))


class Event:
    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        self.at = fake_clock.now

    def elapsed_time(self, end: Event) -> float:
        return 1e3 * (end.at - self.at)


def synchronize(target: Any) -> None:
    assert target.type == "cuda"


def mem_get_info(target: Any) -> tuple[int, int]:
    total = get_device_properties(target.index).total_memory
    # All kernels of torch's libraries, where they are not loaded as they are used.
    kernels = 800_000_000 if os.environ.get("CUDA_MODULE_LOADING") == "EAGER" else 0
    return GPUS[target.index].get("free", total - 300_000_000) - kernels, total


def empty_cache() -> None:
    pass


def can_device_access_peer(one: Any, other: Any) -> bool:
    return f"{one.index}-{other.index}" not in SETTINGS.get("by_host", ())


def device_count() -> int:
    happen(SETTINGS.get("count", ""))
    if "warning" in SETTINGS:
        warnings.warn(SETTINGS["warning"], UserWarning, stacklevel=1)
    return len(GPUS)


def init() -> None:
    if "refusal" in SETTINGS:
        raise RuntimeError(SETTINGS["refusal"])


def get_device_properties(index: int) -> types.SimpleNamespace:
    gpu = {"name": "NVIDIA L4", "uuid": f"0000-{index}", "cc": "8.9", "sm": 58, "mem": 23_000_000_000, **GPUS[index]}
    major, minor = map(int, gpu["cc"].split("."))
    # An older torch tells none of these: `clocks` false.
    clocks = {"clock_rate": 2_040_000, "memory_clock_rate": 6_251_000, "memory_bus_width": 192}
    more = {} if gpu["uuid"] is None else {"uuid": gpu["uuid"]}
    more |= clocks if gpu.get("clocks", True) else {}
    return types.SimpleNamespace(
        **more, name=gpu["name"], major=major, minor=minor, multi_processor_count=gpu["sm"], total_memory=gpu["mem"]
    )


def set_device(target: Any) -> None:
    global CURRENT
    CURRENT = getattr(target, "index", target)
    if not 0 <= CURRENT < len(GPUS):
        raise RuntimeError("CUDA error: invalid device ordinal")
    wait_once("context", CURRENT)


def get_arch_list() -> list[str]:
    return list(SETTINGS.get("arch", ["sm_75", "sm_86"]))
