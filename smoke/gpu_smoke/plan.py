"""What is done to a device, in which order, and how exact it must be: plain data, shared by who measures and judges.

A new stage is a row here, what measures it in WORK (workers/tasks.py), and what judges it in JUDGES (judge/stages.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Limit:
    """Errors of a right product against float64 of the same rounded inputs; above them it is wrong."""

    norm: float  # of the whole matrix: ||C - ref|| / ||ref||
    element: float  # of the worst element, in units of the reference's root mean square


# Errors of right products of random matrices (norm, element). On a CPU with torch 2.15, at n = 512..2048: float32
# 2.5e-7, 2.5e-6; float16 2.1e-4, 2.0e-3; bfloat16 1.7e-3, 1.6e-2. They do not grow with n. On an H100 and an H200: the
# same, but float32 4.1e-7, 8.1e-6 (bench/results/2026-11-23-h100-h200.md). One flipped bit of weight hardly moves the
# norm, so the worst element has a limit of its own.
LIMITS = {
    "float32": Limit(1e-5, 1e-4),
    "float16": Limit(2e-3, 1e-2),
    "bfloat16": Limit(8e-3, 6e-2),
}

# bfloat16 is native from Ampere on; torch.cuda.is_bf16_supported() also says yes where it is emulated
# (its `including_emulation` defaults to True).
BFLOAT16_SINCE = (8, 0)

# Times that a product must come out the same, bit for bit.
REPEATS = {"cuda": 32, "cpu": 8}


@dataclass(frozen=True)
class Shape:
    """An n x k matrix times a k x n matrix."""

    n: int
    k: int


# cuBLAS gives a block of an H100 256 x 128 elements of the product: of 2048 x 2048 that is 128 blocks, which leaves 4
# of its 132 multiprocessors without work; of 4096 x 4096 it is 512, enough for the 188 of an RTX PRO 6000. A small k
# keeps the reference on the CPU well under a second. A CPU proves the code only, and multiplies float16 slowly: 44 s at
# 2048 against 0.1 s at 512 on one core.
SHAPES = {"cuda": Shape(4096, 512), "cpu": Shape(256, 256)}

# How a stage begins. TOGETHER: once every device that still answers has come to it, as jobs would load the machine.
# ALONE: so too, and one device after the other, for they share what is measured.
FREE, TOGETHER, ALONE = "free", "together", "alone"


@dataclass(frozen=True)
class Stage:
    """One piece of work for a child.

    `checks` are the findings it owes; those in `speeds` it may skip where nobody knows how fast the device should be.
    Its limit grows by `pair_sec` with each ordered pair of GPUs.
    """

    name: str
    text: str
    checks: tuple[str, ...]
    limit_sec: float = 60.0
    how: str = FREE
    speeds: tuple[str, ...] = ()
    run: str = ""
    pair_sec: float = 0.0

    @property
    def error(self) -> str:
        """The check that an error on the way belongs to."""
        return self.run or self.checks[0]


GEMM = ("gemm.finite", "gemm.norm", "gemm.element", "gemm.bitwise")
_QUICK = (
    Stage("memory", "asking how much memory is free", ("mem.total", "exclusive")),
    Stage("gemm", "multiplying {dtype} matrices", GEMM, 90.0, run="gemm.run"),
    Stage("cudnn.conv", "convolving", ("cudnn.conv",), 90.0),
    Stage("train", "training a small model", ("train",)),
)
_STANDARD = (
    *_QUICK,
    Stage("mem.pattern", "filling the memory", ("mem.pattern",)),
    Stage("gemm.speed", "timing {dtype} products", ("gemm.speed",), how=TOGETHER, speeds=("gemm.speed",)),
    Stage("mem.speed", "timing copies in memory", ("mem.speed",), how=TOGETHER, speeds=("mem.speed",)),
    Stage("copies", "timing copies from and to the host", ("h2d", "d2h"), how=ALONE),
)
_BURN = (*_STANDARD, Stage("burn", "multiplying for {sec:g} s", ("burn",), how=TOGETHER))

# What NVML is asked of every GPU, in every profile, where it is there to be asked.
HEALTH = (
    "mig", "ecc", "remap", "retired", "xid", "recovery", "throttle", "pcie", "nvlink", "exclusive.processes",
)  # fmt: skip

# Stages that load the GPU for seconds, so that its link to the host has risen to what it can.
TIMED = frozenset({"gemm.speed", "mem.speed", "copies", "burn"})

# Work of children of another role: beside no GPU at all, over all GPUs in one process, and one process for each GPU.
_HOST = (Stage("dataloader", "loading data in two processes", ("shm.loader",)),)
# A healthy pair takes 0.1 to 0.3 s, and eight GPUs have 56 of them.
_PEERS = (Stage("p2p", "copying from GPU to GPU", ("p2p",), pair_sec=1.0),)
# NCCL has taken 55 s to start on eight B200 (NVIDIA/nccl#1646).
_RANK = (Stage("allreduce", "adding up over all GPUs", ("allreduce",), 180.0, how=TOGETHER),)


@dataclass(frozen=True)
class Profile:
    """How much is asked: the stages of each role, and the deadline where the command line names none.

    That deadline counts from the moment at which torch is imported, and grows by `gpu_sec` with each further GPU.
    """

    text: str
    gpu: tuple[Stage, ...]
    host: tuple[Stage, ...] = ()
    peers: tuple[Stage, ...] = ()
    rank: tuple[Stage, ...] = ()
    deadline_sec: float = 120.0
    gpu_sec: float = 10.0


_SPEED = "speed too, on one GPU at most 60 s once torch is there"
PROFILES = {
    "quick": Profile("values only, at most 15 s once torch is there", _QUICK),
    "standard": Profile(_SPEED, _STANDARD, _HOST, _PEERS, _RANK, 180.0, 20.0),
    "burn": Profile("standard, and products under load for --burn-sec", _BURN, _HOST, _PEERS, _RANK, 180.0, 20.0),
}
BURN_SEC = 120.0
# A card that its power limit holds in every long product computes faster until it is warm.
HEAT_SEC = 10.0


def dtypes(capability: tuple[int, int] | None) -> tuple[str, ...]:
    """The number formats that a device multiplies itself; None is a CPU, which takes them all."""
    return tuple(name for name in LIMITS if name != "bfloat16" or capability is None or capability >= BFLOAT16_SINCE)


def gate(capability: tuple[int, int] | None) -> str:
    """The format that jobs use most where it is native: the one to train in, and to time an unknown device in."""
    return dtypes(capability)[-1]


@dataclass(frozen=True)
class Order:
    """A stage as one child is asked for it."""

    stage: Stage
    params: dict[str, Any]
    gpus: int = 1  # over how many of them

    @property
    def text(self) -> str:
        """What it does, for a sentence."""
        return self.stage.text.format(**self.params)

    @property
    def limit_sec(self) -> float:
        """When it has taken too long."""
        asked: float = self.params.get("heat_sec", 0.0) + self.params.get("sec", 0.0)
        return self.stage.limit_sec + self.stage.pair_sec * self.gpus * (self.gpus - 1) + asked


def orders(
    stages: tuple[Stage, ...],
    capability: tuple[int, int] | None,
    timed: tuple[str, int],
    burn_sec: float,
    heat_sec: float = 0.0,
) -> list[Order]:
    """The stages for one device.

    `timed` is the format and the size that its speed is measured with, `heat_sec` how long it is loaded before.
    """
    return [order for stage in stages for order in _orders(stage, capability, timed, burn_sec, heat_sec)]


def _orders(
    stage: Stage, capability: tuple[int, int] | None, timed: tuple[str, int], burn_sec: float, heat_sec: float
) -> Iterator[Order]:
    if stage.name == "gemm":
        yield from (Order(stage, {"dtype": dtype}) for dtype in dtypes(capability))
    elif stage.name == "train":
        yield Order(stage, {"dtype": gate(capability)})
    elif stage.name == "gemm.speed":
        yield Order(stage, {"dtype": timed[0], "n": timed[1], "heat_sec": heat_sec})
    elif stage.name == "burn":
        yield Order(stage, {"dtype": timed[0], "n": timed[1], "sec": burn_sec})
    else:
        yield Order(stage, {})
