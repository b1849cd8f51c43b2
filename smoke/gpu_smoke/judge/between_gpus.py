"""Checks that compare the GPUs of one machine: equal bits, intact copies, an exact sum."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from .. import faults
from ..checks import PASS, WARN, Check, failure
from ..data import gpus
from ..faults import Meaning
from .subject import Subject

SLOW_PAIR = 0.5  # of the median pair of its kind
_BROKEN = Meaning(faults.GPU, faults.REPLACE, "one of the GPUs corrupts data: take the machine out of service")
_LINK = "NVLink or PCIe between GPUs is down or degraded: nvidia-smi topo -m and nvidia-smi nvlink -s"


def hashes(subjects: Mapping[int, Subject], products: Sequence[Mapping[str, Any]]) -> list[Check]:
    """Check that GPUs of one model gave the same bits.

    With one driver and one torch, a GPU that differs computes wrong.
    """
    found = []
    for name, dtype in dict.fromkeys((subjects[p["gpu"]].name, p["dtype"]) for p in products if p["gpu"] in subjects):
        bits = {
            p["gpu"]: p["hash"]
            for p in products
            if p["dtype"] == dtype and p["gpu"] in subjects and subjects[p["gpu"]].name == name
        }
        if len(bits) > 1:
            found.append(_hash(name, dtype, bits))
    return found


def _hash(name: str, dtype: str, bits: Mapping[int, str]) -> Check:
    common = statistics.mode(bits.values())
    odd = [gpu for gpu, each in bits.items() if each != common]
    if not odd:
        return Check("gemm.hash", PASS, f"{dtype}: the same bits on {len(bits)} {name}", dtype=dtype)
    if 2 * len(odd) >= len(bits):
        text = f"{len(bits)} {name} gave {len(set(bits.values()))} different {dtype} products for the same numbers"
        return failure("gemm.hash", text, _BROKEN, dtype=dtype)
    text = f"GPU {odd[0]} gave another {dtype} product than the other {name}"
    return failure("gemm.hash", text, _BROKEN, dtype=dtype, gpu=odd[0])


def pairs(subject: Subject, measured: dict[str, Any]) -> list[Check]:
    """Check that copies between GPUs arrive intact, and that no pair is far slower than the others."""
    found = measured["pairs"]
    broken = [f"{pair['from']} to {pair['to']}" for pair in found if not pair["same"]]
    if broken or not found:
        text = f"a copy from GPU {broken[0]} arrived changed" if broken else "no GPU copied to another"
        return [failure("p2p", text, _BROKEN)]
    worst, median = min((_slowest(kind) for kind in _kinds(subject, found)), key=lambda each: each[0]["gbs"] / each[1])
    where: dict[str, Any] = {"value": worst["gbs"], "unit": "GB/s", "warn_below": round(SLOW_PAIR * median, 3)}
    text = f"{worst['gbs']:.4g} GB/s from GPU {worst['from']} to {worst['to']}, the median pair {median:.4g}"
    if worst["gbs"] < SLOW_PAIR * median:
        return [Check("p2p", WARN, text, hint=_LINK, **where)]
    return [Check("p2p", PASS, text, **where)]


def _slowest(kind: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], float]:
    """Return the slowest pair and the median speed of all pairs."""
    return min(kind, key=lambda pair: pair["gbs"]), statistics.median(pair["gbs"] for pair in kind)


def _kinds(subject: Subject, found: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Group pairs that can be compared.

    If the model has NVLink to some of its peers only, pairs with and without NVLink are two groups.
    """
    reach = gpus.MESH.get(subject.key)
    if reach is None:
        return [list(found)]
    direct = Counter(pair["from"] for pair in found if pair["direct"])
    peers = Counter(pair["from"] for pair in found)
    if any(direct[gpu] < min(reach, count) for gpu, count in peers.items()):
        return [list(found)]
    by_kind = ([pair for pair in found if pair["direct"] == kind] for kind in (True, False))
    return [kind for kind in by_kind if kind]


def reduction(subject: Subject, measured: dict[str, Any]) -> list[Check]:
    """Check that the sum over all GPUs is exact and fast enough."""
    if not measured["right"]:
        text = f"{subject.place} computed a wrong sum over all GPUs"
        return [failure("allreduce", text, _BROKEN, gpu=subject.index)]
    # The floors are for eight GPUs of one machine. Any other count must only be faster than a bad PCIe link.
    gpu_count = measured["world"]
    floor = gpus.SUM_OF_EIGHT_LANES if subject.key in gpus.EIGHT_LANES else gpus.SUM
    if gpu_count == 8:
        floor = gpus.ALLREDUCE.get(subject.key, floor)
    value = measured["gbs"]
    where: dict[str, Any] = {"gpu": subject.index, "value": value, "unit": "GB/s", "warn_below": floor}
    if value < floor:
        text = f"a sum over {gpu_count} GPUs is slow: {value:.4g} GB/s, expected at least {floor:g}"
        return [Check("allreduce", WARN, text, hint=_LINK, **where)]
    return [Check("allreduce", PASS, f"{value:.4g} GB/s", **where)]
