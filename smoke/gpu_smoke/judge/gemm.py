"""Checks of matrix products: correct, repeatable and fast enough."""

from __future__ import annotations

from typing import Any

from .. import faults, plan
from ..checks import PASS, WARN, Check, failure
from ..data import gpus
from ..faults import Meaning
from . import speed
from .subject import Subject


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
