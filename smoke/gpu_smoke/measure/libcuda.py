"""The driver without torch: its device nodes (/dev/nvidia*), its library libcuda, and its start."""

from __future__ import annotations

import ctypes
import os
import re
from typing import Any

from .. import machine

_NAME = re.compile(r"libcuda\.so\.(\d{3}(?:\.\d+)+)$")


def start() -> dict[str, Any]:
    """Open the driver's library and start it. torch then finds it started."""
    found = _load()
    # After the start, because the start creates the nodes on a machine that has not used them yet.
    return {**found, "nodes": machine.nodes(), "windows": machine.windows(), "refused": _refused()}


def _load() -> dict[str, Any]:
    found: dict[str, Any] = {"path": "", "library": ""}
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return {**found, "missing": str(error)}
    version = ctypes.c_int()
    found["code"] = int(library.cuInit(0))
    if library.cuDriverGetVersion(ctypes.byref(version)) == 0:
        found["cuda"] = f"{version.value // 1000}.{version.value % 1000 // 10}"
    found["path"] = path = next(iter(machine.mapped("libcuda.so")), "")
    named = _NAME.search(path)
    return {**found, "library": named[1] if named else ""}


def _refused() -> dict[str, str]:
    """Return the nodes that exist but cannot be opened, for example after the container's cgroup has lost them."""
    refused = {}
    for node in machine.nodes():
        try:
            os.close(os.open(machine.real(node), os.O_RDWR | os.O_CLOEXEC))
        except OSError as error:
            refused[node] = error.strerror or str(error)
    return refused
