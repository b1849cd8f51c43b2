"""A worker process and its roles. A role is a function that emits events; a new role is a new row of ROLES.

Only workers use a device, and they report every step, so a hang can be located.

A worker reads one task per line of standard input and reports when it is ready for the next. At the end of the input
it ends.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from ..measure import gemm, libcuda, memory, nvml, peers, setup, training

Emit = Callable[..., None]
_PR_SET_PDEATHSIG = 1  # linux/prctl.h

# The function for each stage of plan.py. Its arguments are torch, the device and the parameters of the task.
WORK: dict[str, Callable[..., dict[str, Any]]] = {
    "memory": memory.free,
    "gemm": gemm.product,
    "cudnn.conv": training.convolve,
    "train": training.train,
    "mem.pattern": memory.pattern,
    "gemm.speed": gemm.speed,
    "mem.speed": memory.speed,
    "copies": memory.copies,
    "burn": gemm.burn,
    "dataloader": training.load_data,
    "p2p": peers.copy_pairs,
    "allreduce": peers.reduce_all,
}


def first(emit: Emit, device: str) -> None:
    """Start the driver, list the devices, and work on the first one."""
    if device == "cuda":
        emit("stage", stage="devices", text="starting the driver", check_id="libcuda.real", limit_sec=60)
        started = libcuda.start()
        emit("libcuda", **started)
        if started.get("code") != 0:
            return
    torch = _import(emit, device)
    about = setup.about(torch)
    emit("torch", **about)
    if device == "cuda" and not about["cuda"]:
        return  # the parent sees from the event that this torch cannot use a GPU
    text = "asking CUDA for the GPUs" if device == "cuda" else "asking for the CPU"
    emit("stage", stage="devices", text=text, check_id="gpu.init", limit_sec=60)
    found, message = setup.devices(torch, device)
    if device == "cuda":
        emit("host", arch_list=list(torch.cuda.get_arch_list()))
    emit("devices", devices=found, message=message)
    if found:
        _run_tasks(emit, torch, setup.target(torch, device, 0))


def gpu(emit: Emit, index: int) -> None:
    """Work on a GPU other than the first, or over all GPUs."""
    torch = _import(emit, "cuda")
    _run_tasks(emit, torch, setup.target(torch, "cuda", index))


def host(emit: Emit) -> None:
    """Work without a GPU."""
    torch = _import(emit, "cpu")
    _run_tasks(emit, torch, setup.target(torch, "cpu", 0))


def query_nvml(emit: Emit) -> None:
    """Query NVML once, without CUDA or torch."""
    emit("stage", stage="devices", text="asking NVML", check_id="nvml", limit_sec=nvml.START_SEC)
    emit("nvml", **nvml.ask())


def health(emit: Emit) -> None:
    """Monitor NVML during the run, until the input ends. This role gets no tasks."""
    nvml.watch(emit, sys.stdin)


def _import(emit: Emit, device: str) -> Any:
    # The import reads gigabytes of CUDA libraries, possibly from a cold disk.
    emit("stage", stage="import", text="importing torch", check_id="torch.import", limit_sec=300)
    return setup.load(device)


def _run_tasks(emit: Emit, torch: Any, target: Any) -> None:
    emit("ready")
    for line in sys.stdin:
        task = json.loads(line)
        began = time.monotonic()
        found = WORK[task["stage"]](torch, target, **task["params"])
        emit("measured", stage=task["stage"], **found, seconds=round(time.monotonic() - began, 3))
        emit("ready")


# `peers` sees every GPU and runs on the first. A `rank` has one GPU, and finds the other ranks through
# the file that its task names.
ROLES: dict[str, Callable[..., None]] = {
    "health": health,
    "first": first,
    "gpu": gpu,
    "host": host,
    "peers": gpu,
    "rank": gpu,
    "nvml": query_nvml,
}


def main(argv: Sequence[str]) -> int:
    """Run a role to its end. `argv` is the pipe for events, the parent's id, the role and the arguments of the role."""
    pipe, parent, role, given = argv
    _die_with(int(parent))

    def emit(event: str, **values: Any) -> None:
        os.write(int(pipe), (json.dumps({"event": event, **values}) + "\n").encode())

    try:
        ROLES[role](emit, **json.loads(given))
    except Exception as error:  # every error of torch is a result, and the parent judges it
        emit("fault", type=type(error).__name__, message=str(error))
    emit("done")
    os._exit(0)  # skips the clean-up of torch, which can hang on a broken driver


def _die_with(parent: int) -> None:
    """Ask the kernel to kill this process when the parent dies: a GPU must not stay in use by an abandoned check."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent died before the line above
        os._exit(1)
