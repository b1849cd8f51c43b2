"""Run the whole check in this process and in virtual time: minutes of eight GPUs pass in a moment.

The parent is the real one, with its pipes. Each worker is a thread here, with the real functions of its role. A worker
runs ahead of the clock until it waits for the parent. Its events are delivered when the clock reaches their times. The
fake torch and the fake NVML (fakes/) move the clock.
"""

from __future__ import annotations

import contextlib
import ctypes
import heapq
import json
import os
import selectors
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from gpu_smoke import options, receipt
from gpu_smoke.measure import libcuda, nvml
from gpu_smoke.workers import parent, process, roles

from .paths import FAKES

PYTHON_SEC = 0.1  # until Python runs in a worker
_PIDS = count(10_000_000)  # above any that Linux gives out
# A fixed set: a check switches between its workers 500 times, and a search of sys.modules took most of its time.
FAKE_MODULES = {
    file.relative_to(FAKES).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")
    for file in (FAKES / "fake_clock.py", FAKES / "pynvml.py", *(FAKES / "torch").rglob("*.py"))
}


def _fakes_loaded() -> list[str]:
    return [name for name in sys.modules if name.partition(".")[0] in ("torch", "pynvml", "fake_clock")]


class _Killed(BaseException):
    """Ends the thread of a worker that was killed."""


class Machine:
    """The clock, and the events to come with their times."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.cold = True  # torch has to be read from the disk
        self.workers: list[Worker] = []
        self.current: Worker | None = None
        self.back = threading.Semaphore(0)
        self.host_pids = False  # NVML numbers processes as the host of a container does (NVIDIA/nvidia-docker#1483)
        self.neighbor: tuple[int, str] | None = None  # another process computes on that GPU while that role works
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()

    def at(self, when: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when, next(self._order), event))

    def until(self, end: float) -> None:
        """Let time pass until the next event, at most until `end`."""
        if not self._events or self._events[0][0] > end:
            self.now = max(self.now, end)
            return
        when, _, event = heapq.heappop(self._events)
        self.now = max(self.now, when)
        event()

    def run(self, worker: Worker) -> None:
        """Let a worker run until it waits. The time of the others stands still meanwhile."""
        now = self.now
        self.current, self.now = worker, max(now, worker.now)
        for name in FAKE_MODULES:
            sys.modules.pop(name, None)
        sys.modules.update(worker.modules)
        worker.go.release()
        self.back.acquire()
        worker.modules = {name: sys.modules[name] for name in FAKE_MODULES if name in sys.modules}
        worker.now, self.now, self.current = self.now, now, None

    def opened(self, gpu: int) -> None:
        assert self.current
        self.current.contexts.setdefault(gpu, self.now)

    def processes(self, gpu: int) -> list[int]:
        found = [
            worker.pid
            for worker in self.workers
            if worker.returncode is None and worker.contexts.get(gpu, self.now + 1) <= self.now
        ]
        if self.neighbor and self.neighbor[0] == gpu:
            found += [4242 for worker in self.alive(self.neighbor[1]) if worker.contexts][:1]
        return [pid + 10_000_000 for pid in found] if self.host_pids else found

    def alive(self, role: str) -> list[Worker]:
        return [worker for worker in self.workers if worker.role == role and worker.returncode is None]


class Worker:
    """The part of subprocess.Popen that the package uses, for a worker in virtual time."""

    machine: Machine

    def __init__(self, command: list[str], *, pass_fds: tuple[int], env: dict[str, str], **more: Any) -> None:
        *_, self.role, given = command
        self.given, self.environment = json.loads(given), env
        self.pid, self.returncode = next(_PIDS), None
        self.events, self.pipes = pass_fds[0], [os.dup(pass_fds[0]), os.dup(more["stdout"])]
        self.now = self.machine.now + PYTHON_SEC
        self.modules: dict[str, Any] = {"fake_clock": self.machine}
        self.go = threading.Semaphore(0)
        self.lines: list[str] = []
        self.contexts: dict[int, float] = {}  # since when it has one on which GPU
        self.closed = self.killed = self.waits = False
        self.stdin = SimpleNamespace(write=self._write, flush=self._resume, close=self._close)
        self.machine.workers.append(self)
        threading.Thread(target=self._main, daemon=True).start()
        self.machine.at(self.now, self._resume)

    def poll(self) -> int | None:
        return self.returncode

    def kill(self) -> None:
        self._end(-signal.SIGKILL)

    def readline(self) -> str:
        """Return the next task, or an empty text at the end of the tasks."""
        while not self.lines and not self.closed:
            self._wait()
        return self.lines.pop(0) if self.lines else ""

    def sleep(self, seconds: float) -> bool:
        """Wait, at most until the end of the tasks. Returns True if the tasks have ended."""
        self.machine.at(self.machine.now + seconds, self._resume)
        if not self.closed:
            self._wait()
        return self.closed

    def emit(self, event: str, **values: Any) -> None:
        data = (json.dumps({"event": event, **values}) + "\n").encode()
        self.machine.at(self.machine.now, lambda: self._tell(data))

    def end(self) -> None:
        """End the process, and the thread too."""
        self.killed = True
        if self.waits:
            self.machine.run(self)
        self._end(-signal.SIGKILL)

    def _main(self) -> None:
        self.waits = True
        self.go.acquire()
        self.waits = False
        try:
            if self.killed:
                return
            try:
                roles.ROLES[self.role](self.emit, **self.given)
            except Exception as error:
                self.emit("fault", type=type(error).__name__, message=str(error))
            self.emit("done")
            self.machine.at(self.machine.now, lambda: self._end(0))
        except _Killed:
            pass
        finally:
            self.machine.back.release()

    def _wait(self) -> None:
        self.waits = True
        self.machine.back.release()
        self.go.acquire()
        self.waits = False
        if self.killed:
            raise _Killed

    def _resume(self) -> None:
        if self.waits and self.returncode is None:
            self.machine.run(self)

    def _write(self, line: bytes) -> None:
        self.lines.append(line.decode())

    def _close(self) -> None:
        self.closed = True
        self._resume()

    def _tell(self, data: bytes) -> None:
        if self.returncode is None:
            os.write(self.pipes[0], data)

    def _end(self, code: int) -> None:
        if self.returncode is None:
            self.returncode = code
            for pipe in self.pipes:
                os.close(pipe)


class _Selector(selectors.DefaultSelector):
    machine: Machine

    def select(self, timeout: float | None = None) -> Any:
        self.machine.until(self.machine.now + (timeout or 0.0))
        return super().select(0)


class _Tasks:
    """Standard input of the worker that runs now."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def __iter__(self) -> Iterator[str]:
        assert self.machine.current
        while line := self.machine.current.readline():
            yield line


@contextlib.contextmanager
def _patched(machine: Machine) -> Iterator[pytest.MonkeyPatch]:
    def sleep(seconds: float) -> None:
        machine.now += seconds

    def select(tasks: Any, *_: Any) -> Any:
        assert machine.current
        return [tasks if machine.current.sleep(nvml.PERIOD_SEC) else []]

    def killpg(pid: int, _: int) -> None:
        [worker] = [worker for worker in machine.workers if worker.pid == pid]
        worker.kill()

    found = {name: sys.modules[name] for name in _fakes_loaded()}
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FAKES))
        patch.setenv("GPU_SMOKE_ROOT", str(FAKES / "root"))
        for name in ("monotonic", "perf_counter"):
            patch.setattr(time, name, lambda: machine.now)
        patch.setattr(time, "sleep", sleep)
        patch.setattr(os, "killpg", killpg)
        patch.setattr(Worker, "machine", machine, raising=False)
        patch.setattr(_Selector, "machine", machine, raising=False)
        patch.setattr(process, "subprocess", SimpleNamespace(Popen=Worker, PIPE=None))
        patch.setattr(parent, "selectors", SimpleNamespace(DefaultSelector=_Selector, EVENT_READ=selectors.EVENT_READ))
        patch.setattr(roles, "sys", SimpleNamespace(stdin=_Tasks(machine)))
        patch.setattr(nvml, "select", SimpleNamespace(select=select))
        try:
            yield patch
        finally:
            for worker in machine.workers:
                worker.end()
            loaded = _fakes_loaded()
            for name in loaded:
                del sys.modules[name]
            sys.modules.update(found)
            assert {*loaded} <= FAKE_MODULES, "all workers shared a module of the fakes"


def run(
    *args: str, nvml_gpus: list[dict[str, Any]] | None = None, patch: Callable[..., None] | None = None, **fake: Any
) -> dict[str, Any]:
    """Return the receipt of a run on the GPUs that the keywords describe. `nvml_gpus` has NVML's answers."""
    machine = Machine()
    delays = fake.get("delays", {})

    def start() -> dict[str, Any]:
        machine.now += delays.get("cuda", 0.0)
        nodes = ["/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidiactl"]
        found = {"path": "/usr/lib/libcuda.so.580.159.03", "library": "580.159.03", "code": 0, "cuda": "13.2"}
        return {**found, "nodes": nodes, "windows": False, "refused": {}}

    with _patched(machine) as patches:
        patches.setenv("FAKE_TORCH", json.dumps(fake))
        patches.setattr(libcuda, "start", start)
        if nvml_gpus is None:
            patches.setattr(ctypes, "CDLL", _without_nvml(ctypes.CDLL))
        else:
            patches.setenv("FAKE_NVML", json.dumps({"gpus": nvml_gpus, "seconds": delays.get("nvml", 0.0)}))
        if patch:
            patch(patches, machine)
        chosen = options.parse(args, {})
        report = receipt.Receipt(chosen)
        parent.run(chosen, report)
        return report.record()


def _without_nvml(load: Any) -> Any:
    def without(name: str | None, *args: Any, **more: Any) -> Any:
        if name == "libnvidia-ml.so.1":
            raise OSError(f"{name}: cannot open shared object file: No such file or directory")
        return load(name, *args, **more)

    return without
