"""Print as JSON the answer of each function of a module: pynvml, or our own binding."""

from __future__ import annotations

import ctypes
import importlib
import json
import sys
from collections.abc import Callable
from typing import Any

# Each getter of a GPU that takes more than its handle.
MORE: dict[str, tuple[Any, ...]] = {
    "nvmlDeviceGetMemoryErrorCounter": (1, 0, 2),
    "nvmlDeviceGetRetiredPages": (1,),
    "nvmlDeviceGetFieldValues": ([230, 1],),
    "nvmlDeviceGetNvLinkState": (1,),
    "nvmlDeviceGetNvLinkErrorCounter": (0, 0),
    "nvmlDeviceGetTemperature": (0,),
    "nvmlDeviceGetClockInfo": (1,),
}


def main(module: str, names: list[str]) -> None:
    lib = importlib.import_module(module)
    answers = {"nvmlInit": answer(lib, lib.nvmlInit)}
    if answers["nvmlInit"] is None:
        gpu, events = lib.nvmlDeviceGetHandleByIndex(0), lib.nvmlEventSetCreate()
        of_the_library = {
            "nvmlInit": (), "nvmlSystemGetDriverVersion": (), "nvmlDeviceGetCount": (), "nvmlEventSetCreate": (),
            "nvmlDeviceGetHandleByIndex": (0,), "nvmlEventSetWait_v2": (events, 1),
            "nvmlDeviceRegisterEvents": (gpu, 8, events), "nvmlDeviceGetMigDeviceHandleByIndex": (gpu, 0),
        }  # fmt: skip
        given = {name: of_the_library.get(name, (gpu, *MORE.get(name, ()))) for name in names}
        answers = {name: answer(lib, getattr(lib, name), *arguments) for name, arguments in given.items()}
        slice_ = answer(lib, lambda: lib.nvmlDeviceGetUUID(lib.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)))
        answers["the UUID of a slice"] = slice_
    json.dump(answers, sys.stdout)


def answer(lib: Any, function: Callable[..., Any], *given: Any) -> Any:
    try:
        return plain(function(*given))
    except lib.NVMLError as error:
        return {"NVMLError": error.value}


def plain(value: Any) -> Any:
    """Return an answer as JSON: a structure as its fields, a sequence, a number, a text, or the handle itself."""
    if isinstance(value, ctypes.Structure | ctypes.Union):
        return {name: plain(getattr(value, name)) for name, *_ in value._fields_}
    if isinstance(value, ctypes._Pointer):
        return "a handle"
    if isinstance(value, ctypes.Array | list | tuple):
        return [plain(each) for each in value]
    if not isinstance(value, int | float | str | None):
        return {name: plain(each) for name, each in vars(value).items()}  # nvidia-ml-py's nvmlFriendlyObject
    return value


main(sys.argv[1], sys.argv[2:])
