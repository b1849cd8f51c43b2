"""Work over several GPUs: copies between all pairs, and an all-reduce (a sum over all GPUs)."""

from __future__ import annotations

import time
from typing import Any

from .memory import MIB
from .timing import WARM_SEC, timed_link

SIZE = 256 * MIB  # of a sum
COPY_SIZE = 64 * MIB  # between two GPUs: eight GPUs have 56 pairs


def copy_pairs(torch: Any, _: Any, count: int) -> dict[str, Any]:
    """Copy between every ordered pair of GPUs, compare the results, and time the copies."""
    devices = [torch.device("cuda", index) for index in range(count)]
    # Each GPU has the same numbers, so each can check by itself what arrives.
    sent = [torch.arange(COPY_SIZE // 4, dtype=torch.int32, device=device) for device in devices]
    received = [torch.zeros(COPY_SIZE // 4, dtype=torch.int32, device=device) for device in devices]
    _warm(torch, sent, received)
    pairs = [
        {"from": one, "to": other, **_copy(torch, sent[one], received[other], sent[other])}
        for one in range(count)
        for other in range(count)
        if one != other
    ]
    return {"pairs": pairs, "bytes": COPY_SIZE}


def _warm(torch: Any, sent: list[Any], received: list[Any]) -> None:
    """Copy from every GPU to the next one at the same time, until all clocks have risen."""
    began = time.perf_counter()
    while time.perf_counter() - began < WARM_SEC:
        for source, target in zip(sent, [*received[1:], received[0]], strict=True):
            torch.cuda.set_device(source.device)
            target.copy_(source)
        for source in sent:
            torch.cuda.synchronize(source.device)


def _copy(torch: Any, source: Any, received: Any, expected: Any) -> dict[str, Any]:
    received.zero_()
    torch.cuda.set_device(source.device)
    took = timed_link(torch, source.device, lambda _: received.copy_(source))
    return {
        "direct": bool(torch.cuda.can_device_access_peer(source.device, received.device)),
        "same": bool(torch.equal(received, expected)),
        "gbs": round(COPY_SIZE / took["median_sec"] / 1e9, 3),
    }


def reduce_all(torch: Any, target: Any, rank: int, world: int, meeting: str) -> dict[str, Any]:
    """Add up a tensor over all GPUs. It has whole numbers, so the sum is exact."""
    torch.distributed.init_process_group("nccl", init_method=f"file://{meeting}", rank=rank, world_size=world)
    try:
        tensor = torch.full((SIZE // 4,), float(rank + 1), device=target)
        torch.distributed.all_reduce(tensor)
        right = bool((tensor == world * (world + 1) / 2).all())
        took = _reductions(torch, target, tensor)
    finally:
        torch.distributed.destroy_process_group()
    return {"right": right, "world": world, "bytes": SIZE, "gbs": round(2 * (world - 1) / world * SIZE / took / 1e9, 3)}


def _reductions(torch: Any, target: Any, tensor: Any) -> float:
    """Return the seconds of one reduction. Every process must do the same number, so it is fixed."""
    for count in (5, 20):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        tensor.zero_()
        start.record()
        for _ in range(count):
            torch.distributed.all_reduce(tensor)
        end.record()
        torch.cuda.synchronize(target)
    return float(start.elapsed_time(end)) / 1e3 / count
