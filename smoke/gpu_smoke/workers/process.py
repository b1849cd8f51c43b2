"""A worker process as its parent sees it: its pipes, its current step, and its end.

A step is what the worker does now, such as importing torch. The worker reports each step before it begins, so the
parent can name the step in which the worker hangs.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from .. import faults
from ..plan import Task

_CHUNK = 65_536
_TAIL = 4_096
_START_SEC = 60.0  # the start of Python itself, from a cold disk
_LISTED_SEC = 1.0  # the driver may list a process for this long after its end: our guess

# The worker imports this package from its location, also from a zip, and nothing from the working directory.
_START = """\
import sys
sys.path[:] = [sys.argv[1], *(path for path in sys.path if path)]
from gpu_smoke.workers import roles
sys.exit(roles.main(sys.argv[2:]))
"""

# Variables of the image must not change results or speed.
# 0 keeps NVIDIA's libraries from TF32 whatever the image sets. With TF32, float32 products would look wrong. If loaded
# eagerly, the kernels of torch and its libraries may take more memory than `exclusive` allows. On an H100 `quick` then
# took 11.5 s instead of 4.3 (bench/results/2026-11-23-h100-h200.md).
SET = {"NVIDIA_TF32_OVERRIDE": "0", "CUDA_MODULE_LOADING": "LAZY", "PYTHONUNBUFFERED": "1"}

# Variables that change kernels, bits, memory or speed. Their sources are:
#
# - CUDA C++ Programming Guide, "CUDA Environment Variables"
# - cuBLAS, "Results Reproducibility"
# - NCCL and PyTorch, "Environment Variables"
#
# Variables that select GPUs or network interfaces are kept.
DROPPED = (
    "ATEN_CPU_CAPABILITY",
    "CUBLAS_*", "CUBLASLT_*", "CUDNN_*",
    "COMPUTE_PROFILE*", "CUDA_PROFILE*", "CUDA_INJECTION*", "CUDA_*COREDUMP*", "CUDA_*PTX_JIT",
    "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_DATA_LOADING",
    "NCCL_ALGO", "NCCL_PROTO", "NCCL_P2P_*", "NCCL_SHM_DISABLE", "NCCL_NVLS_ENABLE", "NCCL_M??_NCHANNELS",
    "NCCL_BUFFSIZE", "NCCL_NTHREADS",
    "GOMP_*", "KMP_*", "MKL_*", "OMP_*",
    "PYTORCH_*ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING", "TORCH_*TF32*", "TORCH_BLAS_*", "TORCH_CUDNN_*",
    "TORCH_NCCL_*",
)  # fmt: skip


class WorkerProcess:
    """One worker process. `role` is a key of roles.ROLES, `index` the number of its GPU.

    `given` has the arguments of the role's function. The parent calls these methods; none of them waits for the worker.
    """

    def __init__(self, role: str, index: int, given: dict[str, Any]) -> None:
        self.role, self.index = role, index
        self.plan: list[Task] = []
        self.tasks_done = 0
        self.idle = False  # waits for a task
        self.busy = False  # works on a task
        self.done = False  # has reported that it is done
        self.ended = False  # the process has ended
        self.abandoned = False  # the parent no longer waits for it
        self.on_gpu_until = math.inf
        self._partial_line, self._output_tail = b"", b""
        self.events, events_write = os.pipe()
        self.output, out = os.pipe()
        root = Path(__file__).absolute().parents[2]  # the folder of the package
        self.process = subprocess.Popen(
            [sys.executable, "-c", _START, str(root), str(events_write), str(os.getpid()), role, json.dumps(given)],
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=out,
            pass_fds=(events_write,),
            start_new_session=True,  # a signal to the parent's process group must not end a worker before the verdict
            env=of_worker(os.environ),
        )
        os.close(events_write)
        os.close(out)
        os.set_blocking(self.events, False)
        os.set_blocking(self.output, False)
        self.begin_step("start", "starting Python", "child", _START_SEC)

    @property
    def gone(self) -> bool:
        """True if the process has ended, or if the parent no longer waits for it."""
        return self.ended or self.abandoned

    @property
    def on_gpu(self) -> bool:
        """True if the worker computes on a GPU. The roles host and health do not."""
        return self.role not in ("host", "health")

    @property
    def next(self) -> Task | None:
        """The current task, or the next one."""
        return self.plan[self.tasks_done] if self.tasks_done < len(self.plan) else None

    def begin_step(self, stage: str, text: str, check_id: str, limit_sec: float) -> None:
        """Begin a step. `check_id` is the check that fails if the step ends with an error."""
        self.stage, self.text, self.check_id = stage, text, check_id
        self.limit_sec, self.deadline = limit_sec, time.monotonic() + limit_sec

    def send(self, task: Task) -> None:
        """Send a task to the worker."""
        self.idle, self.busy = False, True
        self.begin_step("kernel", task.text, task.stage.error, task.limit_sec)
        self._write(json.dumps({"stage": task.stage.name, "params": task.params}).encode() + b"\n")

    def ready(self) -> None:
        """Note that the worker is ready for a task, and has done its current task if it had one."""
        self.tasks_done += self.busy
        self.idle, self.busy = True, False

    def end_tasks(self) -> None:
        """Close the worker's input, so that the worker ends."""
        self.idle = False
        self.begin_step("end", "leaving torch", "child", 30.0)
        self._write(b"")

    def read(self, pipe: int) -> bytes | None:
        """Return the data in the pipe: None for an empty pipe, b"" for a closed one."""
        try:
            data = os.read(pipe, _CHUNK)
        except BlockingIOError:
            return None
        if pipe == self.output:
            self._output_tail = (self._output_tail + data)[-_TAIL:]
        return data

    def events_in(self, data: bytes) -> list[dict[str, Any]]:
        """Return the events that these bytes complete."""
        *lines, self._partial_line = (self._partial_line + data).split(b"\n")
        events = []
        for line in lines:
            with contextlib.suppress(ValueError):  # judge.completeness reports a missing result
                events.append(json.loads(line))
        return events

    def handle_exit(self) -> tuple[str, faults.Meaning] | None:
        """Note the end of the process. Returns a description and its meaning; None if the end was expected."""
        self.ended, self.on_gpu_until = True, time.monotonic() + _LISTED_SEC
        code = self.process.returncode
        if self.abandoned or (code == 0 and self.done):
            return None
        text, means = faults.death(code, self.stage)
        last_line_text = faults.one_line(self.last_line())
        return f"{text} while {self.text}" + (f"; its last output: {last_line_text}" if last_line_text else ""), means

    def last_line(self) -> str:
        """Return the last line that the worker, or a library in it, printed."""
        lines = self._output_tail.decode("utf-8", "replace").splitlines()
        return next((line for line in reversed(lines) if line.strip()), "")

    def kill(self) -> None:
        """Kill the process and its children. Returns at once, even if they do not end."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Close the pipes, and kill the process if it still runs."""
        if self.process.poll() is None:
            self.kill()
        self._write(b"")
        os.close(self.events)
        os.close(self.output)

    def _write(self, line: bytes) -> None:
        """Write a task, or close the pipe for an empty line. A task fits into the pipe, so this never blocks."""
        tasks = self.process.stdin
        with contextlib.suppress(OSError):  # the process has died, which its end reports
            if tasks and line:
                tasks.write(line)
                tasks.flush()
            elif tasks:
                tasks.close()


def of_worker(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a worker, from those of the command."""
    return {name: value for name, value in environment.items() if not _dropped(name)} | SET


def changed(environment: Mapping[str, str]) -> list[str]:
    """Return the names of variables that workers do not get, or get with another value."""
    found = [name for name in environment if _dropped(name)]
    return sorted(found + [name for name, value in SET.items() if environment.get(name, value) != value])


class Group:
    """The workers of a run or of a diagnosis, as the event loop uses them. `on_start` is called for each new worker."""

    deadline: float  # by time.monotonic(); after it the loop waits for no worker
    time_limit_text: str  # the time limit, for a sentence

    def __init__(self, on_start: Callable[[WorkerProcess], None]) -> None:
        self.processes: list[WorkerProcess] = []
        self._on_start = on_start

    def start(self, role: str, index: int, given: dict[str, Any]) -> WorkerProcess:
        """Start a worker."""
        worker = WorkerProcess(role, index, given)
        self.processes.append(worker)
        self._on_start(worker)
        return worker

    def advance(self) -> bool:
        """Start the work that can start now. Returns False if the run is over."""
        raise NotImplementedError

    def overdue(self, now: float) -> list[WorkerProcess]:
        """Return the workers that exceeded their time limit. A worker that waits for a task has no limit."""
        return [worker for worker in self.processes if not worker.gone and not worker.idle and now >= worker.deadline]

    def stop_waiting(self, worker: WorkerProcess, reason: str) -> None:
        """Stop waiting for a worker. It is killed after the report."""
        raise NotImplementedError

    def stop_waiting_for_all(self, reason: str) -> None:
        """Stop waiting for all workers: first for those with tasks."""
        remaining = [worker for worker in self.processes if not worker.gone]
        for worker in [worker for worker in remaining if worker.role != "health"] or remaining:
            self.stop_waiting(worker, reason)

    def handle_event(self, worker: WorkerProcess, event: dict[str, Any]) -> None:
        """Handle one event of a worker."""
        raise NotImplementedError

    def handle_end(self, worker: WorkerProcess) -> None:
        """Handle the end of a process."""
        raise NotImplementedError

    def close(self) -> None:
        """Close all workers."""
        for worker in self.processes:
            worker.close()


def _dropped(name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in DROPPED)
