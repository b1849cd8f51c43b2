"""The device's memory: free space, integrity, and the speed of copies within it and to it."""

from __future__ import annotations

from typing import Any

from .timing import timed, timed_link, warm

MIB = 2**20
# SPARE bytes of the free memory stay for libraries. The pattern fills the rest in chunks.
SPARE, CHUNK = 512 * MIB, 256 * MIB
LINK_WARM_SEC = 0.5  # after a wait, the clocks of a GPU and its link have to rise first
# The golden ratio as int32, which makes the words differ. The two seeds write each bit once as 0 and once as 1.
FACTOR, SEEDS = 0x9E3779B1 - 2**32, (0x5A5A5A5A, ~0x5A5A5A5A)


def free(torch: Any, target: Any) -> dict[str, Any]:
    """Return the total and the free memory."""
    if target.type == "cpu":
        return {}
    left, total = torch.cuda.mem_get_info(target)
    return {"free": int(left), "total": int(total)}


def pattern(torch: Any, target: Any) -> dict[str, Any]:
    """Fill nearly all free memory, read it back, and repeat with every bit inverted."""
    size, usable_bytes = (MIB, 4 * MIB) if target.type == "cpu" else (CHUNK, torch.cuda.mem_get_info(target)[0] - SPARE)
    count = size // 4
    base = torch.arange(count, dtype=torch.int32, device=target) * FACTOR
    check = torch.empty_like(base)
    chunks = [torch.empty_like(base) for _ in range(max(0, usable_bytes // size - 2))]
    wrong = 0
    for seed in SEEDS:
        for number, chunk in enumerate(chunks):  # each chunk differs, so that a wrong address is found
            torch.bitwise_xor(base, seed ^ number, out=chunk)
        for number, chunk in enumerate(chunks):
            torch.bitwise_xor(chunk, base, out=check)
            wrong += int((check != seed ^ number).sum().item())
    tested = len(chunks) * size
    del base, check, chunks
    _release(torch, target)
    return {"bytes": tested, "wrong": wrong}


def speed(torch: Any, target: Any) -> dict[str, Any]:
    """Copy a gibibyte within the device. Bytes read and bytes written both count."""
    size = MIB if target.type == "cpu" else min(1024 * MIB, torch.cuda.mem_get_info(target)[0] // 4)
    pair = [torch.zeros(size, dtype=torch.uint8, device=target) for _ in range(2)]
    took = timed(torch, target, lambda _: pair[1].copy_(pair[0]), 20)
    pair.clear()
    _release(torch, target)
    return {"bytes": size, "gbs": _gbs(2 * size, took), **took}


def copies(torch: Any, target: Any) -> dict[str, Any]:
    """Copy from page-locked memory of the host to the device and back, and compare the result."""
    on_gpu = target.type != "cpu"
    count = (256 * MIB if on_gpu else MIB) // 4
    source = torch.arange(count, dtype=torch.int32, pin_memory=on_gpu)
    back = torch.zeros(count, dtype=torch.int32, pin_memory=on_gpu)
    on_device = torch.zeros(count, dtype=torch.int32, device=target)

    def send(_: int) -> Any:
        return on_device.copy_(source, non_blocking=True)

    if on_gpu:
        warm(torch, target, send, LINK_WARM_SEC)
    up = timed_link(torch, target, send)
    down = timed_link(torch, target, lambda _: back.copy_(on_device, non_blocking=True))
    same = bool(torch.equal(source, back))
    return {"bytes": 4 * count, "h2d": _gbs(4 * count, up), "d2h": _gbs(4 * count, down), "same": same}


def _gbs(size: int, took: dict[str, Any]) -> float:
    return round(size / took["median_sec"] / 1e9, 3) if took["median_sec"] else 0.0


def _release(torch: Any, target: Any) -> None:
    if target.type != "cpu":
        torch.cuda.empty_cache()
