"""One child process: it alone touches a device, and tells every step, so that a hang has a place and a name."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

from . import measure, plan
from .options import capability

_PR_SET_PDEATHSIG = 1  # linux/prctl.h

Tell = Callable[..., None]


def main(argv: Sequence[str]) -> int:
    """Check one device; `argv` is the pipe to tell on, the device, its index, its capability and the parent's id."""
    pipe, device, index, known, parent = argv
    _die_with(int(parent))

    def tell(event: str, **values: Any) -> None:
        os.write(int(pipe), (json.dumps({"event": event, **values}) + "\n").encode())

    try:
        _work(tell, device, int(index), known)
    except Exception as error:  # whatever torch raises is a finding; the parent decides which
        tell("fault", type=type(error).__name__, message=str(error))
    tell("done")
    os._exit(0)  # not through torch's own clean-up, which can hang on a sick driver


def _work(tell: Tell, device: str, index: int, known: str) -> None:
    tell("stage", stage="import", text="importing torch")
    torch = measure.load(device)
    about = measure.about(torch)
    if index == 0:
        tell("torch", **about)
        if device == "cuda" and not about["cuda"]:
            return  # the parent sees from the event that no GPU can be reached
        tell("stage", stage="devices", text="asking CUDA for the GPUs" if device == "cuda" else "asking for the CPU")
        found, message = measure.devices(torch, device)
        if device == "cuda":
            tell("host", driver=measure.driver(), arch_list=list(torch.cuda.get_arch_list()))
        tell("devices", devices=found, message=message)
        if not found:
            return
        known = found[0].get("cc", "")
    for dtype in plan.dtypes(capability(known) if known else None):
        tell("stage", stage="kernel", text=f"multiplying {dtype} matrices", dtype=dtype)
        tell("product", **measure.product(torch, device, index, dtype))


def _die_with(parent: int) -> None:
    """Be killed when the parent dies, however it dies: a GPU must not stay held by a check that nobody reads."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the line above
        os._exit(1)
