"""Several GPUs: copies from each to each, and a sum over all of them."""

from __future__ import annotations

from typing import Any

from .memory import MIB
from .timing import timed

SIZE = 256 * MIB


def copy_pairs(torch: Any, _: Any, count: int) -> dict[str, Any]:
    """Copy between every ordered pair of so many, compare what arrived, and say how fast."""
    pairs = []
    for one in range(count):
        source = torch.arange(SIZE // 4, dtype=torch.int32, device=torch.device("cuda", one))
        for other in (each for each in range(count) if each != one):
            there = torch.zeros(SIZE // 4, dtype=torch.int32, device=torch.device("cuda", other))
            pairs.append({"from": one, "to": other, **_copy(torch, source, there)})
    return {"pairs": pairs}


def _copy(torch: Any, source: Any, there: Any) -> dict[str, Any]:
    torch.cuda.set_device(source.device)
    took = timed(torch, source.device, lambda _: there.copy_(source))
    return {
        "direct": bool(torch.cuda.can_device_access_peer(source.device, there.device)),
        "same": bool(torch.equal(source.cpu(), there.cpu())),
        "gbs": round(SIZE / took["median_sec"] / 1e9, 3),
    }


def reduce_all(torch: Any, target: Any, rank: int, world: int, meeting: str) -> dict[str, Any]:
    """Add up the same tensor over all GPUs; whole numbers, so the sum is exact."""
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
    """Seconds of one; every process must do as many, so their number is fixed."""
    for count in (5, 20):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        tensor.zero_()
        start.record()
        for _ in range(count):
            torch.distributed.all_reduce(tensor)
        end.record()
        torch.cuda.synchronize(target)
    return float(start.elapsed_time(end)) / 1e3 / count
