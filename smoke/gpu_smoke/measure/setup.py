"""Set up torch so that the same work gives the same bits, and list the devices that it sees."""

from __future__ import annotations

import warnings
from typing import Any

from .. import machine


def load(device: str) -> Any:
    """Import torch and set it up."""
    import torch

    torch.set_float32_matmul_precision("highest")  # no TF32, because its errors are 300 times the limit of float32
    torch.backends.cudnn.allow_tf32 = False
    # Sums in half precision would be as inexact as a broken GPU. The kernels that use them differ between GPUs.
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    if device == "cpu":
        # Threads may split a sum differently from one product to the next. No GPU library does so on one stream.
        torch.set_num_threads(1)
    return torch


def about(torch: Any) -> dict[str, Any]:
    """Return the versions of torch and of its CUDA."""
    return {"version": str(torch.__version__), "cuda": torch.version.cuda}


def target(torch: Any, device: str, index: int) -> Any:
    """Select the device and return it."""
    if device == "cpu":
        return torch.device("cpu")
    torch.cuda.set_device(index)
    # Every GPU has a worker that computes references on the CPU at the same time. torch takes as many threads as there
    # are processors, even if a pod may use only a few of them.
    torch.set_num_threads(max(1, machine.processors() // torch.cuda.device_count()))
    return torch.device("cuda", index)


def devices(torch: Any, device: str) -> tuple[list[dict[str, Any]], str]:
    """Return the devices. Without devices, also return the message of CUDA."""
    if device == "cpu":
        return [{"index": 0, "name": "CPU"}], ""
    with warnings.catch_warnings(record=True) as caught:  # torch only warns if the driver is too old
        warnings.simplefilter("always")
        count = int(torch.cuda.device_count())
        refusal = _refusal(torch)
    if count and refusal:
        raise RuntimeError(refusal)
    if count:
        return [_gpu(torch, index) for index in range(count)], ""
    return [], next((text for text in (refusal, *(str(warning.message) for warning in caught)) if text), "")


def _refusal(torch: Any) -> str:
    """Return the reason why CUDA does not start; empty if it does."""
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
        "uuid": str(getattr(properties, "uuid", "")),  # not every torch has it
        "cc": f"{properties.major}.{properties.minor}",
        "sm": int(properties.multi_processor_count),
        "mem_bytes": int(properties.total_memory),
        # Older torch does not report these. CUDA gives clocks in kHz.
        "clock_mhz": int(getattr(properties, "clock_rate", 0)) // 1000,
        "memory_clock_mhz": int(getattr(properties, "memory_clock_rate", 0)) // 1000,
        "memory_bus_bits": int(getattr(properties, "memory_bus_width", 0)),
    }
