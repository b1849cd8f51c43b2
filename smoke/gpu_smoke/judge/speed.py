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
    what: str, subject: Subject, value: float | None, unit: str, known: Speed | None, hint: str = _SLOW, **more: Any
) -> Check:
    """Judge a speed. `known` has its reference, and the shares of that below which the check warns or fails."""
    where: dict[str, Any] = {"gpu": subject.index, "value": value, "unit": unit, **more}
    if subject.on_cpu:
        return Check(what, SKIP, "not judged on the CPU", **where)
    if value is None or not is_speed(value):
        means = Meaning(faults.ENV, faults.NONE, "this is a bug of gpu-smoke: report it with this receipt")
        return failure(what, f"{subject.place} was timed without a result", means, **{**where, "value": None})
    found = f"{value:.4g} {unit}"
    if known is None:
        return Check(what, WARN, f"{found}; no measurement of {subject.name} is published, so only reported", **where)
    low, high = (round(known.lowest * factor * subject.share, 4) for factor in (known.fail, known.warn))
    where |= {"warn_below": high or None, "fail_below": low or None}
    where |= {"reference": f"{subject.key or subject.name}: {', '.join(known.sources)}"}
    wanted = f"{subject.place} is slow: {found}, {subject.name}"
    if value < low:
        should = f"should reach {high:.4g} and " if high else ""
        text = f"{wanted} {should}must reach {low:.4g}"
        return failure(what, text, Meaning(faults.PERF, faults.REPLACE, hint), **where)
    if not high:
        text = f"{found}; no measurement of {subject.name} is published, so it only fails below {low:.4g}"
        return Check(what, WARN, text, **where)
    if value < high:
        return Check(what, WARN, f"{wanted} should reach {high:.4g}", hint=hint, **where)
    return Check(what, PASS, found, **where)


def is_speed(value: float) -> bool:
    """Return True if a number can be a speed, so it is positive and finite."""
    return 0 < value < math.inf  # False for NaN as well.


def against_peers(subjects: Mapping[int, Subject], measured: list[Check]) -> list[Check]:
    """Compare each GPU with the median speed of its model in this machine. This needs no published speed."""
    found = []
    for what in _PEERS:
        values = {c.gpu: c.value for c in measured if c.id == what and c.gpu is not None and c.value}
        for subject in subjects.values():
            same = [values[i] for i, other in subjects.items() if i in values and other.name == subject.name]
            if len(same) > 1 and subject.index in values:
                found.append(_peer(f"{what.partition('.')[0]}.peers", subject, values[subject.index], same))
    return found


def _peer(what: str, subject: Subject, value: float, same: list[float]) -> Check:
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
        return Check(what, PASS, text, **where)
    slow = f"{subject.place} is slower than its peers: {text}"
    if share >= gpus.PEERS_FAIL:
        return Check(what, WARN, slow, hint=_SLOW, **where)
    return failure(what, slow, Meaning(faults.PERF, faults.REPLACE, _SLOW), **where)
