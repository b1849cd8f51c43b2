"""A fake of libcuda.so.1, whose start returns the code `cuinit` of FAKE_TORCH. The NVML of this machine is hidden."""

from __future__ import annotations

import ctypes
import json
import os
from typing import Any

SETTINGS = json.loads(os.environ.get("FAKE_TORCH", "{}"))


class Library:
    """The functions of the library that the package calls."""

    def cuInit(self, flags: int) -> int:  # noqa: N802
        return int(SETTINGS.get("cuinit", 0))

    def cuDriverGetVersion(self, version: Any) -> int:  # noqa: N802
        version._obj.value = 13020
        return 0


_load: Any = ctypes.CDLL


def load(name: str | None, *args: Any, **more: Any) -> Any:
    """Return the fake for that one name, and the real library for every other."""
    missing = {"libcuda.so.1": SETTINGS.get("cuinit") == "missing",
               "libnvidia-ml.so.1": "FAKE_NVML_LIBRARY" not in os.environ}  # fmt: skip
    if missing.get(name or ""):
        raise OSError(f"{name}: cannot open shared object file: No such file or directory")
    return Library() if name == "libcuda.so.1" else _load(name, *args, **more)


if SETTINGS:
    ctypes.CDLL = load  # type: ignore[misc, assignment]
