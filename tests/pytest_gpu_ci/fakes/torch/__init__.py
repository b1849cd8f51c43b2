"""A fake of torch: GPUs that FAKE_GPUS describes, counted memory, and CUDA that a test can kill.

FAKE_GPUS is a JSON list of [name, GiB, major, minor]. CUDA_VISIBLE_DEVICES selects from it, as in CUDA.
"""

from __future__ import annotations

import json
import os
from types import SimpleNamespace
from typing import Any

__version__ = "2.99.0"
MIB = 2**20
ALL = json.loads(os.environ["FAKE_GPUS"])
PICKED = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(str(index) for index, _ in enumerate(ALL)))
GPUS = [ALL[int(index)] for index in PICKED.split(",") if index]

version = SimpleNamespace(cuda=os.environ.get("FAKE_CUDA", "13.2") or None, hip=None)
backends = SimpleNamespace(cudnn=SimpleNamespace(deterministic=False, benchmark=True))
_allocated, _peak = [0] * len(GPUS), [0] * len(GPUS)
_state = SimpleNamespace(words=None, sticky=False, workspace=0)


def device(kind: str, index: int) -> str:
    return f"{kind}:{index}"


def manual_seed(seed: int) -> None:
    _state.seed = seed


def initial_seed() -> int:
    return int(_state.seed)


class Block:
    """Memory that stays allocated while an object refers to it."""

    def __init__(self, mib: float, gpu: int) -> None:
        self.size, self.gpu, self.itself = int(mib * MIB), gpu, None
        _allocated[gpu] += self.size
        _peak[gpu] = max(_peak[gpu], _allocated[gpu])

    def __del__(self) -> None:
        _allocated[self.gpu] -= self.size


def zeros(mib: float, device: str = "cuda:0") -> Block:
    if _state.words and _state.sticky:
        raise RuntimeError(_state.words)
    gpu = int(device.rpartition(":")[2])
    if mib > 1024 * GPUS[gpu][1]:
        raise RuntimeError("CUDA out of memory. Tried to allocate too much")
    return Block(mib, gpu)


def ones(count: int, device: str = "cuda:0") -> Any:
    """Allocate a tensor, as a test of a real suite does. One number is all that tests read."""
    return SimpleNamespace(sum=lambda: SimpleNamespace(item=lambda: count))


def cycle(mib: float) -> None:
    """Memory that only the garbage collector releases."""
    block = Block(mib, 0)
    block.itself = block


def product() -> None:
    """Allocate a workspace that stays, as the first product in cuBLAS does."""
    if not _state.workspace:
        _state.workspace = 8 * MIB
        _allocated[0] += _state.workspace


def launch(words: str, sticky: bool = True) -> None:
    """Start a kernel that fails. The next call that waits raises the error."""
    _state.words, _state.sticky = words, sticky


def _clear() -> None:
    _allocated[0] -= _state.workspace
    _state.workspace = 0


def _synchronize(gpu: int | None = None) -> None:
    words = _state.words
    if words:
        _state.words = words if _state.sticky else None
        raise RuntimeError(words)


def _properties(gpu: int) -> Any:
    name, gib, major, minor = GPUS[gpu]
    return SimpleNamespace(name=name, total_memory=int(gib * 2**30), major=major, minor=minor)


def _init() -> None:
    if not GPUS:
        raise RuntimeError("No CUDA GPUs are available\nsecond line")


def _reset(gpu: int) -> None:
    _peak[gpu] = _allocated[gpu]


_C = SimpleNamespace(_cuda_clearCublasWorkspaces=_clear)
cuda = SimpleNamespace(
    device_count=lambda: len(GPUS),
    is_available=lambda: os.environ.get("FAKE_AVAILABLE") == "yes" or bool(GPUS),
    init=_init,
    get_device_properties=_properties,
    memory_allocated=lambda gpu: _allocated[gpu],
    max_memory_allocated=lambda gpu: _peak[gpu],
    reset_peak_memory_stats=_reset,
    empty_cache=lambda: _state.words and _state.sticky and _synchronize(),
    synchronize=_synchronize,
)
