"""Stand-ins for libcuda.so.1, whose start gives the code `cuinit` of FAKE_TORCH, and for libnvidia-ml.so.1, `nvml`."""

from __future__ import annotations

import ctypes
import json
import os
import time
from typing import Any

SETTINGS = json.loads(os.environ.get("FAKE_TORCH", "{}"))
_NVML = SETTINGS.get("nvml", {})


class Library:
    """What is called of it."""

    def cuInit(self, flags: int) -> int:  # noqa: N802
        return int(SETTINGS.get("cuinit", 0))

    def cuDriverGetVersion(self, version: Any) -> int:  # noqa: N802
        version._obj.value = 13020
        return 0


class Nvml:
    """NVIDIA's library for management: `nvml` has the code of its start, and what each GPU answers."""

    def __init__(self) -> None:
        self.gpus: list[dict[str, Any]] = _NVML.get("gpus", [{}])

    def nvmlInit_v2(self) -> int:  # noqa: N802
        if _NVML.get("hangs"):
            time.sleep(3600)
        return int(_NVML.get("code", 0))

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:  # noqa: N802
        count._obj.value = len(self.gpus)
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: Any, handle: Any) -> int:  # noqa: N802
        handle._obj.value = index.value + 1
        return int(self.gpus[index.value].get("code", 0))

    def nvmlDeviceGetName(self, handle: Any, name: Any, size: Any) -> int:  # noqa: N802
        name.value = b"NVIDIA L4"
        return 0

    def nvmlDeviceGetMemoryInfo(self, handle: Any, memory: Any) -> int:  # noqa: N802
        told = memory._obj
        told.total, told.used = 24_000_000_000, self._of(handle).get("used", 500_000_000)
        told.free = told.total - told.used
        return 0

    def nvmlDeviceGetMigMode(self, handle: Any, current: Any, pending: Any) -> int:  # noqa: N802
        current._obj.value = int("slices" in self._of(handle))
        return 0

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: Any, most: Any) -> int:  # noqa: N802
        most._obj.value = 7
        return 0

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: Any, index: Any, one: Any) -> int:  # noqa: N802
        return 0 if index.value < self._of(handle)["slices"] else 6

    def nvmlDeviceGetPersistenceMode(self, handle: Any, mode: Any) -> int:  # noqa: N802
        mode._obj.value = int(self._of(handle).get("persistence", True))
        return 0

    def nvmlDeviceGetComputeRunningProcesses_v3(self, handle: Any, count: Any, room: Any) -> int:  # noqa: N802
        count._obj.value = self._of(handle).get("processes", 0)
        return 7 if count._obj.value else 0

    def _of(self, handle: Any) -> dict[str, Any]:
        return self.gpus[handle.value - 1]


_load: Any = ctypes.CDLL


def load(name: str | None, *args: Any, **more: Any) -> Any:
    """The stand-in for that one name, and the real thing for every other."""
    if name == "libnvidia-ml.so.1" and _NVML != "missing":
        return Nvml()
    if name != "libcuda.so.1":
        return _load(name, *args, **more)
    if SETTINGS.get("cuinit") == "missing":
        raise OSError("libcuda.so.1: cannot open shared object file: No such file or directory")
    return Library()


if SETTINGS:
    ctypes.CDLL = load  # type: ignore[misc, assignment]
