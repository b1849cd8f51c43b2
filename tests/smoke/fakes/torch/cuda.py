"""The GPUs that FAKE_TORCH describes, and their clock: what is computed takes as long as `speeds` says."""

from __future__ import annotations

import sys
import time
import types
import warnings
from typing import Any

from . import SETTINGS, faulted, happen

# `seen` is how many of them children in a role see: the fourth word that a child is started with.
_SEEN = SETTINGS.get("seen", {}).get("".join(sys.argv[4:5]))
GPUS: list[dict[str, Any]] = SETTINGS.get("gpus", [])[:_SEEN]
# TFLOPS of products, GB/s of copies within a GPU, with the host, between GPUs, and of sums over all: as an L4 has them.
SPEEDS = {"gemm": 70.0, "copy": 250.0, "host": 20.0, "peer": 40.0, "sum": 20.0, **SETTINGS.get("speeds", {})}
CURRENT = 0  # the GPU that this process uses
_now = 0.0

time.perf_counter = lambda: _now


def spend(what: str, amount: float) -> None:
    """Take the time for so many teraflops or gigabytes."""
    global _now
    slow = faulted("slow", what)
    _now += amount / SPEEDS[what] / (slow["by"] if slow else 1.0)


def linger(what: str) -> None:
    """Take seconds of the real clock once, as `lasts` says, so that who watches beside it sees something."""
    time.sleep(SETTINGS.get("lasts", {}).pop(what, 0))


class Event:
    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        self.at = _now

    def elapsed_time(self, end: Event) -> float:
        return 1e3 * (end.at - self.at)


def synchronize(target: Any) -> None:
    assert target.type == "cuda"


def mem_get_info(target: Any) -> tuple[int, int]:
    total = get_device_properties(target.index).total_memory
    return GPUS[target.index].get("free", total - 300_000_000), total


def empty_cache() -> None:
    pass


def can_device_access_peer(one: Any, other: Any) -> bool:
    return True


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
    more = {} if gpu["uuid"] is None else {"uuid": gpu["uuid"]}
    return types.SimpleNamespace(
        **more, name=gpu["name"], major=major, minor=minor, multi_processor_count=gpu["sm"], total_memory=gpu["mem"]
    )


def set_device(target: Any) -> None:
    global CURRENT
    CURRENT = getattr(target, "index", target)
    if not 0 <= CURRENT < len(GPUS):
        raise RuntimeError("CUDA error: invalid device ordinal")


def get_arch_list() -> list[str]:
    return list(SETTINGS.get("arch", ["sm_75", "sm_86"]))
