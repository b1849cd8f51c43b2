"""The GPUs that FAKE_TORCH describes."""

from __future__ import annotations

import types
import warnings
from typing import Any

from . import SETTINGS, happen

GPUS: list[dict[str, Any]] = SETTINGS.get("gpus", [])


def device_count() -> int:
    happen(SETTINGS.get("count", ""))
    if "warning" in SETTINGS:
        warnings.warn(SETTINGS["warning"], UserWarning, stacklevel=1)
    return len(GPUS)


def init() -> None:
    if "refusal" in SETTINGS:
        raise RuntimeError(SETTINGS["refusal"])


def get_device_properties(index: int) -> types.SimpleNamespace:
    gpu = {"name": "NVIDIA L4", "uuid": f"0000-{index}", "cc": "8.9", **GPUS[index]}
    major, minor = map(int, gpu.pop("cc").split("."))
    if gpu["uuid"] is None:
        del gpu["uuid"]
    return types.SimpleNamespace(**gpu, major=major, minor=minor, multi_processor_count=58, total_memory=23_000_000_000)


def set_device(index: int) -> None:
    assert 0 <= index < len(GPUS)


def get_arch_list() -> list[str]:
    return ["sm_75", "sm_86"]
