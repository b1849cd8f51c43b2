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
from ..history import Product, Run, Speed

# The number of earlier runs that a failure requires. A single earlier run could itself be the exception.
ENOUGH = 3
# The number of other GPUs with equal bits that a failure requires: it is unlikely that two GPUs are broken in the same
# way. cuBLAS gives the same bits for the same version, architecture and number of multiprocessors, on one stream
# (docs.nvidia.com/cuda/cublas, "Results Reproducibility").
REQUIRED_GPUS = 2
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


def _speed(now: Run, speed: Speed, passed: Sequence[Run], receipt_count: int) -> Check:
    model, _, check, dtype, _ = speed.kind
    check_id, on = f"{check.partition('.')[0]}.history", place("cuda", speed.gpu)
    where: dict[str, Any] = {"gpu": speed.gpu, "dtype": dtype}
    comparable = [
        [s.value for s in run.speeds if s.kind == speed.kind] for run in passed if run.software == now.software
    ]
    earlier_values = [value for values in comparable for value in values]
    if not earlier_values:
        cuda, branch = now.software
        same = f"{model} with CUDA {cuda} and driver branch {branch}"
        return Check(check_id, WARN, _nothing_to_compare(on, receipt_count, same), hint=_FIRST, **where)
    count, median, lowest = (
        sum(bool(values) for values in comparable),
        statistics.median(earlier_values),
        min(earlier_values),
    )
    share = round(speed.value / median, 4)
    where |= {"value": share, "unit": "of the median of earlier runs", "warn_below": gpus.PEERS_WARN}
    # A speed with which an earlier run passed does not fail. Example: the power limit of a warm T4 holds it to little
    # more than half of its speed when cold.
    limit = min(gpus.PEERS_FAIL, round(lowest / median, 4)) if count >= ENOUGH else 0.0
    where |= {"fail_below": limit} if limit else {}
    of = "1 earlier run" if count == 1 else f"{count} earlier runs"
    text = f"{speed.value:.4g} {speed.unit}, {share:.1%} of {median:.4g}, the median of {of}"
    text += f" ({lowest:.4g} to {max(earlier_values):.4g})"
    if share >= gpus.PEERS_WARN:
        return Check(check_id, PASS, text, **where)
    slow = f"{on} is slower than {model} in earlier runs: {text}"
    if share >= limit:
        return Check(check_id, WARN, slow, hint=_SLOW, **where)
    return failure(check_id, slow, Meaning(faults.PERF, faults.REPLACE, _SLOW), **where)


def _product(now: Run, product: Product, passed: Sequence[Run], receipt_count: int) -> Check:
    model, _, _, dtype, _ = product.kind
    on = place("cuda", product.gpu)
    where: dict[str, Any] = {"gpu": product.gpu, "dtype": dtype}
    comparable = [run for run in passed if (run.torch, run.driver) == (now.torch, now.driver)]
    earlier_products = {(p.gpu_id, p.bits) for run in comparable for p in run.products if p.kind == product.kind}
    if not earlier_products:
        same = f"{model} with torch {now.torch} and driver {now.driver or 'unknown'}"
        return Check("gemm.hash", WARN, _nothing_to_compare(on, receipt_count, same), hint=_FIRST, **where)
    votes = Counter(bits for _, bits in earlier_products)
    most_equal = max((count for bits, count in votes.items() if bits != product.bits), default=0)
    gpus_before = "1 GPU" if len(earlier_products) == 1 else f"{len(earlier_products)} GPUs"
    if not most_equal:
        return Check("gemm.hash", PASS, f"{dtype}: the same bits as on {gpus_before} of earlier runs", **where)
    # A GPU cannot confirm itself: a broken one may corrupt data in the same way each time.
    confirmed = any(bits == product.bits and gpu_id != product.gpu_id for gpu_id, bits in earlier_products)
    text = f"{on} gave another {dtype} product than {most_equal} {model} in earlier runs with this torch and driver"
    if confirmed or most_equal < REQUIRED_GPUS:
        return Check("gemm.hash", WARN, text, hint=_CUBLAS, **where)
    hint = f"{on} corrupts data: take the machine out of service and keep this receipt; or {_CUBLAS}"
    return failure("gemm.hash", text, Meaning(faults.GPU, faults.REPLACE, hint), **where)


def wider(model: str, lanes: int, earlier: Sequence[Run]) -> str:
    """Describe earlier runs whose GPUs of this model all had more PCIe lanes.

    The text is empty if an earlier run had as few lanes, or if fewer than ENOUGH runs are known. Generations of PCIe
    are not compared, because they differ between hosts of one machine type.
    """
    earlier_values = [found for run in earlier if run.passed and (found := run.lanes(model))]
    if len(earlier_values) < ENOUGH:
        return ""
    least = min(min(found) for found in earlier_values)
    return f"{len(earlier_values)} earlier runs had x{least}" if least > lanes else ""


def _nothing_to_compare(on: str, receipt_count: int, same: str) -> str:
    return (
        f"{on} has no earlier run to compare with: none of {receipt_count} receipts is from a run that passed on {same}"
    )
