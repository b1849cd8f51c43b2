"""An all-reduce of several processes. Each process knows the numbers that the others would send."""

from __future__ import annotations

import fake_clock

from . import cuda, faulted, happen
from .words import KEPT, Words

WORLD = 0


def init_process_group(backend: str, init_method: str, rank: int, world_size: int) -> None:
    global WORLD
    assert backend == "nccl"
    assert init_method.startswith("file:///")
    WORLD = world_size
    cuda.wait_once("nccl")
    for index in range(len(cuda.GPUS)):  # its peers' memory is mapped, for which CUDA may open contexts there
        fake_clock.opened(index)


def all_reduce(tensor: Words) -> None:
    for kind in ("hang", "SIGSEGV"):
        if faulted(kind, "sum"):
            happen(kind)
    cuda.spend("sum", 2 * (WORLD - 1) / WORLD * tensor.count * tensor.size / 1e9)
    total = WORLD * (WORLD + 1) // 2
    tensor.values = [total + bool(faulted("corrupt", "sum"))] * KEPT


def destroy_process_group() -> None:
    pass
