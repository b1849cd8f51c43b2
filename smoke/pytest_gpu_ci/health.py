"""Whether CUDA still works in this process.

Some errors are sticky: after an assertion on the device or an illegal address, every CUDA call of the process fails
with the same words, and each later test would be blamed for the first one (github.com/pytorch/pytorch/issues/49019).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pytest_gpu_ci.machine import first_line


@dataclass(frozen=True)
class Death:
    """The test during which CUDA died in this process, and its last words."""

    test: str
    message: str

    def as_text(self) -> str:
        return f"not run: CUDA died in this process during {self.test} ({self.message})"


def synchronize(torch: Any, gpus: Iterable[int]) -> str | None:
    """Wait for what was launched; the first error's first line, or None."""
    for gpu in gpus:
        try:
            torch.cuda.synchronize(gpu)
        except RuntimeError as error:
            return first_line(error)
    return None


def is_dead(torch: Any, gpus: list[int]) -> bool:
    """An error that is not sticky is told once: to be out of memory is no death."""
    synchronize(torch, gpus)
    return synchronize(torch, gpus) is not None
