"""Compare this run with earlier runs that passed: the speeds of the same model, and the bits of its products."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any

from .. import faults
from ..checks import PASS, SKIP, WARN, Check, failure, place
from ..data import gpus
from ..faults import Meaning
from ..history.receipts import Product, Run, Speed

# The number of earlier runs that a failure requires. A single earlier run could itself be the exception.
ENOUGH = 3
# cuBLAS gives the same bits for the same version, architecture and number of multiprocessors, on one stream
# (docs.nvidia.com/cuda/cublas, "Results Reproducibility"). It is unlikely that two other GPUs are broken in the same
# way.
WITNESSES = 2
_SLOW = "slower than this model in earlier runs: see nvidia-smi -q -d PERFORMANCE, then compare with another machine"
_FIRST = "keep this receipt with the others: the next run is compared with it"
_CUBLAS = "a different cuBLAS or CUBLAS_WORKSPACE_CONFIG also changes bits: compare both, and run it on a third machine"


def judge(now: Run, earlier: Sequence[Run]) -> list[Check]:
    """Compare every speed and every product of this run with earlier runs.

    A speed or a product without an earlier value is a warning.
    """
    if now.record["device"] == "cpu":
        return [Check("gemm.history", SKIP, "runs on the CPU are not compared")]
    passed = [run for run in earlier if run.passed]
    return [_speed(now, each, passed, len(earlier)) for each in now.speeds] + [
        _product(now, each, passed, len(earlier)) for each in now.products
    ]


def _speed(now: Run, speed: Speed, passed: Sequence[Run], given: int) -> Check:
    model, _, check, dtype, _ = speed.kind
    what, on = f"{check.partition('.')[0]}.history", place("cuda", speed.gpu)
    where: dict[str, Any] = {"gpu": speed.gpu, "dtype": dtype}
    alike = [[s.value for s in run.speeds if s.kind == speed.kind] for run in passed if run.software == now.software]
    before = [value for values in alike for value in values]
    if not before:
        cuda, branch = now.software
        same = f"{model} with CUDA {cuda} and driver branch {branch}"
        return Check(what, WARN, _nothing_to_compare(on, given, same), hint=_FIRST, **where)
    count, median, lowest = sum(bool(values) for values in alike), statistics.median(before), min(before)
    share = round(speed.value / median, 4)
    where |= {"value": share, "unit": "of the median of earlier runs", "warn_below": gpus.PEERS_WARN}
    # A speed with which an earlier run passed does not fail. Example: the power limit of a warm T4 holds it to little
    # more than half of its speed when cold.
    limit = min(gpus.PEERS_FAIL, round(lowest / median, 4)) if count >= ENOUGH else 0.0
    where |= {"fail_below": limit} if limit else {}
    of = "1 earlier run" if count == 1 else f"{count} earlier runs"
    text = f"{speed.value:.4g} {speed.unit}, {share:.1%} of {median:.4g}, the median of {of}"
    text += f" ({lowest:.4g} to {max(before):.4g})"
    if share >= gpus.PEERS_WARN:
        return Check(what, PASS, text, **where)
    slow = f"{on} is slower than {model} in earlier runs: {text}"
    if share >= limit:
        return Check(what, WARN, slow, hint=_SLOW, **where)
    return failure(what, slow, Meaning(faults.PERF, faults.REPLACE, _SLOW), **where)


def _product(now: Run, product: Product, passed: Sequence[Run], given: int) -> Check:
    model, _, _, dtype, _ = product.kind
    on = place("cuda", product.gpu)
    where: dict[str, Any] = {"gpu": product.gpu, "dtype": dtype}
    alike = [run for run in passed if (run.torch, run.driver) == (now.torch, now.driver)]
    seen = {(p.machine, p.bits) for run in alike for p in run.products if p.kind == product.kind}
    if not seen:
        same = f"{model} with torch {now.torch} and driver {now.driver or 'unknown'}"
        return Check("gemm.hash", WARN, _nothing_to_compare(on, given, same), hint=_FIRST, **where)
    votes = Counter(bits for _, bits in seen)
    against = max((count for bits, count in votes.items() if bits != product.bits), default=0)
    gpus_before = "1 GPU" if len(seen) == 1 else f"{len(seen)} GPUs"
    if not against:
        return Check("gemm.hash", PASS, f"{dtype}: the same bits as on {gpus_before} of earlier runs", **where)
    # A GPU cannot confirm itself: a broken one may corrupt data in the same way each time.
    backed = any(bits == product.bits and machine != product.machine for machine, bits in seen)
    text = f"{on} gave another {dtype} product than {against} {model} in earlier runs with this torch and driver"
    if backed or against < WITNESSES:
        return Check("gemm.hash", WARN, text, hint=_CUBLAS, **where)
    hint = f"{on} corrupts data: take the machine out of service and keep this receipt; or {_CUBLAS}"
    return failure("gemm.hash", text, Meaning(faults.GPU, faults.REPLACE, hint), **where)


def wider(model: str, lanes: int, earlier: Sequence[Run]) -> str:
    """Describe earlier runs whose GPUs of this model all had more PCIe lanes.

    The text is empty if an earlier run had as few lanes, or if fewer than ENOUGH runs are known. Generations of PCIe
    are not compared, because they differ between hosts of one machine type.
    """
    before = [found for run in earlier if run.passed and (found := run.lanes(model))]
    if len(before) < ENOUGH:
        return ""
    least = min(min(found) for found in before)
    return f"{len(before)} earlier runs had x{least}" if least > lanes else ""


def _nothing_to_compare(on: str, given: int, same: str) -> str:
    return f"{on} has no earlier run to compare with: none of {given} receipts is from a run that passed on {same}"
