"""Detect that CUDA no longer works in this process.

Some errors are sticky: after an assertion on the device or an illegal address, every CUDA call of the process fails
with the same message. Each later test would fail for an error of an earlier one
(github.com/pytorch/pytorch/issues/49019).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pytest_gpu_ci.machine import first_line


@dataclass(frozen=True)
class Death:
    """The test during which CUDA stopped working in this process, and the error message."""

    test: str
    message: str

    def as_text(self) -> str:
        return f"not run: CUDA died in this process during {self.test} ({self.message})"


def synchronize(torch: Any, gpus: Iterable[int]) -> str | None:
    """Wait for all launched kernels. Returns the first line of the first error, or None."""
    for gpu in gpus:
        try:
            torch.cuda.synchronize(gpu)
        except RuntimeError as error:
            return first_line(error)
    return None


def is_dead(torch: Any, gpus: list[int]) -> bool:
    """Return True if an error persists. An error that is not sticky is reported once, such as out of memory."""
    synchronize(torch, gpus)
    return synchronize(torch, gpus) is not None
