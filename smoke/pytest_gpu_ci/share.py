"""Which GPUs this process may use: `--gpu-id`, and under pytest-xdist each worker its own.

Both are said in CUDA_VISIBLE_DEVICES, and early: CUDA reads it once, when anything in the process first asks it
anything, and a module-level `torch.cuda.is_available()` is enough. Places are counted in what the caller left visible,
so that a GPU somebody excluded stays excluded (github.com/triton-lang/triton/pull/11831 is the opposite).
"""

from __future__ import annotations

import os
import re
import socket
import sys

from pytest_gpu_ci.machine import visible

# Held as long as this process lives, whatever ends it.
_held: list[socket.socket] = []


def chosen(gpu_id: str | None) -> tuple[list[str], list[str]]:
    """The GPUs to use, in CUDA_VISIBLE_DEVICES' words; and the lines of the problem, if there is one."""
    there = visible()
    if gpu_id is None:
        return there, []
    ids = gpu_id.split(",")
    if not all(re.fullmatch(r"\d+", each) for each in ids) or len(set(ids)) != len(ids):
        return [], ["pytest: --gpu-id: not a list of GPUs", f"got: {gpu_id!r}", "expected: places, such as 0 or 0,2"]
    # Where nothing says how many there are, CUDA will.
    beyond = [each for each in ids if int(each) >= len(there)] if there else []
    if beyond:
        return [], [
            f"pytest: --gpu-id: no GPU {', '.join(beyond)}",
            f"got: {gpu_id!r}",
            f"expected: places of the {len(there)} visible: {', '.join(there)}",
            "hint: places are counted in CUDA_VISIBLE_DEVICES where it is set",
        ]
    return [there[int(each)] for each in ids] if there else ids, []


def too_many(workers: int, gpus: list[str], share: bool) -> list[str]:
    """The lines that refuse workers which would have to share a GPU nobody said they may."""
    if workers <= len(gpus) or not gpus or share:
        return []
    return [
        "pytest: -n: more workers than GPUs, and each takes memory on its GPU",
        f"got: {workers} workers",
        f"expected: at most {len(gpus)}, one for each GPU: {', '.join(gpus)}",
        f"hint: -n {len(gpus)}, or --gpu-share to let them share",
    ]


def of_worker(place: int, workers: int, gpus: list[str]) -> list[str]:
    """The GPUs of the worker in this place: an equal part of them, or one in turn where there are too few."""
    if workers > len(gpus):
        return [gpus[place % len(gpus)]]
    return gpus[place * len(gpus) // workers : (place + 1) * len(gpus) // workers]


def place_of_worker() -> tuple[int, int] | None:
    """This process's place among xdist's workers, and how many there are; None outside of one.

    gw0 has place 0. One that replaces a worker that died has a new name and takes the place that became free.
    """
    name, count = os.environ.get("PYTEST_XDIST_WORKER", ""), os.environ.get("PYTEST_XDIST_WORKER_COUNT", "")
    if not (re.fullmatch(r"gw\d+", name) and count.isdigit()):
        return None
    own, workers = int(name[2:]), int(count)
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", "")
    return next((place for place in places(own, workers) if hold(f"{run}-{place}")), own % workers), workers


def places(own: int, workers: int) -> list[int]:
    """Those a worker may try. One of the first keeps to its own: the others are coming for theirs."""
    return [own] if own < workers else list(range(workers))


def hold(name: str) -> bool:
    """Take a name no other process has. The kernel gives it back when this one ends, and no file is left anywhere."""
    if sys.platform != "linux":
        return False
    taken = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        taken.bind(f"\0pytest-gpu-ci-{name}")
    except OSError:
        taken.close()
        return False
    _held.append(taken)
    return True
