"""The GPUs that torch can use on this machine, or the reason why torch has no GPU."""

from __future__ import annotations

import os
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
