"""Choose the GPUs of this process: those of `--gpu-id`, and under pytest-xdist a part of them for each worker.

Both set CUDA_VISIBLE_DEVICES early. CUDA reads the variable once, at the first call in the process: a module-level
`torch.cuda.is_available()` is enough. The place of a GPU is its position among the GPUs that are already visible, so
that a GPU which the caller excluded stays excluded (github.com/triton-lang/triton/pull/11831 does the opposite).
"""

from __future__ import annotations

import os
import re
import socket
import sys

from pytest_gpu_ci.machine import visible

# Sockets that stay open until this process ends in any way.
_reserved_names: list[socket.socket] = []


def chosen(gpu_id: str | None) -> tuple[list[str], list[str]]:
    """Return the GPUs to use, in the form of CUDA_VISIBLE_DEVICES, and the lines of the problem, if there is one."""
    gpus = visible()
    if gpu_id is None:
        return gpus, []
    ids = gpu_id.split(",")
    if not all(re.fullmatch(r"\d+", each) for each in ids) or len(set(ids)) != len(ids):
        return [], ["pytest: --gpu-id: not a list of GPUs", f"got: {gpu_id!r}", "expected: places, such as 0 or 0,2"]
    # If the number of GPUs is unknown here, CUDA checks the places.
    beyond = [each for each in ids if int(each) >= len(gpus)] if gpus else []
    if beyond:
        return [], [
            f"pytest: --gpu-id: no GPU {', '.join(beyond)}",
            f"got: {gpu_id!r}",
            f"expected: places of the {len(gpus)} visible: {', '.join(gpus)}",
            "hint: places are counted in CUDA_VISIBLE_DEVICES where it is set",
        ]
    return [gpus[int(each)] for each in ids] if gpus else ids, []


def too_many(workers: int, gpus: list[str], share: bool) -> list[str]:
    """Return the lines of an error if workers would have to share a GPU without --gpu-share."""
    if workers <= len(gpus) or not gpus or share:
        return []
    return [
        "pytest: -n: more workers than GPUs, and each one uses GPU memory",
        f"got: {workers} workers",
        f"expected: at most {len(gpus)}, one for each GPU: {', '.join(gpus)}",
        f"hint: -n {len(gpus)}, or --gpu-share to let them share",
    ]


def of_worker(place: int, workers: int, gpus: list[str]) -> list[str]:
    """Return the GPUs of the worker in this place: an equal part, or one in turn if there are too few."""
    if workers > len(gpus):
        return [gpus[place % len(gpus)]]
    return gpus[place * len(gpus) // workers : (place + 1) * len(gpus) // workers]


def place_of_worker() -> tuple[int, int] | None:
    """Return this process's place among the workers of pytest-xdist, and their number; None outside of a worker.

    gw0 has place 0. A worker that replaces a dead one has a new name and takes the free place.
    """
    name, count = os.environ.get("PYTEST_XDIST_WORKER", ""), os.environ.get("PYTEST_XDIST_WORKER_COUNT", "")
    if not (re.fullmatch(r"gw\d+", name) and count.isdigit()):
        return None
    own_number, workers = int(name[2:]), int(count)
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", "")
    return next(
        (place for place in places(own_number, workers) if reserve(f"{run}-{place}")), own_number % workers
    ), workers


def places(own_number: int, workers: int) -> list[int]:
    """Return the places that a worker may try.

    One of the first workers only tries its own place, because each of the others needs its own too.
    """
    return [own_number] if own_number < workers else list(range(workers))


def reserve(name: str) -> bool:
    """Reserve a name that no other process has.

    The name is an abstract Unix socket: the kernel releases it when this process ends, and no file remains.
    """
    if sys.platform != "linux":
        return False
    taken = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        taken.bind(f"\0pytest-gpu-ci-{name}")
    except OSError:
        taken.close()
        return False
    _reserved_names.append(taken)
    return True
