"""Compare a measured speed with its floor, the speed below which a check warns or fails; and judge copies."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import Any

from .. import faults
from ..checks import PASS, SKIP, WARN, Check, failure
from ..data import gpus
from ..data.gpus import Speed
from ..faults import Meaning
from .subject import Subject

_SLOW = (
    "a GPU that is hot, short of power, shared or failing is slow: see nvidia-smi -q -d PERFORMANCE, then replace it"
)
_LINK = "fewer PCIe lanes or an older generation than the slot has: nvidia-smi -q under load; then replace the machine"
_PEERS = ("gemm.speed", "mem.speed")


def judge(
    check_id: str,
    subject: Subject,
    value: float | None,
    unit: str,
    reference: Speed | None,
    hint: str = _SLOW,
    **more: Any,
) -> Check:
    """Judge a speed. `reference` is the expected speed, with the shares of it below which the check warns or fails."""
    where: dict[str, Any] = {"gpu": subject.index, "value": value, "unit": unit, **more}
    if subject.on_cpu:
        return Check(check_id, SKIP, "not judged on the CPU", **where)
    if value is None or not is_speed(value):
        means = Meaning(faults.ENV, faults.NONE, "this is a bug of gpu-smoke: report it with this receipt")
        return failure(check_id, f"{subject.place} was timed without a result", means, **{**where, "value": None})
    found = f"{value:.4g} {unit}"
    if reference is None:
        return Check(
            check_id, WARN, f"{found}; no measurement of {subject.name} is published, so only reported", **where
        )
    low, high = (round(reference.lowest * factor * subject.share, 4) for factor in (reference.fail, reference.warn))
    where |= {"warn_below": high or None, "fail_below": low or None}
    where |= {"reference": f"{subject.key or subject.name}: {', '.join(reference.sources)}"}
    text_if_slow = f"{subject.place} is slow: {found}, {subject.name}"
    if value < low:
        should = f"should reach {high:.4g} and " if high else ""
        text = f"{text_if_slow} {should}must reach {low:.4g}"
        return failure(check_id, text, Meaning(faults.PERF, faults.REPLACE, hint), **where)
    if not high:
        text = f"{found}; no measurement of {subject.name} is published, so it only fails below {low:.4g}"
        return Check(check_id, WARN, text, **where)
    if value < high:
        return Check(check_id, WARN, f"{text_if_slow} should reach {high:.4g}", hint=hint, **where)
    return Check(check_id, PASS, found, **where)


def is_speed(value: float) -> bool:
    """Return True if a number can be a speed, so it is positive and finite."""
    return 0 < value < math.inf  # False for NaN as well.


def against_peers(subjects: Mapping[int, Subject], measured: list[Check]) -> list[Check]:
    """Compare each GPU with the median speed of its model in this machine. This needs no published speed."""
    found = []
    for check_id in _PEERS:
        values = {c.gpu: c.value for c in measured if c.id == check_id and c.gpu is not None and c.value}
        for subject in subjects.values():
            same = [values[i] for i, other in subjects.items() if i in values and other.name == subject.name]
            if len(same) > 1 and subject.index in values:
                found.append(_peer(f"{check_id.partition('.')[0]}.peers", subject, values[subject.index], same))
    return found


def _peer(check_id: str, subject: Subject, value: float, same: list[float]) -> Check:
    median = statistics.median(same)
    share = round(value / median, 4)
    text = f"{share:.1%} of the median of {len(same)} {subject.name}"
    where: dict[str, Any] = {
        "gpu": subject.index,
        "value": share,
        "unit": "of the median",
        "warn_below": gpus.PEERS_WARN,
        "fail_below": gpus.PEERS_FAIL,
    }
    if share >= gpus.PEERS_WARN:
        return Check(check_id, PASS, text, **where)
    slow = f"{subject.place} is slower than its peers: {text}"
    if share >= gpus.PEERS_FAIL:
        return Check(check_id, WARN, slow, hint=_SLOW, **where)
    return failure(check_id, slow, Meaning(faults.PERF, faults.REPLACE, _SLOW), **where)


def memory(subject: Subject, measured: dict[str, Any]) -> list[Check]:
    """Judge the speed of copies within the device's memory."""
    return [judge("mem.speed", subject, measured["gbs"], "GB/s", subject.copy)]


def host(subject: Subject, measured: dict[str, Any]) -> list[Check]:
    """Judge the speed of copies from and to the host, and check that the data came back unchanged."""
    if not measured["same"]:
        text = f"{subject.place} returned other data than it was sent"
        hint = "the GPU or its PCIe link corrupts data: take the machine out of service and keep this receipt"
        return [failure("h2d", text, Meaning(faults.GPU, faults.REPLACE, hint), gpu=subject.index)]
    return [_direction(check_id, subject, measured[check_id]) for check_id in ("h2d", "d2h")]


def _direction(check_id: str, subject: Subject, value: float) -> Check:
    floor = subject.row.host if subject.row else None
    if floor is None and not subject.on_cpu and value is not None and is_speed(value):
        text = f"{value:.4g} GB/s; only reported, no floor is published"
        return Check(check_id, SKIP, text, gpu=subject.index, value=value, unit="GB/s")
    # aznhc's number is the floor itself. A VM that encrypts its memory copies far slower and is healthy.
    known = Speed(floor or 0, ("aznhc",), warn=1.0, fail=0.0)
    return judge(check_id, subject, value, "GB/s", known, _LINK)
