"""The meaning of errors: severity, action and a hint.

The severity decides the exit code: ENV is the environment, GPU a broken GPU, HANG no answer in time, PERF too slow. The
action is what an operator does to the machine, the image, the driver or the pool.
"""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import NamedTuple

from .output import printable

ENV, GPU, HANG, PERF = "env", "gpu", "hang", "perf"
FIX_IMAGE, FIX_DRIVER, FIX_POOL = "fix-image", "fix-driver", "fix-pool"
RESET, REBOOT, REPLACE, NONE = "reset-gpu", "reboot", "replace-node", "none"


class Meaning(NamedTuple):
    """The severity of an error, the action against it, and a hint."""

    severity: str
    action: str
    hint: str


NO_KERNELS = Meaning(ENV, FIX_IMAGE, "this torch has no kernels for this GPU: install one whose arch list has it")
_OLD_DRIVER = Meaning(ENV, FIX_DRIVER, "this torch needs a newer driver, or this driver a torch for an older CUDA")
_NO_GPU = Meaning(ENV, FIX_DRIVER, "no GPU is visible here (CUDA_VISIBLE_DEVICES can hide GPUs): try nvidia-smi")
_TWO_DRIVERS = Meaning(ENV, REBOOT, "the driver in the kernel and its libraries are of different versions")
_FABRIC = Meaning(ENV, FIX_DRIVER, "NVSwitch machines need the fabric manager running, of the driver's own version")
_SHARED = Meaning(ENV, NONE, "another process uses this GPU: nvidia-smi lists its processes")
_CHECKOUT = Path(__file__).resolve().parents[2]
# A checkout of gpu-ci has torch in a separate environment, which `make up` installs.
_WITH_TORCH = (
    f"in this checkout: {_CHECKOUT}/.venv-torch/bin/gpu-smoke, which `make up` installs"
    if (_CHECKOUT / "tools" / "install.py").is_file()
    else "use the Python that has torch, or an image with one: python3 -m pip install torch"
)
_NO_TORCH = Meaning(ENV, FIX_IMAGE, _WITH_TORCH)
_BROKEN_TORCH = Meaning(ENV, FIX_IMAGE, "the installation of torch is broken: reinstall it with its own CUDA libraries")
_OLD_TORCH = Meaning(ENV, FIX_IMAGE, "this torch cannot multiply this number format: use a newer one")
_OTHER_CUDNN = Meaning(ENV, FIX_IMAGE, "this cuDNN is not for this torch, or not for this GPU: see LD_LIBRARY_PATH")
_NOT_STARTED = Meaning(ENV, FIX_IMAGE, "no memory is left, or another CUDA's library is found before torch's own")
_STUCK = Meaning(ENV, REBOOT, "device nodes may be missing here (nvidia-modprobe -u), or the driver is stuck")
_NO_SHM = Meaning(ENV, FIX_POOL, "mount an emptyDir with medium: Memory on /dev/shm, or docker run --shm-size=1g")
_BROKEN_NVML = Meaning(ENV, FIX_DRIVER, "the driver's libnvidia-ml.so.1 fails here: try nvidia-smi")
_BROKEN_GPU = Meaning(GPU, REPLACE, "the GPU failed while it computed: see the Xid errors in the kernel log")

# The first match wins. The texts are those of the CUDA runtime (enum cudaError in NVIDIA's CUDA Runtime API, which also
# explains them), the status names of cuBLAS and cuDNN, and those of torch.
_KNOWN = {
    "no kernel image is available": NO_KERNELS,
    "driver on your system is too old|driver version is insufficient": _OLD_DRIVER,
    "found no nvidia driver|no cuda gpus are available|no cuda-capable device": _NO_GPU,
    "driver/library version mismatch|unsupported display driver|forward compatibility was": _TWO_DRIVERS,
    "system not yet initialized": _FABRIC,
    "bus error|shared memory|/dev/shm": _NO_SHM,
    "out of memory|cublas_status_alloc_failed|busy or unavailable": _SHARED,
    "no module named 'torch'": _NO_TORCH,
    "cannot open shared object|could not load library|no module named|undefined symbol": _BROKEN_TORCH,
    "cudnn version|cudnn_status_arch_mismatch|cudnn_status_version_mismatch": _OTHER_CUDNN,
    "cudnn_status_not_initialized|cublas_status_not_initialized": _NOT_STARTED,
    "not implemented for": _OLD_TORCH,
    "initialization error|cuda unknown error|operation not permitted": _STUCK,
    "uncorrectable|illegal|misaligned|unspecified launch failure|hardware stack|launch timed out": _BROKEN_GPU,
    "nvlink|execution_failed|internal_error|device-side assert|fallen off the bus": _BROKEN_GPU,
}


def meaning(message: str, stage: str) -> Meaning:
    """Return the meaning of an error of torch.

    An unknown error is a fault of the GPU if a kernel was running, else of the environment.
    """
    for pattern, known in _KNOWN.items():
        if re.search(pattern, message, re.IGNORECASE):
            return known
    if stage == "kernel":
        return Meaning(GPU, REPLACE, "an unknown error while the GPU computed")
    if stage == "nvml":
        return _BROKEN_NVML
    return Meaning(ENV, FIX_IMAGE, "to see it in full: python3 -c 'import torch; torch.cuda.init()'")


def death(code: int, stage: str) -> tuple[str, Meaning]:
    """Return a description and the meaning of the end of a worker that did not finish its work."""
    if code >= 0:
        return f"exited with code {code}", Meaning(ENV, FIX_IMAGE, "something in the image ended the check")
    name = signal.Signals(-code).name if -code in signal.valid_signals() else f"signal {-code}"
    died = f"died of {name}"
    if name == "SIGKILL":
        return died, Meaning(ENV, NONE, "killed from outside, most often because memory ran out")
    if name == "SIGILL":
        return died, Meaning(ENV, FIX_IMAGE, "this torch uses instructions that this processor does not have")
    if stage == "kernel":
        return died, _BROKEN_GPU
    if stage == "nvml":
        return died, _BROKEN_NVML
    return died, Meaning(ENV, FIX_IMAGE, "torch, or a library that it loads, crashed")


def hang(stage: str, *, on_cpu: bool) -> Meaning:
    """Return the meaning of a worker that did not end in time."""
    if stage == "stopped":
        return Meaning(HANG, NONE, "the run was stopped before an answer came")
    if stage == "kernel" and not on_cpu:
        return Meaning(HANG, REPLACE, "the GPU does not answer and needs at least a reset: replace the machine")
    if stage in ("devices", "end", "nvml") and not on_cpu:
        return Meaning(
            HANG, REBOOT, "the driver does not answer: reboot, and replace the machine if that does not help"
        )
    return Meaning(HANG, NONE, "a slow disk or processor may only need a longer --deadline-sec")


def one_line(text: str, limit: int = 300) -> str:
    """Return the first line that has text, safe for a terminal and a log. Errors of torch have many lines."""
    lines = (printable(line).strip() for line in text.splitlines())
    line = next((line for line in lines if line), "")
    return line if len(line) <= limit else line[: limit - 1] + "…"
