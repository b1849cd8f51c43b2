"""Compare a measured speed with its floor: the speed below which a check warns or fails."""

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
