"""The part of NVML that this package uses, by ctypes, with the names and results of nvidia-ml-py.

It is used if nvidia-ml-py is not installed. Code for pynvml runs with this module unchanged. Names, numbers and layouts
are those of nvml.h (NVIDIA's NVML API reference). A test compares each with nvidia-ml-py.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import POINTER, byref, c_double, c_int, c_longlong, c_uint, c_ulong, c_ulonglong, c_ushort
from functools import cache, partial
from typing import Any, NamedTuple

NAME = "libnvidia-ml.so.1"

NVML_ERROR_INSUFFICIENT_SIZE, NVML_ERROR_LIBRARY_NOT_FOUND, NVML_ERROR_FUNCTION_NOT_FOUND = 7, 12, 13
NVML_TEMPERATURE_GPU, NVML_CLOCK_SM = 0, 1
NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC = 0, 1, 0
NVML_MEMORY_LOCATION_DEVICE_MEMORY, NVML_MEMORY_LOCATION_COUNT = 2, 8
NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS, NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR = 0, 1
NVML_NVLINK_MAX_LINKS, NVML_NVLINK_ERROR_DL_CRC_DATA = 36, 3
NVML_FI_DEV_GET_GPU_RECOVERY_ACTION = 230
nvmlEventTypeXidCriticalError = 8


class struct_c_nvmlDevice_t(ctypes.Structure):
    """An opaque handle of a device."""


class struct_c_nvmlEventSet_t(ctypes.Structure):
    """An opaque handle of an event set."""


c_nvmlDevice_t, c_nvmlEventSet_t = POINTER(struct_c_nvmlDevice_t), POINTER(struct_c_nvmlEventSet_t)


class c_nvmlMemory_t(ctypes.Structure):
    """Memory of a device in bytes."""

    _fields_ = (("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong))


class c_nvmlProcessInfo_t(ctypes.Structure):
    """A process on a GPU, in the layout of version 3 of the functions that list processes."""

    _fields_ = (
        ("pid", c_uint), ("usedGpuMemory", c_ulonglong), ("gpuInstanceId", c_uint), ("computeInstanceId", c_uint),
    )  # fmt: skip


class c_nvmlRowRemapperHistogramValues(ctypes.Structure):
    """The number of memory banks by the spare rows that they have left."""

    _fields_ = (("max", c_uint), ("high", c_uint), ("partial", c_uint), ("low", c_uint), ("none", c_uint))


class c_nvmlValue_t(ctypes.Union):
    """The value of a field, in the type that valueType names."""

    _fields_ = (
        ("dVal", c_double), ("uiVal", c_uint), ("ulVal", c_ulong), ("ullVal", c_ulonglong), ("sllVal", c_longlong),
        ("siVal", c_int), ("usVal", c_ushort),
    )  # fmt: skip


class c_nvmlFieldValue_t(ctypes.Structure):
    """A requested field: its value, or the error code in nvmlReturn."""

    _fields_ = (
        ("fieldId", c_uint), ("scopeId", c_uint), ("timestamp", c_longlong), ("latencyUsec", c_longlong),
        ("valueType", c_uint), ("nvmlReturn", c_uint), ("value", c_nvmlValue_t),
    )  # fmt: skip


class c_nvmlEventData_t(ctypes.Structure):
    """An event. For an Xid, eventData is its number."""

    _fields_ = (
        ("device", c_nvmlDevice_t), ("eventType", c_ulonglong), ("eventData", c_ulonglong),
        ("gpuInstanceId", c_uint), ("computeInstanceId", c_uint),
    )  # fmt: skip


class NVMLError(Exception):
    """The error code of a function, with the library's own message."""

    def __init__(self, value: int) -> None:
        super().__init__(_error_text(value))
        self.value = value


class _Getter(NamedTuple):
    """A function with its argument types and result types. `symbol` is its name in the library if that differs."""

    takes: tuple[Any, ...]
    gives: tuple[Any, ...]
    symbol: str = ""


_GPU, _NUMBER, _LONG, _EVENTS = (c_nvmlDevice_t,), (c_uint,), (c_ulonglong,), (c_nvmlEventSet_t,)
_GETTERS = {
    "nvmlInit": _Getter((), (), "nvmlInit_v2"),
    "nvmlDeviceGetCount": _Getter((), _NUMBER, "nvmlDeviceGetCount_v2"),
    "nvmlDeviceGetHandleByIndex": _Getter(_NUMBER, _GPU, "nvmlDeviceGetHandleByIndex_v2"),
    "nvmlDeviceGetMemoryInfo": _Getter(_GPU, (c_nvmlMemory_t,)),
    "nvmlDeviceGetPersistenceMode": _Getter(_GPU, _NUMBER),
    "nvmlDeviceGetMigMode": _Getter(_GPU, _NUMBER * 2),
    "nvmlDeviceGetMaxMigDeviceCount": _Getter(_GPU, _NUMBER),
    "nvmlDeviceGetMigDeviceHandleByIndex": _Getter(_GPU + _NUMBER, _GPU),
    "nvmlDeviceGetMemoryErrorCounter": _Getter(_GPU + _NUMBER * 3, _LONG),
    "nvmlDeviceGetRemappedRows": _Getter(_GPU, _NUMBER * 4),
    "nvmlDeviceGetRowRemapperHistogram": _Getter(_GPU, (c_nvmlRowRemapperHistogramValues,)),
    "nvmlDeviceGetRetiredPagesPendingStatus": _Getter(_GPU, _NUMBER),
    "nvmlDeviceGetMaxPcieLinkGeneration": _Getter(_GPU, _NUMBER),
    "nvmlDeviceGetMaxPcieLinkWidth": _Getter(_GPU, _NUMBER),
    "nvmlDeviceGetCurrPcieLinkGeneration": _Getter(_GPU, _NUMBER),
    "nvmlDeviceGetCurrPcieLinkWidth": _Getter(_GPU, _NUMBER),
    "nvmlDeviceGetPcieReplayCounter": _Getter(_GPU, _NUMBER),
    "nvmlDeviceGetNvLinkState": _Getter(_GPU + _NUMBER, _NUMBER),
    "nvmlDeviceGetNvLinkErrorCounter": _Getter(_GPU + _NUMBER * 2, _LONG),
    "nvmlDeviceGetEnforcedPowerLimit": _Getter(_GPU, _NUMBER),
    "nvmlDeviceGetPowerManagementDefaultLimit": _Getter(_GPU, _NUMBER),
    "nvmlDeviceGetPowerUsage": _Getter(_GPU, _NUMBER),
    "nvmlDeviceGetTemperature": _Getter(_GPU + _NUMBER, _NUMBER),
    "nvmlDeviceGetClockInfo": _Getter(_GPU + _NUMBER, _NUMBER),
    "nvmlDeviceGetCurrentClocksEventReasons": _Getter(_GPU, _LONG),
    "nvmlDeviceGetCurrentClocksThrottleReasons": _Getter(_GPU, _LONG),
    "nvmlEventSetCreate": _Getter((), _EVENTS),
    "nvmlDeviceGetSupportedEventTypes": _Getter(_GPU, _LONG),
    "nvmlDeviceRegisterEvents": _Getter(_GPU + _LONG + _EVENTS, ()),
}


def __getattr__(name: str) -> Callable[..., Any]:
    """Return a function of the table."""
    if name not in _GETTERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return partial(_get, name)


def nvmlSystemGetDriverVersion() -> str:
    return _text("nvmlSystemGetDriverVersion", 80)


def nvmlDeviceGetName(handle: Any) -> str:
    return _text("nvmlDeviceGetName", 96, handle)


def nvmlDeviceGetUUID(handle: Any) -> str:
    return _text("nvmlDeviceGetUUID", 96, handle)


def nvmlDeviceGetComputeRunningProcesses(handle: Any) -> list[Any]:
    return _list("nvmlDeviceGetComputeRunningProcesses_v3", c_nvmlProcessInfo_t, handle)


def nvmlDeviceGetRetiredPages(handle: Any, cause: int) -> list[int]:
    return _list("nvmlDeviceGetRetiredPages", c_ulonglong, handle, c_uint(cause))


def nvmlDeviceGetFieldValues(handle: Any, fields: Sequence[int]) -> Any:
    values = (c_nvmlFieldValue_t * len(fields))()
    for value, field in zip(values, fields, strict=True):
        value.fieldId = field
    _call("nvmlDeviceGetFieldValues", handle, c_int(len(fields)), values)
    return values


def nvmlEventSetWait_v2(events: Any, timeout_ms: int) -> c_nvmlEventData_t:
    data = c_nvmlEventData_t()
    _call("nvmlEventSetWait_v2", events, byref(data), c_uint(timeout_ms))
    return data


def _get(name: str, *given: Any) -> Any:
    """Call a function. Return None, its only result, or the list of its results, as Python numbers."""
    takes, gives, symbol = _GETTERS[name]
    arguments = [kind(each) if isinstance(each, int) else each for kind, each in zip(takes, given, strict=True)]
    results = [kind() for kind in gives]
    _call(symbol or name, *arguments, *(byref(each) for each in results))
    results = [getattr(each, "value", each) for each in results]  # structures and handles have no value attribute
    return results if len(results) > 1 else next(iter(results), None)


def _text(name: str, size: int, *given: Any) -> str:
    buffer = ctypes.create_string_buffer(size)
    _call(name, *given, buffer, c_uint(size))
    return buffer.value.decode("utf-8", "replace")


def _list(name: str, kind: Any, *given: Any) -> list[Any]:
    """Return a list of any length: ask for its length first, then leave room for entries added in between."""
    count = c_uint(0)
    try:
        _call(name, *given, byref(count), None)
    except NVMLError as error:
        if error.value != NVML_ERROR_INSUFFICIENT_SIZE:
            raise
    count.value = count.value * 2 + 5
    results = (kind * count.value)()
    _call(name, *given, byref(count), results)
    return list(results[: count.value])


def _call(symbol: str, *given: Any) -> None:
    try:
        function = getattr(_library(), symbol)
    except OSError:
        raise NVMLError(NVML_ERROR_LIBRARY_NOT_FOUND) from None
    except AttributeError:  # an older driver does not have every function
        raise NVMLError(NVML_ERROR_FUNCTION_NOT_FOUND) from None
    if code := function(*given):
        raise NVMLError(code)


def _error_text(code: int) -> str:
    try:
        say = _library().nvmlErrorString
    except (OSError, AttributeError):
        return f"NVML error {code}"
    say.restype = ctypes.c_char_p
    return str(say(code).decode())


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(NAME)
