"""The work for each device, its sequence and its limits, as plain data for measure/ and judge/.

- A *stage* is one piece of work for a worker process, such as multiplying matrices. It has one or more checks.
- A *profile* is the set of stages that a run has.
- A *task* is a stage with its parameters, such as the number format. The parent sends it to a worker.

A new stage is a row here, a function in WORK (workers/roles.py) and a function in JUDGES (workers/coordinator.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Limit:
    """The highest errors of a correct product, compared with float64 of the same rounded inputs."""

    norm: float  # of the whole matrix: ||C - ref|| / ||ref||
    element: float  # of the worst element, in units of the reference's root mean square


# Errors of correct products of random matrices (norm, element):
#
# - on a CPU with torch 2.15, at n = 512..2048: float32 2.5e-7, 2.5e-6; float16 2.1e-4, 2.0e-3; bfloat16 1.7e-3, 1.6e-2
# - on an H100 and an H200 the same, but float32 4.1e-7, 8.1e-6 (bench/results/2026-11-23-h100-h200.md)
#
# The errors do not grow with n. One wrong element hardly changes the norm of a large matrix, so the worst element has a
# limit of its own.
LIMITS = {
    "float32": Limit(1e-5, 1e-4),
    "float16": Limit(2e-3, 1e-2),
    "bfloat16": Limit(8e-3, 6e-2),
}

# bfloat16 is native from Ampere on. torch.cuda.is_bf16_supported() also returns True if it is emulated (its
# `including_emulation` defaults to True).
BFLOAT16_SINCE = (8, 0)

# The number of times that a product must come out the same, bit for bit.
REPEATS = {"cuda": 32, "cpu": 8}


@dataclass(frozen=True)
class Shape:
    """The size of a product: an n x k matrix times a k x n matrix."""

    n: int
    k: int


# cuBLAS gives a block of an H100 256 x 128 elements of the product. A product of 2048 x 2048 has 128 blocks and leaves
# 4 of its 132 multiprocessors idle. One of 4096 x 4096 has 512, enough for the 188 of an RTX PRO 6000. A small k keeps
# the reference on the CPU well under a second. A CPU tests the code only, and multiplies float16 slowly: 44 s at 2048,
# 0.1 s at 512 on one core.
SHAPES = {"cuda": Shape(4096, 512), "cpu": Shape(256, 256)}

# When a worker may start a stage:
#
# - FREE: as soon as it is ready for the stage
# - TOGETHER: when the workers of all devices have reached the stage, because jobs also load all GPUs at the same time
# - ALONE: as TOGETHER, but one device after the other, because the devices share the path that is measured
FREE, TOGETHER, ALONE = "free", "together", "alone"


@dataclass(frozen=True)
class Stage:
    """One piece of work for a worker process.

    `checks` are the checks that must have a result. A check in `speeds` may be skipped if no speed of the device is
    known. `run` is the check that fails if the stage ends with an error, by default the first of `checks`. The time
    limit grows by `pair_sec` with each ordered pair of GPUs.
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
        """The check that fails if the stage ends with an error."""
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

# The checks of NVML's answers (judge/health.py). Every profile has them for every GPU, if NVML is available.
HEALTH = (
    "mig", "ecc", "remap", "retired", "xid", "recovery", "throttle", "pcie", "nvlink", "exclusive.processes",
)  # fmt: skip

# Stages that load the GPU for seconds, so its link to the host reaches its full speed.
TIMED = frozenset({"gemm.speed", "mem.speed", "copies", "burn"})

# The stages of other roles: one worker without a GPU, one worker over all GPUs, and one worker for each GPU.
_HOST = (Stage("dataloader", "loading data in two processes", ("shm.loader",)),)
# A healthy pair takes 0.1 to 0.3 s. Eight GPUs have 56 pairs.
_PEERS = (Stage("p2p", "copying from GPU to GPU", ("p2p",), pair_sec=1.0),)
# NCCL has taken 55 s to start on eight B200 (NVIDIA/nccl#1646).
_RANK = (Stage("allreduce", "adding up over all GPUs", ("allreduce",), 180.0, how=TOGETHER),)


@dataclass(frozen=True)
class Profile:
    """The stages of each role, and the default deadline.

    The deadline counts from the import of torch and grows by `gpu_sec` with each further GPU.
    """

    text: str
    gpu: tuple[Stage, ...]
    host: tuple[Stage, ...] = ()
    peers: tuple[Stage, ...] = ()
    rank: tuple[Stage, ...] = ()
    deadline_sec: float = 120.0
    gpu_sec: float = 10.0


_SPEED = "also speeds, on one GPU at most 60 s after the import of torch"
PROFILES = {
    "quick": Profile("results only, at most 15 s after the import of torch", _QUICK),
    "standard": Profile(_SPEED, _STANDARD, _HOST, _PEERS, _RANK, 180.0, 20.0),
    "burn": Profile("standard, and products under load for --burn-sec", _BURN, _HOST, _PEERS, _RANK, 180.0, 20.0),
}
BURN_SEC = 120.0
# The time under load before a measurement, for cards whose power limit holds them in every long product. They are
# faster until they are warm.
HEAT_SEC = 10.0


def dtypes(capability: tuple[int, int] | None) -> tuple[str, ...]:
    """Return the number formats that a device multiplies natively. None is a CPU, which has all of them."""
    return tuple(name for name in LIMITS if name != "bfloat16" or capability is None or capability >= BFLOAT16_SINCE)


def training_dtype(capability: tuple[int, int] | None) -> str:
    """Return the number format for training on the device. An unknown device is timed in this format, too."""
    return dtypes(capability)[-1]


@dataclass(frozen=True)
class Task:
    """A stage with its parameters, for one worker."""

    stage: Stage
    params: dict[str, Any]
    gpus: int = 1  # the number of GPUs that the stage uses

    @property
    def text(self) -> str:
        """The description of the work, for a sentence."""
        return self.stage.text.format(**self.params)

    @property
    def limit_sec(self) -> float:
        """The time limit in seconds."""
        load_sec: float = self.params.get("heat_sec", 0.0) + self.params.get("sec", 0.0)
        return self.stage.limit_sec + self.stage.pair_sec * self.gpus * (self.gpus - 1) + load_sec


def tasks(
    stages: tuple[Stage, ...],
    capability: tuple[int, int] | None,
    timed: tuple[str, int],
    burn_sec: float,
    heat_sec: float = 0.0,
) -> list[Task]:
    """Return the tasks for one device.

    `timed` is the format and the size with which the device's speed is measured.
    `heat_sec` is the time under load before the measurement.
    """
    return [task for stage in stages for task in _tasks(stage, capability, timed, burn_sec, heat_sec)]


def _tasks(
    stage: Stage, capability: tuple[int, int] | None, timed: tuple[str, int], burn_sec: float, heat_sec: float
) -> Iterator[Task]:
    if stage.name == "gemm":
        yield from (Task(stage, {"dtype": dtype}) for dtype in dtypes(capability))
    elif stage.name == "train":
        yield Task(stage, {"dtype": training_dtype(capability)})
    elif stage.name == "gemm.speed":
        yield Task(stage, {"dtype": timed[0], "n": timed[1], "heat_sec": heat_sec})
    elif stage.name == "burn":
        yield Task(stage, {"dtype": timed[0], "n": timed[1], "sec": burn_sec})
    else:
        yield Task(stage, {})
