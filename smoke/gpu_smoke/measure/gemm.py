"""Matrix products (GEMM: general matrix multiplication): correctness, repeatability and speed."""

from __future__ import annotations

import ctypes
import hashlib
import math
import time
from typing import Any

from ..plan import REPEATS, SHAPES, Shape
from .timing import timed, warm

SEED = 7
# Inputs are whole numbers of 24 bits, which float32 represents exactly. A power of two scales them to -2..2.
WHOLE, SCALE = 2**23, 2.0**-22
CPU_SIZE = 64  # on a CPU, where speed is not judged
IN_FLIGHT = 16  # products between two waits of the host. With fewer, the GPU is idle for a tenth of the time.


def product(torch: Any, target: Any, dtype: str) -> dict[str, Any]:
    """Multiply on the device several times, and compare with float64 on the CPU."""
    shape, repeats = SHAPES[target.type], REPEATS[target.type]
    left, right = _pair(torch, shape, dtype)
    reference = left.double() @ right.double()  # of rounded inputs, so the difference is the device's own error
    left, right = left.to(target), right.to(target)
    first = left @ right
    same = sum(same_bits(torch, left @ right, first) for _ in range(repeats))
    result = first.cpu()  # waits for the device, so its errors are raised here at the latest
    # In place, because each of these matrices takes 128 MiB for every GPU of the machine.
    error = result.double().sub_(reference)
    norm = reference.norm()
    return {
        "dtype": dtype,
        "n": shape.n,
        "k": shape.k,
        "finite": bool(result.isfinite().all()),
        "norm_error": finite(error.norm() / norm),
        "element_error": finite(error.abs_().max() / norm * math.sqrt(reference.numel())),
        "repeats": repeats,
        "same": same,
        "hash": _digest(result),
    }


def speed(torch: Any, target: Any, dtype: str, n: int, heat_sec: float = 0.0) -> dict[str, Any]:
    """Time products of random numbers. Products of zeros draw less power, and are 13 % faster on an H200.

    With `heat_sec` they are timed twice, before and after that time under load. The second result is judged.
    """
    n = CPU_SIZE if target.type == "cpu" else n
    # Alternate between two pairs, so that no cache of the device holds the next inputs.
    pairs = [_on(torch, target, n, dtype) for _ in range(2)]
    out = pairs[0][0] @ pairs[0][1]

    def multiply(number: int) -> Any:
        return torch.matmul(*pairs[number % 2], out=out)

    took, first = timed(torch, target, multiply), {}
    if heat_sec and target.type != "cpu":
        first = {"first": tflops(n, took["median_sec"]), "heat_sec": heat_sec}
        warm(torch, target, multiply, heat_sec)
        took = timed(torch, target, multiply)
    return {"dtype": dtype, "n": n, "tflops": tflops(n, took["median_sec"]), **first, **took}


def burn(torch: Any, target: Any, dtype: str, n: int, sec: float) -> dict[str, Any]:
    """Multiply for that time, compare every product with the first, and return the first and the last speed."""
    n, end = CPU_SIZE if target.type == "cpu" else n, time.monotonic() + sec
    left, right = _on(torch, target, n, dtype)
    first = left @ right
    took: list[float] = []
    wrong = 0
    while not took or time.monotonic() < end:
        began = time.perf_counter()
        again = [left @ right for _ in range(IN_FLIGHT)]
        wrong += int(sum(_differs(torch, each, first) for each in again))  # waits for the device, once for all
        took.append((time.perf_counter() - began) / IN_FLIGHT)
    tenth = max(1, len(took) // 10)
    speeds = [tflops(n, sum(part) / len(part)) for part in (took[:tenth], took[-tenth:])]
    return {
        "dtype": dtype,
        "n": n,
        "products": IN_FLIGHT * len(took),
        "wrong": wrong,
        "began": speeds[0],
        "ended": speeds[1],
    }


def tflops(n: int, seconds: float) -> float:
    """Return the TFLOPS of one product of n x n matrices in that time."""
    return round(2 * n**3 / seconds / 1e12, 4) if seconds else 0.0


def same_bits(torch: Any, one: Any, other: Any) -> bool:
    """Compare the bits of two tensors. A comparison of numbers is not enough: NaN equals nothing, and 0 equals -0."""
    return bool(torch.equal(_bits(torch, one), _bits(torch, other)))


def _differs(torch: Any, one: Any, other: Any) -> Any:
    """Return a tensor on the device: True if the bits differ. This does not wait for the result."""
    return (_bits(torch, one) != _bits(torch, other)).any()


def _bits(torch: Any, tensor: Any) -> Any:
    """View the same memory as whole numbers."""
    return tensor.view({2: torch.int16, 4: torch.int32}[tensor.element_size()])


def finite(number: Any) -> float | None:
    """Return a number, or None for NaN and infinity, which JSON does not have."""
    return value if math.isfinite(value := float(number.item())) else None


def _on(torch: Any, target: Any, n: int, dtype: str) -> tuple[Any, Any]:
    """Create the inputs on the device, because a CPU takes seconds for so many numbers."""
    left, right = (torch.randn(n, n, dtype=getattr(torch, dtype), device=target) for _ in range(2))
    return left, right


def _pair(torch: Any, shape: Shape, dtype: str) -> tuple[Any, Any]:
    """Create the same inputs on every machine.

    randn would not: it computes logarithms and cosines differently on CPUs with and without AVX2.
    """
    generator = torch.Generator().manual_seed(SEED)
    sizes = (shape.n, shape.k), (shape.k, shape.n)
    whole = (torch.randint(-WHOLE, WHOLE + 1, size, generator=generator) for size in sizes)
    left, right = ((each.to(torch.float32) * SCALE).to(getattr(torch, dtype)) for each in whole)
    return left, right


def _digest(result: Any) -> str:
    """Return a digest of the bits. GPUs of one model, driver and torch must all have the same."""
    return hashlib.sha256(ctypes.string_at(result.data_ptr(), result.numel() * result.element_size())).hexdigest()[:16]
