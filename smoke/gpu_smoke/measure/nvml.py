"""Read NVML's data of each GPU: once for `diagnose`, or before, during and after the work of a run.

This module needs no CUDA and returns plain numbers. `lib` is nvidia-ml-py if it is installed, because that package has
the functions of newer drivers. Otherwise `lib` is libnvml.py, which has the same names. If NVML refuses an answer, the
value is a dict: the error code as `refused`, and NVML's message as `text`.
"""

from __future__ import annotations

import ctypes
import select
from collections.abc import Callable, Iterator
from typing import Any, TextIO

from ..data.health import OLD_LIBRARY
from . import libnvml

PERIOD_SEC = 0.2
# If no process keeps the driver loaded, its start takes 1 to 2 s a GPU (our guess). A machine may have sixteen GPUs.
START_SEC = 60.0
_XIDS_AT_ONCE = 100
_INVALID_ARGUMENT = 2
_NO_MORE = (10, 15)  # NVML errors: no event arrived in time, or a GPU is lost, which the next sample reports


def watch(emit: Callable[..., None], tasks: TextIO) -> None:
    """Report the state of all GPUs, take samples until the parent closes the input, then report the state again.

    `tasks` is the standard input, on which this role gets no tasks. Xids are reported as they occur.
    """
    emit("stage", stage="import", text="loading NVML", check_id="nvml", limit_sec=30)
    lib = _library()
    emit("stage", stage="nvml", text="asking NVML", check_id="nvml", limit_sec=START_SEC)
    started = _ask(lib, lambda _: lib.nvmlInit())
    if started is not None:
        emit("nvml", **started)
        return
    handles = [_ask(lib, lib.nvmlDeviceGetHandleByIndex, index) for index in range(lib.nvmlDeviceGetCount())]
    events = _ask(lib, lambda _: lib.nvmlEventSetCreate())
    driver = _text(lib.nvmlSystemGetDriverVersion())
    emit("nvml", driver=driver, gpus=[_state(lib, handle) | _registered(lib, events, handle) for handle in handles])
    while not select.select([tasks], [], [], PERIOD_SEC)[0]:
        for xid in _xids(lib, events):
            emit("xid", **xid)
        emit("sample", gpus=[_read(lib, handle, _SAMPLE) for handle in handles])
    for xid in _xids(lib, events):
        emit("xid", **xid)
    emit("after", gpus=[_state(lib, handle) for handle in handles])


def ask() -> dict[str, Any]:
    """Return the code of NVML's start. If it is 0, also return the GPUs, without the values that NVML refuses."""
    try:
        ctypes.CDLL(libnvml.NAME)
    except OSError as error:
        return {"missing": str(error)}
    lib = _library()
    count = _ask(lib, lambda _: lib.nvmlInit()) or _ask(lib, lambda _: lib.nvmlDeviceGetCount())
    if isinstance(count, dict):
        return {"code": count["refused"]}
    return {"code": 0, "gpus": [{"index": index, **_snapshot(lib, index)} for index in range(count)]}


def _library() -> Any:
    try:
        import pynvml
    except ImportError:
        return libnvml
    return pynvml


def _snapshot(lib: Any, index: int) -> dict[str, Any]:
    """Return NVML's values for one GPU, or NVML's error code for it."""
    handle = _ask(lib, lib.nvmlDeviceGetHandleByIndex, index)
    if isinstance(handle, dict):
        return {"code": handle["refused"]}
    values = _read(lib, handle, _ONCE).items()
    return {
        "code": 0,
        **{name: value for name, value in values if not (isinstance(value, dict) and "refused" in value)},
    }


def _ask(lib: Any, read: Callable[..., Any], *given: Any) -> Any:
    """Return the answer of NVML, or its error."""
    try:
        return read(*(given or (lib,)))
    except lib.NVMLError as error:
        return {"refused": int(error.value), "text": str(error)}
    except AttributeError as error:  # an older nvidia-ml-py does not have every function
        return {"refused": OLD_LIBRARY, "text": str(error)}


def _read(lib: Any, handle: Any, fields: dict[str, Callable[[Any, Any], Any]]) -> dict[str, Any]:
    """Read every field of one GPU. Without a handle each field has the error of the handle."""
    if isinstance(handle, dict):
        return dict.fromkeys(fields, handle)
    return {name: _ask(lib, read, lib, handle) for name, read in fields.items()}


def _state(lib: Any, handle: Any) -> dict[str, Any]:
    return _read(lib, handle, _STATE)


def _registered(lib: Any, events: Any, handle: Any) -> dict[str, Any]:
    """Register for the Xids of a GPU. `events` is True if that worked."""

    def register(lib: Any, handle: Any) -> bool:
        wanted = lib.nvmlEventTypeXidCriticalError
        if not lib.nvmlDeviceGetSupportedEventTypes(handle) & wanted:
            return False
        lib.nvmlDeviceRegisterEvents(handle, wanted, events)
        return True

    return {"events": events} if isinstance(events, dict) else _read(lib, handle, {"events": register})


def _xids(lib: Any, events: Any) -> Iterator[dict[str, Any]]:
    for _ in range(0 if isinstance(events, dict) else _XIDS_AT_ONCE):
        data = _ask(lib, lambda _: lib.nvmlEventSetWait_v2(events, 1))
        if isinstance(data, dict):
            if data["refused"] not in _NO_MORE:
                yield data
            return
        uuid = _ask(lib, _uuid, lib, data.device)
        yield {"uuid": "" if isinstance(uuid, dict) else uuid, "code": int(data.eventData)}


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)  # older releases return bytes


def _uuid(lib: Any, handle: Any) -> str:
    return _text(lib.nvmlDeviceGetUUID(handle))


def _mig(lib: Any, handle: Any) -> dict[str, Any]:
    """Return the MIG mode and the slices. A container may see only one of them."""
    current, pending = lib.nvmlDeviceGetMigMode(handle)
    count = lib.nvmlDeviceGetMaxMigDeviceCount(handle) if current else 0
    found = [_ask(lib, lib.nvmlDeviceGetMigDeviceHandleByIndex, handle, index) for index in range(count)]
    return {
        "on": bool(current),
        "pending": bool(pending),
        "slices": [_uuid(lib, each) for each in found if not isinstance(each, dict)],
    }


def _ecc(lib: Any, handle: Any) -> dict[str, Any]:
    """Return the memory errors since the driver was loaded, summed over the parts of the chip that count them."""
    return {
        "uncorrected": _errors(lib, handle, lib.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
        "corrected": _errors(lib, handle, lib.NVML_MEMORY_ERROR_TYPE_CORRECTED),
    }


def _errors(lib: Any, handle: Any, kind: int) -> int:
    found, error = [], None
    memory = lib.NVML_MEMORY_LOCATION_DEVICE_MEMORY  # queried first, because its error has the reason
    for part in sorted(range(lib.NVML_MEMORY_LOCATION_COUNT), key=lambda part: part != memory):
        try:
            found.append(int(lib.nvmlDeviceGetMemoryErrorCounter(handle, kind, lib.NVML_VOLATILE_ECC, part)))
        except lib.NVMLError as refused:  # most chips count only in some of them
            error = error or refused
    if error and not found:
        raise error
    return sum(found)


def _remap(lib: Any, handle: Any) -> dict[str, Any]:
    corrected, uncorrected, pending, failed = lib.nvmlDeviceGetRemappedRows(handle)
    banks = _ask(lib, lib.nvmlDeviceGetRowRemapperHistogram, handle)
    spare = {} if isinstance(banks, dict) else {name: int(getattr(banks, name)) for name in ("low", "none")}
    return {
        "rows": int(corrected) + int(uncorrected), "pending": bool(pending), "failed": bool(failed), **spare,
    }  # fmt: skip


def _retired(lib: Any, handle: Any) -> dict[str, Any]:
    causes = (lib.NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS,
              lib.NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR)  # fmt: skip
    pages = sum(len(lib.nvmlDeviceGetRetiredPages(handle, cause)) for cause in causes)
    return {"pages": pages, "pending": bool(lib.nvmlDeviceGetRetiredPagesPendingStatus(handle))}


def _recovery(lib: Any, handle: Any) -> Any:
    [field] = lib.nvmlDeviceGetFieldValues(handle, [lib.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
    if field.nvmlReturn:
        # A driver without this field may call it an invalid argument. That is no error of the GPU.
        code = OLD_LIBRARY if field.nvmlReturn == _INVALID_ARGUMENT else int(field.nvmlReturn)
        return {"refused": code, "text": "no such field"}
    return int(field.value.uiVal)


def _pcie(lib: Any, handle: Any) -> dict[str, Any]:
    replays = _ask(lib, lib.nvmlDeviceGetPcieReplayCounter, handle)
    return {
        "generation": int(lib.nvmlDeviceGetMaxPcieLinkGeneration(handle)),
        "width": int(lib.nvmlDeviceGetMaxPcieLinkWidth(handle)),
        "replays": None if isinstance(replays, dict) else int(replays),
    }


def _nvlink(lib: Any, handle: Any) -> Any:
    states = [_ask(lib, lib.nvmlDeviceGetNvLinkState, handle, link) for link in range(lib.NVML_NVLINK_MAX_LINKS)]
    links = {link: state for link, state in enumerate(states) if not isinstance(state, dict)}
    if not links:
        return states[0]
    active = [link for link, state in links.items() if state]
    kinds = range(lib.NVML_NVLINK_ERROR_DL_CRC_DATA + 1)
    counts = [_ask(lib, lib.nvmlDeviceGetNvLinkErrorCounter, handle, link, kind) for link in active for kind in kinds]
    return {
        "links": len(links), "active": len(active), "errors": sum(n for n in counts if not isinstance(n, dict)),
    }  # fmt: skip


def _memory(lib: Any, handle: Any) -> dict[str, int]:
    memory = lib.nvmlDeviceGetMemoryInfo(handle)
    return {"total": int(memory.total), "used": int(memory.used)}


def _processes(lib: Any, handle: Any) -> list[int]:
    return [int(process.pid) for process in lib.nvmlDeviceGetComputeRunningProcesses(handle)]


def _power(lib: Any, handle: Any) -> dict[str, float]:
    limit, default = lib.nvmlDeviceGetEnforcedPowerLimit(handle), lib.nvmlDeviceGetPowerManagementDefaultLimit(handle)
    return {"limit": limit / 1e3, "default": default / 1e3}


def _reasons(lib: Any, handle: Any) -> Any:
    found = _ask(lib, lambda handle: lib.nvmlDeviceGetCurrentClocksEventReasons(handle), handle)
    if isinstance(found, dict) and found["refused"] == OLD_LIBRARY:  # its name until driver branch 535
        found = lib.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
    return found if isinstance(found, dict) else int(found)


_STATE: dict[str, Callable[[Any, Any], Any]] = {
    "uuid": _uuid, "mig": _mig, "ecc": _ecc, "remap": _remap, "retired": _retired, "recovery": _recovery,
    "pcie": _pcie, "nvlink": _nvlink, "processes": _processes, "power": _power,
}  # fmt: skip
_SAMPLE: dict[str, Callable[[Any, Any], Any]] = {
    "uuid": _uuid,
    "reasons": _reasons,
    "temperature": lambda lib, handle: int(lib.nvmlDeviceGetTemperature(handle, lib.NVML_TEMPERATURE_GPU)),
    "power": lambda lib, handle: lib.nvmlDeviceGetPowerUsage(handle) / 1e3,
    "clock": lambda lib, handle: int(lib.nvmlDeviceGetClockInfo(handle, lib.NVML_CLOCK_SM)),
    "generation": lambda lib, handle: int(lib.nvmlDeviceGetCurrPcieLinkGeneration(handle)),
    "width": lambda lib, handle: int(lib.nvmlDeviceGetCurrPcieLinkWidth(handle)),
    "processes": _processes,
}
_ONCE: dict[str, Callable[[Any, Any], Any]] = {
    "name": lambda lib, handle: _text(lib.nvmlDeviceGetName(handle)),
    "memory": _memory,
    "mig": _mig,
    "persistence": lambda lib, handle: bool(lib.nvmlDeviceGetPersistenceMode(handle)),
    "processes": _processes,
}
