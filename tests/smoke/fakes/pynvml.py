"""A fake of nvidia-ml-py. Its answers are in the variable FAKE_NVML; its names and numbers are those of 13.615.71.

Without FAKE_NVML an import fails, also if nvidia-ml-py is installed: this folder comes first. The fields of FAKE_NVML:

- `gpus`: the GPUs, healthy L4s (healthy_gpu.json) with the given changes. `after` has the changes after the work,
  `refuse` the error codes of functions, and `lost` the number of samples after which every function answers 15.
- `import`: `hang` lets the import hang.
- `start`: the code of nvmlInit. `seconds` is the time it takes.
- `hang`: a function that does not return after the given number of `answers`.
- `absent`: functions that this release does not have.
- `xids`: the Xids, each reported once. `refuse` at this level is the code that ends the wait for more.
- `leave`: ends the process at the first sample.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fake_clock

if "FAKE_NVML" not in os.environ:
    raise ModuleNotFoundError("No module named 'pynvml'")
SETTINGS: dict[str, Any] = json.loads(os.environ["FAKE_NVML"])
HEALTHY: dict[str, Any] = json.loads(Path(__file__).with_name("healthy_gpu.json").read_text())
NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC = 0, 1, 0
NVML_MEMORY_LOCATION_COUNT, NVML_NVLINK_MAX_LINKS, NVML_NVLINK_ERROR_DL_CRC_DATA = 8, 36, 3
NVML_MEMORY_LOCATION_DEVICE_MEMORY = 2
NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS, NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR = 0, 1
NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, NVML_TEMPERATURE_GPU, NVML_CLOCK_SM = 230, 0, 1
nvmlEventTypeXidCriticalError = 8  # noqa: N816
WORDS = {3: "Not Supported", 9: "Driver Not Loaded", 10: "Timeout", 12: "NVML Shared Library Not Found",
         15: "GPU is lost", 18: "Driver/library version mismatch", 999: "Unknown Error"}  # fmt: skip


if SETTINGS.get("import") == "hang":
    time.sleep(3600)


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(WORDS.get(value, f"code {value}"))
        self.value = value


class Gpu:
    """One GPU, with the number of its reads and samples."""

    def __init__(self, **told: Any) -> None:
        self.told, self.looks, self.samples = {**HEALTHY, "lost": None, **told}, 0, 0

    def __getitem__(self, name: str) -> Any:
        return self.told[name]


GPUS = [
    Gpu(**{"uuid": f"GPU-0000-{index}", "index": index, **told})
    for index, told in enumerate(SETTINGS.get("gpus", [{}]))
]
CALLS: Counter[str] = Counter()
XIDS = [*SETTINGS.get("xids", [])]


def _start() -> None:
    time.sleep(SETTINGS.get("seconds", 0))
    if "start" in SETTINGS:
        raise NVMLError(SETTINGS["start"])


def _mig(gpu: Gpu) -> Any:
    gpu.looks += 1
    if gpu.looks == 2:
        gpu.told |= gpu.told.get("after", {})
    return gpu["mig"]


def _slice(gpu: Gpu, index: int) -> Gpu:
    if index >= len(gpu["slices"]):
        raise NVMLError(6)
    return Gpu(uuid=gpu["slices"][index])


def _temperature(gpu: Gpu, _: int) -> int:
    gpu.samples += 1
    if SETTINGS.get("leave"):  # as if all were told
        os.write(int(sys.argv[2]), b'{"event": "done"}\n')
        os._exit(0)
    return int(gpu["temperature"])


def _link(gpu: Gpu, link: int) -> int:
    if link >= len(gpu["links"]):
        raise NVMLError(3)
    return int(gpu["links"][link])


def _counter(gpu: Gpu, kind: int, _: int, part: int) -> int:
    if part != NVML_MEMORY_LOCATION_DEVICE_MEMORY or not gpu["ecc"]:
        raise NVMLError(2 if part != NVML_MEMORY_LOCATION_DEVICE_MEMORY else 3)
    return int(gpu["uncorrected" if kind else "corrected"])


def _processes(gpu: Gpu) -> list[Any]:
    found = gpu["processes"].pop(0) if len(gpu["processes"]) > 1 else gpu["processes"][0]
    return [SimpleNamespace(pid=pid) for pid in [*found, *fake_clock.processes(gpu["index"])]]


def _field(gpu: Gpu, fields: list[int]) -> list[Any]:
    assert fields == [NVML_FI_DEV_GET_GPU_RECOVERY_ACTION]
    return [SimpleNamespace(nvmlReturn=gpu["field"], value=SimpleNamespace(uiVal=gpu["recovery"]))]


def _wait(events: Any, timeout_ms: int) -> Any:
    if "nvmlEventSetWait_v2" in SETTINGS.get("refuse", {}):
        raise NVMLError(SETTINGS["refuse"]["nvmlEventSetWait_v2"])
    if not XIDS:
        raise NVMLError(10)
    told = XIDS.pop(0)
    return SimpleNamespace(device=GPUS[told.get("gpu", 0)], eventData=told["code"])


_OF_THE_LIBRARY: dict[str, Callable[..., Any]] = {
    "nvmlInit": _start,
    "nvmlSystemGetDriverVersion": lambda: b"580.159.03",
    "nvmlDeviceGetCount": lambda: len(GPUS),
    "nvmlDeviceGetHandleByIndex": lambda index: GPUS[index],
    "nvmlEventSetCreate": lambda: "events",
    "nvmlEventSetWait_v2": _wait,
}
_OF_A_GPU: dict[str, Callable[..., Any]] = {
    "nvmlDeviceGetUUID": lambda gpu: gpu["uuid"],
    "nvmlDeviceGetMigMode": _mig,
    "nvmlDeviceGetMaxMigDeviceCount": lambda gpu: 7,
    "nvmlDeviceGetMigDeviceHandleByIndex": _slice,
    "nvmlDeviceGetMemoryErrorCounter": _counter,
    "nvmlDeviceGetRemappedRows": lambda gpu: gpu["rows"],
    "nvmlDeviceGetRowRemapperHistogram": lambda gpu: SimpleNamespace(low=gpu["low"], none=gpu["none"]),
    "nvmlDeviceGetRetiredPages": lambda gpu, cause: [0] * (gpu["pages"] if cause else 0),
    "nvmlDeviceGetRetiredPagesPendingStatus": lambda gpu: gpu["pending"],
    "nvmlDeviceGetFieldValues": _field,
    "nvmlDeviceGetMaxPcieLinkGeneration": lambda gpu: gpu["most"][0],
    "nvmlDeviceGetMaxPcieLinkWidth": lambda gpu: gpu["most"][1],
    "nvmlDeviceGetPcieReplayCounter": lambda gpu: gpu["replays"],
    "nvmlDeviceGetNvLinkState": _link,
    "nvmlDeviceGetNvLinkErrorCounter": lambda gpu, link, kind: 0 if link or kind else gpu["link_errors"],
    "nvmlDeviceGetComputeRunningProcesses": _processes,
    "nvmlDeviceGetEnforcedPowerLimit": lambda gpu: gpu["limit"],
    "nvmlDeviceGetPowerManagementDefaultLimit": lambda gpu: gpu["default"],
    "nvmlDeviceGetCurrentClocksEventReasons": lambda gpu: gpu["reasons"],
    "nvmlDeviceGetCurrentClocksThrottleReasons": lambda gpu: gpu["reasons"],
    "nvmlDeviceGetTemperature": _temperature,
    "nvmlDeviceGetPowerUsage": lambda gpu: gpu["power"],
    "nvmlDeviceGetClockInfo": lambda gpu, kind: gpu["clock"],
    "nvmlDeviceGetCurrPcieLinkGeneration": lambda gpu: gpu["generation"],
    "nvmlDeviceGetCurrPcieLinkWidth": lambda gpu: gpu["width"],
    "nvmlDeviceGetSupportedEventTypes": lambda gpu: gpu["events"],
    "nvmlDeviceRegisterEvents": lambda gpu, kinds, events: None,
}


def __getattr__(name: str) -> Callable[..., Any]:
    known = _OF_THE_LIBRARY | _OF_A_GPU
    if name not in known or name in SETTINGS.get("absent", []):
        raise AttributeError(f"module 'pynvml' has no attribute {name!r}")

    def call(*given: Any) -> Any:
        CALLS[name] += 1
        if name == SETTINGS.get("hang") and CALLS[name] > SETTINGS.get("answers", 0):
            time.sleep(3600)
        gpu = given[0] if name in _OF_A_GPU else Gpu()
        if gpu["lost"] is not None and gpu.samples >= gpu["lost"] and name != "nvmlDeviceGetUUID":
            raise NVMLError(15)
        if name in gpu["refuse"]:
            raise NVMLError(gpu["refuse"][name])
        return known[name](*given)

    return call
