"""Checks of a device's results: matrix products, memory contents, a convolution, and a model that must learn."""

from __future__ import annotations

from typing import Any

from .. import faults, plan
from ..checks import PASS, SKIP, WARN, Check, failure
from ..data import gpus
from ..faults import Meaning
from . import speed
from .subject import Subject

CONVOLUTION = 1e-4  # of float32 without TF32, compared with float64
LEARNED = 0.5  # of the first loss; healthy runs end below 0.1
# The most memory that the driver and the check's own context take of an unused GPU: our guess.
TAKEN_SHARE, TAKEN_BYTES = 0.03, 750_000_000


def product(subject: Subject, measured: dict[str, Any]) -> list[Check]:
    """Check that a matrix product is finite, correct, and the same every time."""
    dtype, on = measured["dtype"], subject.place
    broken = _corrupts(subject)

    def judge(check_id: str, right: bool, good: str, bad: str, **numbers: Any) -> Check:
        where = {"gpu": subject.index, "dtype": dtype, **numbers}
        if right:
            return Check(check_id, PASS, f"{dtype}: {good}", **where)
        return failure(check_id, f"{on} gave {bad}", broken, **where)

    def error(kind: str, text: str) -> Check:
        limit = getattr(plan.LIMITS[dtype], kind)
        value = measured.get(f"{kind}_error")
        says = f"{text} {'NaN' if value is None else format(value, '.1e')}"
        wrong = f"a wrong {dtype} product: {says}, at most {limit:.0e} is allowed"
        right = value is not None and value <= limit
        return judge(f"gemm.{kind}", right, says, wrong, value=value, fail_above=limit)

    same, repeats = int(measured.get("same", 0)), int(measured.get("repeats", 0))
    another = f"another {dtype} product for the same numbers: {same} of {repeats} repetitions had the same bits"
    return [
        judge("gemm.finite", measured.get("finite") is True, "all finite", f"NaN or infinity in a {dtype} product"),
        error("norm", "error"),
        error("element", "worst element off by"),
        judge("gemm.bitwise", same == repeats > 0, f"the same bits {repeats} times more", another),
    ]


def timed(subject: Subject, measured: dict[str, Any]) -> list[Check]:
    """Check that matrix products are as fast as the model of the GPU allows."""
    return [speed.judge("gemm.speed", subject, measured["tflops"], "TFLOPS", subject.gemm, dtype=measured["dtype"])]


def burned(subject: Subject, measured: dict[str, Any]) -> list[Check]:
    """Check that all products under load equal the first one, and that the last is as fast as the first."""
    dtype, began, ended = measured["dtype"], measured["began"], measured["ended"]
    where: dict[str, Any] = {"gpu": subject.index, "dtype": dtype}
    if measured["wrong"]:
        text = f"{subject.place} computed {measured['wrong']} of {measured['products']} {dtype} products differently"
        return [failure("burn", text, _corrupts(subject), **where)]
    text = f"{measured['products']} {dtype} products with the same bits"
    if subject.on_cpu:
        return [Check("burn", PASS, text, **where)]
    where |= {"value": round(ended / began, 4) if began else 0.0, "unit": "of its first speed"}
    where |= {"warn_below": gpus.FAIL}
    text += f"; {began:.4g} TFLOPS at first, {ended:.4g} at last"
    if where["value"] >= gpus.FAIL:
        return [Check("burn", PASS, text, **where)]
    hint = "the GPU gets hot or reaches its power limit: normal on a T4 or an L4, otherwise check its cooling"
    return [Check("burn", WARN, f"{subject.place} slows down under load: {text}", hint=hint, **where)]


def _corrupts(subject: Subject) -> Meaning:
    hint = f"{subject.place} corrupts data: take the machine out of service and keep this receipt"
    return Meaning(faults.GPU, faults.REPLACE, hint)


def memory(subject: Subject, measured: dict[str, Any]) -> list[Check]:
    """Check that all of the memory is present and that no other process uses it."""
    if subject.on_cpu:
        return [Check(check_id, SKIP, "not checked on the CPU") for check_id in ("mem.total", "exclusive")]
    return [_total(subject), _exclusive(subject, measured["free"], measured["total"])]


def pattern(subject: Subject, measured: dict[str, Any]) -> list[Check]:
    """Check that every word of memory came back as it was written."""
    wrong, tested = measured["wrong"], measured["bytes"]
    where: dict[str, Any] = {"gpu": subject.index, "value": wrong, "unit": "words", "fail_above": 0}
    if wrong:
        text = f"{subject.place} loses data: {wrong} of {tested // 4} words came back changed"
        return [failure("mem.pattern", text, _corrupts(subject), **where)]
    if not tested:
        means = Meaning(faults.ENV, faults.NONE, "another process uses this GPU's memory: nvidia-smi lists processes")
        return [failure("mem.pattern", f"{subject.place} has no free memory to test", means, **where)]
    return [Check("mem.pattern", PASS, f"{tested / 1e9:.3g} GB came back as written, twice", **where)]


def convolution(subject: Subject, measured: dict[str, Any]) -> list[Check]:
    """Check that a cuDNN convolution gives the result of the CPU."""
    error = measured["error"]
    where: dict[str, Any] = {"gpu": subject.index, "value": error, "fail_above": CONVOLUTION}
    says = f"error {'NaN' if error is None else format(error, '.1e')}"
    if error is not None and error <= CONVOLUTION:
        return [Check("cudnn.conv", PASS, says, **where)]
    text = f"{subject.place} computed a wrong convolution: {says}, at most {CONVOLUTION:.0e} is allowed"
    return [failure("cudnn.conv", text, _corrupts(subject), **where)]


def training(subject: Subject, measured: dict[str, Any]) -> list[Check]:
    """Check that a model learned, with finite gradients."""
    first, last, where = measured["first"], measured["last"], {"gpu": subject.index, "dtype": measured["dtype"]}
    if not measured["finite"] or first is None or last is None:
        return [
            failure("train", f"{subject.place} computed gradients with NaN or infinity", _corrupts(subject), **where)
        ]
    share = round(last / first, 4) if first else 1.0
    text = f"the loss went from {first:.3g} to {last:.3g} in {measured['steps']} steps"
    if share <= LEARNED:
        return [Check("train", PASS, text, value=share, fail_above=LEARNED, **where)]
    text = f"a model learned nothing on {subject.place}: {text}"
    return [failure("train", text, _corrupts(subject), value=share, fail_above=LEARNED, **where)]


def _total(subject: Subject) -> Check:
    has = f"{subject.mem_bytes / 1e9:.4g} GB"
    if not subject.row or subject.slice:
        why = "a MIG slice" if subject.slice else "its expected size is unknown"
        return Check("mem.total", SKIP, f"{has}; {why}", gpu=subject.index)
    least = gpus.MEMORY * subject.row.memory_gb * 1e9
    where: dict[str, Any] = {
        "gpu": subject.index,
        "value": float(subject.mem_bytes),
        "unit": "bytes",
        "fail_below": least,
        "reference": f"{subject.key}: gpuhunt",
    }
    if subject.mem_bytes >= least:
        return Check("mem.total", PASS, has, **where)
    text = f"{subject.place} shows {has} of memory, {subject.name} has {least / 1e9:.4g} at least"
    means = Meaning(
        faults.GPU, faults.REPLACE, "a part of the memory is out of service, or the name of the GPU is wrong"
    )
    return failure("mem.total", text, means, **where)


def _exclusive(subject: Subject, free: int, total: int) -> Check:
    taken = total - free
    most = max(TAKEN_BYTES, TAKEN_SHARE * total)
    where: dict[str, Any] = {"gpu": subject.index, "value": float(taken), "unit": "bytes", "fail_above": most}
    if taken <= most:
        return Check("exclusive", PASS, f"{taken / 1e9:.2g} GB in use at the start", **where)
    hint = "nvidia-smi lists the processes; a device plugin with time-slicing gives one GPU to several pods"
    text = f"another process uses {subject.place}: {taken / 1e9:.3g} of {total / 1e9:.3g} GB are taken at the start"
    return failure("exclusive", text, Meaning(faults.ENV, faults.FIX_POOL, hint), **where)
