"""All that touches torch: what there is to compute on, and what it computes. It measures; checks.py judges."""

from __future__ import annotations

import ctypes
import hashlib
import math
import time
import warnings
from pathlib import Path
from typing import Any

from .plan import REPEATS, SIZES

SEED = 7


def load(device: str) -> Any:
    """Import torch, set up so that the same work gives the same bits."""
    import torch

    torch.set_float32_matmul_precision("highest")  # no TF32: it is 300 times less exact than the limit of float32
    # Sums in half precision would be as inexact as a sick GPU; which kernels use them differs from GPU to GPU.
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    if device == "cpu":
        # Threads may split a sum differently from one product to the next, which no GPU library does on one stream.
        torch.set_num_threads(1)
    return torch


def about(torch: Any) -> dict[str, Any]:
    """Which torch this is."""
    return {"version": str(torch.__version__), "cuda": torch.version.cuda}


def driver() -> str:
    """The kernel driver's version, from its own file; empty where there is none."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return next((word for word in text.split() if word[:1].isdigit() and "." in word), "")


def devices(torch: Any, device: str) -> tuple[list[dict[str, Any]], str]:
    """The devices, and what CUDA said when there are none."""
    if device == "cpu":
        return [{"index": 0, "name": "CPU"}], ""
    with warnings.catch_warnings(record=True) as caught:  # counting only warns of a driver that is too old
        warnings.simplefilter("always")
        count = int(torch.cuda.device_count())
        refusal = _refusal(torch)
    if count and refusal:
        raise RuntimeError(refusal)
    if count:
        return [_gpu(torch, index) for index in range(count)], ""
    return [], next((text for text in (refusal, *(str(warning.message) for warning in caught)) if text), "")


def product(torch: Any, device: str, index: int, dtype: str) -> dict[str, Any]:
    """Multiply on the device, again and again, and compare with float64 on the CPU."""
    began = time.monotonic()
    n = SIZES[device]
    target = torch.device("cpu") if device == "cpu" else torch.device("cuda", index)
    if device != "cpu":
        torch.cuda.set_device(index)
    generator = torch.Generator().manual_seed(SEED)
    left, right = (torch.randn(n, n, generator=generator).to(getattr(torch, dtype)) for _ in range(2))
    reference = left.double() @ right.double()  # of inputs already rounded, so what differs is the device's own error
    left, right = left.to(target), right.to(target)
    first = left @ right
    # Compared as bits: NaN equals nothing, and equal numbers may differ in them.
    bits = {2: torch.int16, 4: torch.int32}[first.element_size()]
    same = sum(bool(torch.equal((left @ right).view(bits), first.view(bits))) for _ in range(REPEATS))
    result = first.cpu()  # waits for the device, so its errors are raised here at the latest
    error = result.double() - reference
    return {
        "dtype": dtype,
        "n": n,
        "finite": bool(result.isfinite().all()),
        "norm_error": _finite(error.norm() / reference.norm()),
        "element_error": _finite(error.abs().max() / reference.pow(2).mean().sqrt()),
        "repeats": REPEATS,
        "same": same,
        "hash": _digest(result),
        "seconds": round(time.monotonic() - began, 3),
    }


def _refusal(torch: Any) -> str:
    """Why CUDA does not start; empty when it does."""
    try:
        torch.cuda.init()
    except RuntimeError as error:
        return str(error)
    return ""


def _gpu(torch: Any, index: int) -> dict[str, Any]:
    properties = torch.cuda.get_device_properties(index)
    return {
        "index": index,
        "name": str(properties.name),
        "uuid": str(getattr(properties, "uuid", "")),  # not every torch says
        "cc": f"{properties.major}.{properties.minor}",
        "sm": int(properties.multi_processor_count),
        "mem_bytes": int(properties.total_memory),
    }


def _finite(number: Any) -> float | None:
    """JSON has no NaN: a product full of it has no error."""
    return value if math.isfinite(value := float(number.item())) else None


def _digest(result: Any) -> str:
    """A fingerprint of the bits: GPUs of one model, driver and torch must all give the same."""
    return hashlib.sha256(ctypes.string_at(result.data_ptr(), result.numel() * result.element_size())).hexdigest()[:16]
