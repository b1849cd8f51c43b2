"""NVIDIA's library for management by itself: whether it starts, and how each GPU is.

By ctypes, so that nothing has to be installed. Names and codes are those of nvml.h, NVIDIA's NVML API reference.
"""

from __future__ import annotations

import ctypes
from typing import Any

_MORE = 7  # NVML_ERROR_INSUFFICIENT_SIZE: there are more than fit


class _Memory(ctypes.Structure):
    """nvmlMemory_t."""

    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


def ask() -> dict[str, Any]:
    """The code of its start and, where that is 0, the GPUs; a value that NVML refuses is left out."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as error:
        return {"missing": str(error)}
    code = int(library.nvmlInit_v2())
    if code:
        return {"code": code}
    count = ctypes.c_uint()
    code = int(library.nvmlDeviceGetCount_v2(ctypes.byref(count)))
    return {"code": code, "gpus": [_gpu(library, index) for index in range(count.value)]}


def _gpu(library: Any, index: int) -> dict[str, Any]:
    handle = ctypes.c_void_p()
    code = int(library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(handle)))
    if code:
        return {"index": index, "code": code}
    told: dict[str, Any] = {"index": index, "code": 0}
    for look in (_name, _memory, _mig, _persistence, _processes):
        told |= look(library, handle)
    return told


def _name(library: Any, handle: ctypes.c_void_p) -> dict[str, Any]:
    name = ctypes.create_string_buffer(96)
    code = library.nvmlDeviceGetName(handle, name, ctypes.c_uint(96))
    return {} if code else {"name": name.value.decode("utf-8", "replace")}


def _memory(library: Any, handle: ctypes.c_void_p) -> dict[str, Any]:
    memory = _Memory()
    if library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)):
        return {}
    return {"total": memory.total, "free": memory.free, "used": memory.used}


def _mig(library: Any, handle: ctypes.c_void_p) -> dict[str, Any]:
    current, pending, most = ctypes.c_uint(), ctypes.c_uint(), ctypes.c_uint()
    if library.nvmlDeviceGetMigMode(handle, ctypes.byref(current), ctypes.byref(pending)) or not current.value:
        return {"mig": False}
    library.nvmlDeviceGetMaxMigDeviceCount(handle, ctypes.byref(most))
    slices = 0
    for index in range(most.value):
        one = ctypes.c_void_p()
        slices += not library.nvmlDeviceGetMigDeviceHandleByIndex(handle, ctypes.c_uint(index), ctypes.byref(one))
    return {"mig": True, "slices": slices}


def _persistence(library: Any, handle: ctypes.c_void_p) -> dict[str, Any]:
    mode = ctypes.c_uint()
    return {} if library.nvmlDeviceGetPersistenceMode(handle, ctypes.byref(mode)) else {"persistence": bool(mode.value)}


def _processes(library: Any, handle: ctypes.c_void_p) -> dict[str, Any]:
    """How many compute on it; asked with room for none, NVML tells how many there are."""
    count = ctypes.c_uint(0)
    code = library.nvmlDeviceGetComputeRunningProcesses_v3(handle, ctypes.byref(count), None)
    return {"processes": count.value} if code in (0, _MORE) else {}
