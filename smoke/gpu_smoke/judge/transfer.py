"""Checks of copies in a device's memory, and between host and device: speed and integrity."""

from __future__ import annotations

from typing import Any

from .. import faults
from ..checks import SKIP, Check, failure
from ..data.gpus import Speed
from ..faults import Meaning
from . import speed
from .subject import Subject

_LINK = "fewer PCIe lanes or an older generation than the slot has: nvidia-smi -q under load; then replace the machine"


def memory(subject: Subject, measured: dict[str, Any]) -> list[Check]:
    """Judge the speed of copies within the device's memory."""
    return [speed.judge("mem.speed", subject, measured["gbs"], "GB/s", subject.copy)]


def host(subject: Subject, measured: dict[str, Any]) -> list[Check]:
    """Judge the speed of copies from and to the host, and check that the data came back unchanged."""
    if not measured["same"]:
        text = f"{subject.place} returned other data than it was sent"
        hint = "the GPU or its PCIe link corrupts data: take the machine out of service and keep this receipt"
        return [failure("h2d", text, Meaning(faults.GPU, faults.REPLACE, hint), gpu=subject.index)]
    return [_direction(check_id, subject, measured[check_id]) for check_id in ("h2d", "d2h")]


def _direction(check_id: str, subject: Subject, value: float) -> Check:
    floor = subject.row.host if subject.row else None
    if floor is None and not subject.on_cpu and value is not None and speed.is_speed(value):
        text = f"{value:.4g} GB/s; only reported, no floor is published"
        return Check(check_id, SKIP, text, gpu=subject.index, value=value, unit="GB/s")
    # aznhc's number is the floor itself. A VM that encrypts its memory copies far slower and is healthy.
    known = Speed(floor or 0, ("aznhc",), warn=1.0, fail=0.0)
    return speed.judge(check_id, subject, value, "GB/s", known, _LINK)
