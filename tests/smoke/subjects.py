"""Devices for the tests of single judges, and helpers for their results."""

from __future__ import annotations

from typing import Any

from gpu_smoke.checks import Check
from gpu_smoke.judge.subject import Subject

L4 = Subject(0, "NVIDIA L4", "8.9", 58, 24_000_000_000)
CPU = Subject(None, "CPU")
SLICE = Subject(1, "NVIDIA A100-SXM4-80GB MIG 1g.10gb", "8.0", 14, 10_000_000_000)
NEW = Subject(2, "NVIDIA New", "8.9", 10, 10_000_000_000)


def verdict(found: list[Check]) -> dict[str, str]:
    return {check.id: check.status for check in found}


def gpu(index: int = 0, **more: Any) -> dict[str, Any]:
    told = {"index": index, "name": "NVIDIA L4", "uuid": f"u{index}", "cc": "8.9", "sm": 58, "mem_bytes": 24 * 10**9}
    return {**told, **more}
