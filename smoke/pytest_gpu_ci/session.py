"""The state of one pytest process: the machine, the mode and the health of CUDA. It decides which tests run."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from pytest_gpu_ci.machine import Machine, first_line, probe
from pytest_gpu_ci.needs import Needs

MODES = ("auto", "require", "strict", "off")


@dataclass(frozen=True)
class Death:
    """The test during which CUDA stopped working in this process, and the error message.

    Some errors are sticky: after an assertion on the device or an illegal address, every CUDA call of the process fails
    with the same message (github.com/pytorch/pytorch/issues/49019). Each later test would fail for that error.
    """

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


def problem(subject: str, *lines: str) -> str:
    return "\n".join([subject, *(f"  {line}" for line in lines)])


def note(item: pytest.Item, name: str, value: object) -> None:
    """Set a property of the test, for JUnit and for the summary. A rerun replaces it."""
    item.user_properties[:] = [each for each in item.user_properties if each[0] != name]
    item.user_properties.append((name, value))


class Session:
    """The state of one process. Under pytest-xdist each worker has its own."""

    KEY = pytest.StashKey["Session"]()
    NEEDS = pytest.StashKey[Needs]()
    PROBLEMS = pytest.StashKey[list[str]]()
    FAILED = pytest.StashKey[bool]()

    def __init__(self, mode: str, leak_mib: float) -> None:
        self.mode = mode
        self.leak_mib = leak_mib
        self.watch: Watch | None = None
        self.death: Death | None = None
        self._machine: Machine | None = None

    @property
    def machine(self) -> Machine:
        if self._machine is None:
            self._machine = probe()
        return self._machine

    def admit(self, item: pytest.Item, wanted: Needs) -> None:
        """Let the test run, or skip or fail it with a reason."""
        item.stash[self.FAILED] = False
        problems = item.stash[self.PROBLEMS]
        if problems:
            pytest.fail("\n".join(problems), pytrace=False)
        if self.mode == "off":
            self._refuse(item, "GPU tests are off (--gpu=off)")
        if self.death is not None:
            self._refuse(item, self.death.as_text(), fail=self.death.as_text())
        unmet = wanted.unmet(self.machine)
        if unmet is None:
            note(item, "gpu", ", ".join(gpu.name for gpu in self.machine.gpus[: wanted.count]))
            return
        fails = self.mode == "strict"
        if not self.machine.gpus:
            # A driver with GPUs that torch cannot use is a mistake. Skipping would hide it.
            fails = self.mode != "auto" or bool(self.machine.unreached)
        self._refuse(item, unmet, fail=f"--gpu={self.mode}: {unmet}" if fails else "")

    def _refuse(self, item: pytest.Item, reason: str, *, fail: str = "") -> None:
        """Skip the test with this reason, or fail it with the given text.

        The summary has the hint, once for all tests.
        """
        note(item, "gpu_not_run", reason)
        if fail:
            pytest.fail(fail, pytrace=False)
        pytest.skip(reason)

    def failed(self, item: pytest.Item, error: BaseException) -> None:
        """After a failure in any phase, check if CUDA still works. If not, later tests do not run."""
        item.stash[self.FAILED] = True
        if self.death is not None or self.watch is None:
            return
        torch = self.watch.torch
        if is_dead(torch, self.watch.used(item.stash[self.NEEDS].count)):
            self.death = Death(item.nodeid, first_line(error))


def of(item: pytest.Item) -> Session:
    """Return the session that a test belongs to."""
    return item.config.stash[Session.KEY]


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
