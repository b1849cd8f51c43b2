"""The function that judges the measurements of each stage (plan.py defines the stages)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..checks import Check
from . import between_gpus, gemm, speed, static, values
from .subject import Subject

JUDGES: dict[str, Callable[[Subject, dict[str, Any]], list[Check]]] = {
    "memory": values.memory,
    "gemm": gemm.product,
    "cudnn.conv": values.convolution,
    "train": values.training,
    "mem.pattern": values.pattern,
    "gemm.speed": gemm.timed,
    "mem.speed": speed.memory,
    "copies": speed.host,
    "burn": gemm.burned,
    "dataloader": static.loader,
    "p2p": between_gpus.pairs,
    "allreduce": between_gpus.reduction,
}
