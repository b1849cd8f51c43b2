"""The GPUs of this machine and of this process, or the reason why torch has no GPU.

`--gpu-id`, and pytest-xdist with a part of the GPUs for each worker, set CUDA_VISIBLE_DEVICES early. CUDA reads the
variable once, at the first call in the process: a module-level `torch.cuda.is_available()` is enough. The place of a
GPU is its position among the GPUs that are already visible, so that a GPU which the caller excluded stays excluded
(github.com/triton-lang/triton/pull/11831 does the opposite).
"""

from __future__ import annotations

import os
import re
import socket
import sys
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

DEVICES = Path("/dev")
NO_GPU = "no GPU"
GIB = 2**30


@dataclass(frozen=True)
class Gpu:
    name: str
    memory_gib: float
    compute_capability: tuple[int, int]

    def as_text(self) -> str:
        phrases = capability_text(self.compute_capability)
        return f"{self.name} ({self.memory_gib:.1f} GiB, compute capability {phrases})"


def capability_text(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


@dataclass(frozen=True)
class Machine:
    """The GPUs of this machine. `why` is the reason for a machine without GPUs.

    `unreached` names device nodes of GPUs that torch should be able to use, and cannot use.
    """

    gpus: tuple[Gpu, ...] = ()
    why: str = ""
    unreached: tuple[str, ...] = ()

    def as_text(self) -> str:
        if not self.gpus:
            nodes = f" although {', '.join(self.unreached)} exists" if self.unreached else ""
            return f"{NO_GPU}{nodes} ({self.why})"
        return ", ".join(
            f"{count} x {phrases}" for phrases, count in Counter(gpu.as_text() for gpu in self.gpus).items()
        )


def nodes() -> tuple[str, ...]:
    """Return the driver's device nodes.

    A container has only the nodes of the GPUs that it was given, although /proc lists all GPUs of the host.
    """
    return tuple(str(path) for path in sorted(DEVICES.glob("nvidia[0-9]*"), key=lambda path: (len(path.name), path)))


def visible() -> list[str]:
    """Return the GPUs that CUDA may use, in the form of CUDA_VISIBLE_DEVICES. This starts and imports nothing."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        return [str(index) for index, _ in enumerate(nodes())]
    entries = [entry.strip() for entry in named.split(",")]
    # CUDA stops reading at the first entry that is not a GPU:
    # https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#env-vars
    hidden = next((at for at, entry in enumerate(entries) if entry in ("", "-1", "NoDevFiles")), len(entries))
    return entries[:hidden]


def probe() -> Machine:
    """Query torch for its GPUs. This starts CUDA, so it only runs before a test that uses a GPU."""
    hidden = "CUDA_VISIBLE_DEVICES" in os.environ and not visible()
    unreached = () if hidden else nodes()
    try:
        import torch
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == "torch"
        return Machine((), "torch is not installed" if missing else f"torch cannot be imported: {error}", unreached)
    with warnings.catch_warnings():
        # refusal() reports what torch warns of here. A suite that turns warnings into errors must not fail.
        warnings.simplefilter("ignore")
        # is_available() alone returns True on some machines with an empty CUDA_VISIBLE_DEVICES:
        # github.com/MakazhanAlpamys/Soup/issues/1128
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if count == 0:
            why = f"CUDA_VISIBLE_DEVICES is {os.environ['CUDA_VISIBLE_DEVICES']!r}" if hidden else refusal(torch)
            return Machine((), why, unreached)
        torch.cuda.init()
    return Machine(tuple(gpu(torch.cuda.get_device_properties(index)) for index in range(count)))


def refusal(torch: object) -> str:
    """Return the reason why this torch has no GPU, if possible with the message of torch."""
    version, built = torch.__version__, torch.version  # type: ignore[attr-defined]
    if built.cuda is None and getattr(built, "hip", None) is None:
        return f"torch {version} is built without CUDA"
    try:
        torch.cuda.init()  # type: ignore[attr-defined]
    except RuntimeError as error:
        return f"torch {version}: {first_line(error)}"
    return f"torch {version} sees no GPU"


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def gpu(properties: object) -> Gpu:
    name, total = properties.name, properties.total_memory  # type: ignore[attr-defined]
    return Gpu(name, total / GIB, (properties.major, properties.minor))  # type: ignore[attr-defined]


# Sockets that stay open until this process ends in any way.
_reserved_names: list[socket.socket] = []


def chosen(gpu_id: str | None) -> tuple[list[str], list[str]]:
    """Return the GPUs to use, in the form of CUDA_VISIBLE_DEVICES, and the lines of the problem, if there is one."""
    gpus = visible()
    if gpu_id is None:
        return gpus, []
    ids = gpu_id.split(",")
    if not all(re.fullmatch(r"\d+", each) for each in ids) or len(set(ids)) != len(ids):
        return [], ["pytest: --gpu-id: not a list of GPUs", f"got: {gpu_id!r}", "expected: places, such as 0 or 0,2"]
    # If the number of GPUs is unknown here, CUDA checks the places.
    beyond = [each for each in ids if int(each) >= len(gpus)] if gpus else []
    if beyond:
        return [], [
            f"pytest: --gpu-id: no GPU {', '.join(beyond)}",
            f"got: {gpu_id!r}",
            f"expected: places of the {len(gpus)} visible: {', '.join(gpus)}",
            "hint: places are counted in CUDA_VISIBLE_DEVICES where it is set",
        ]
    return [gpus[int(each)] for each in ids] if gpus else ids, []


def too_many(workers: int, gpus: list[str], share: bool) -> list[str]:
    """Return the lines of an error if workers would have to share a GPU without --gpu-share."""
    if workers <= len(gpus) or not gpus or share:
        return []
    return [
        "pytest: -n: more workers than GPUs, and each one uses GPU memory",
        f"got: {workers} workers",
        f"expected: at most {len(gpus)}, one for each GPU: {', '.join(gpus)}",
        f"hint: -n {len(gpus)}, or --gpu-share to let them share",
    ]


def of_worker(place: int, workers: int, gpus: list[str]) -> list[str]:
    """Return the GPUs of the worker in this place: an equal part, or one in turn if there are too few."""
    if workers > len(gpus):
        return [gpus[place % len(gpus)]]
    return gpus[place * len(gpus) // workers : (place + 1) * len(gpus) // workers]


def place_of_worker() -> tuple[int, int] | None:
    """Return this process's place among the workers of pytest-xdist, and their number; None outside of a worker.

    gw0 has place 0. A worker that replaces a dead one has a new name and takes the free place.
    """
    name, count = os.environ.get("PYTEST_XDIST_WORKER", ""), os.environ.get("PYTEST_XDIST_WORKER_COUNT", "")
    if not (re.fullmatch(r"gw\d+", name) and count.isdigit()):
        return None
    own_number, workers = int(name[2:]), int(count)
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", "")
    return next(
        (place for place in places(own_number, workers) if reserve(f"{run}-{place}")), own_number % workers
    ), workers


def places(own_number: int, workers: int) -> list[int]:
    """Return the places that a worker may try.

    One of the first workers only tries its own place, because each of the others needs its own too.
    """
    return [own_number] if own_number < workers else list(range(workers))


def reserve(name: str) -> bool:
    """Reserve a name that no other process has.

    The name is an abstract Unix socket: the kernel releases it when this process ends, and no file remains.
    """
    if sys.platform != "linux":
        return False
    taken = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        taken.bind(f"\0pytest-gpu-ci-{name}")
    except OSError:
        taken.close()
        return False
    _reserved_names.append(taken)
    return True
