"""The GPU memory that a test leaves allocated, and its peak."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Any

MIB = 2**20


def clean(torch: Any) -> None:
    """Free the memory that no tensor uses."""
    # cuBLAS allocates its workspaces from torch and keeps them: 8 MiB after the first product. That is no leak of a
    # test (github.com/pytorch/pytorch/issues/95668). torch's own leak check also clears them in this way.
    clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)
    if clear is not None:
        clear()
    torch.cuda.empty_cache()


class Watch:
    """The memory of one test.

    Allocations of fixtures with a wider scope do not count, because they outlive the test.
    """

    def __init__(self, torch: Any, gpus: int) -> None:
        self.torch = torch
        self.gpus = range(gpus)
        self._setting_up = 0
        clean(torch)
        self.before = self._allocated()
        for gpu in self.gpus:
            torch.cuda.reset_peak_memory_stats(gpu)

    def _allocated(self) -> list[int]:
        return [int(self.torch.cuda.memory_allocated(gpu)) for gpu in self.gpus]

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count allocations while a fixture of a wider scope is set up. Calls may be nested, as fixtures are."""
        if self._setting_up:
            yield
            return
        start = self._allocated()
        self._setting_up += 1
        try:
            yield
        finally:
            self._setting_up -= 1
            by_gpu = zip(self.before, start, self._allocated(), strict=True)
            self.before = [before + at_end - at_start for before, at_start, at_end in by_gpu]

    def peak_mib(self) -> float:
        """Return the most MiB that one GPU had allocated during the test."""
        return max(int(self.torch.cuda.max_memory_allocated(gpu)) for gpu in self.gpus) / MIB

    def leaked_mib(self) -> list[float]:
        """Return the MiB that each GPU has more than before.

        Reference cycles are no leak, so they are collected first.
        """
        clean(self.torch)
        if any(now > before for before, now in zip(self.before, self._allocated(), strict=True)):
            gc.collect()
            clean(self.torch)
        return [(now - before) / MIB for before, now in zip(self.before, self._allocated(), strict=True)]

    def used(self, count: int) -> list[int]:
        """Return the GPUs that the test was given, and any others that it used."""
        return [gpu for gpu in self.gpus if gpu < count or self.torch.cuda.max_memory_allocated(gpu)]
