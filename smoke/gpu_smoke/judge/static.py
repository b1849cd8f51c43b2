"""Checks before torch computes: device nodes, the driver and its library, and the kernels that torch has.

Device nodes are the files in /dev through which programs reach the driver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import faults
from ..checks import PASS, SKIP, WARN, Check, failure
from ..compat import rules
from ..faults import Meaning
from ..machine import Installed
from .subject import Subject

SHARED_MEMORY_GIB = 1.0
_NODES = "on a machine nvidia-modprobe -u -c=0 creates the device nodes; a container gets them with a GPU request"
# Codes of cuInit (enum cudaError_enum in NVIDIA's CUDA Driver API, which also says what they mean).
_CODES = {
    3: Meaning(faults.ENV, faults.REBOOT, "the driver could not be started: see the kernel log for NVRM and Xid"),
    34: Meaning(
        faults.ENV, faults.FIX_IMAGE, "this is the stub for linking, not a driver: remove it from LD_LIBRARY_PATH"
    ),
    100: Meaning(faults.ENV, faults.FIX_DRIVER, "no GPU is visible here (CUDA_VISIBLE_DEVICES can hide GPUs)"),
    802: Meaning(faults.ENV, faults.FIX_DRIVER, "NVSwitch machines need the fabric manager, of the driver's version"),
    803: Meaning(faults.ENV, faults.REBOOT, "the driver in the kernel and its libraries are of different versions"),
    804: Meaning(faults.ENV, faults.FIX_IMAGE, "CUDA's compatibility package is for data center GPUs: remove it here"),
    999: Meaning(faults.ENV, faults.REBOOT, _NODES),
}
_NAMES = {3: "not initialized", 34: "stub library", 100: "no device", 802: "system not ready", 803: "driver mismatch"}
_NAMES |= {804: "compatibility not supported on this device", 999: "unknown error"}


def nodes(found: Sequence[str], windows: bool, *, started: bool) -> Check:
    """Check that the driver's device nodes exist. If the driver starts without one of them, only warn."""
    if windows:
        return Check("devnodes", SKIP, "Linux under Windows has no device nodes for GPUs")
    wanted = ("/dev/nvidiactl", "/dev/nvidia-uvm")
    missing = [node for node in wanted if node not in found]
    missing += [] if set(found) - set(wanted) else ["/dev/nvidia0"]
    if not missing:
        return Check("devnodes", PASS, ", ".join(found))
    if started:
        return Check("devnodes", WARN, f"{missing[0]} is missing, but the driver starts")
    means = Meaning(faults.ENV, faults.FIX_DRIVER, f"no driver is running, or device nodes are missing: {_NODES}")
    return failure("devnodes", f"no CUDA device: {missing[0]} is missing", means)


def wheel(driver: str, torch: Installed, compatible: bool) -> Check:
    """Check that the driver is new enough for torch's CUDA, before CUDA starts."""
    try:
        branch = rules.branch_of(driver)
        major, _, minor = torch.cuda.partition(".")
        floor = rules.lowest_branch((int(major), int(minor or 0)))
    except ValueError:
        unknown = "the driver's version" if torch.cuda else "the CUDA of the torch that is installed"
        return Check("driver.wheel", SKIP, f"{unknown} is unknown")
    versions = f"driver {driver} and torch {torch.version} for CUDA {torch.cuda}"
    if floor is None:
        return Check("driver.wheel", SKIP, f"{versions}: the driver that it needs is unknown")
    if branch >= floor:
        return Check("driver.wheel", PASS, versions)
    text = f"driver {driver} is too old for torch {torch.version}: CUDA {torch.cuda} needs branch {floor} or newer"
    if compatible:
        return Check("driver.wheel", WARN, f"{text}, unless the installed compatibility package provides it")
    runs = rules.newest_cuda(branch)
    other = f", or a torch for CUDA {runs[0]}, whose version ends in +cu{runs[0]}…" if runs else ""
    means = Meaning(faults.ENV, faults.FIX_DRIVER, f"install a driver of branch {floor} or newer{other}")
    return failure("driver.wheel", text, means)


def library(driver: str, found: Mapping[str, Any]) -> list[Check]:
    """Check that the driver's library is real, starts, and is of the version that the kernel runs."""
    started, closed = found.get("code") == 0, found["refused"]
    devnodes = _closed(closed, started=started) if closed else nodes(found["nodes"], found["windows"], started=started)
    if closed and not started:
        return [devnodes]
    return [devnodes, _starts(found), _match(driver, found)]


def _closed(closed: Mapping[str, str], *, started: bool) -> Check:
    """Judge device nodes that cannot be opened, each with its error.

    A container sees the nodes of GPUs that it was not given, and cannot open them.
    """
    node, error = next(iter(closed.items()))
    text = f"{node} cannot be opened: {error}"
    if started:
        hint = "this is normal for a GPU that this container or job was not given; gpu.count checks the others"
        return Check("devnodes", WARN, f"{text}, but the driver starts", hint=hint)
    hint = "a container loses its GPUs when systemd is reloaded on the machine, or was never given them"
    return failure("devnodes", f"no CUDA device: {text}", Meaning(faults.ENV, faults.REBOOT, hint))


def arch(subject: Subject, torch: str, names: Sequence[str]) -> Check:
    """Check that torch has kernels that run on the GPU."""
    device = rules.parse_capability(subject.cc)
    compiled = [int(name[3:]) for name in names if name[:3] == "sm_" and name[3:].isdigit()]
    # The driver can compile the code of a compute_ entry for newer GPUs.
    for_the_driver = [int(name[8:]) for name in names if name[:8] == "compute_" and name[8:].isdigit()]
    fits = [code for code in compiled if rules.runs(code, device)]
    if fits:
        return Check("torch.arch", PASS, f"sm_{max(fits)} runs on {subject.cc}", gpu=subject.index)
    if not names:
        return Check("torch.arch", SKIP, "torch does not report what it was compiled for", gpu=subject.index)
    if any(code <= device for code in for_the_driver):
        text = f"torch {torch} has no kernels for {subject.cc}; its driver has to compile them first"
        return Check("torch.arch", WARN, text, gpu=subject.index)
    text = f"torch {torch} has no kernels for {subject.place} ({subject.name}, {subject.cc}): it has {' '.join(names)}"
    return failure("torch.arch", text, faults.NO_KERNELS, gpu=subject.index)


def shm(size: int | None) -> Check:
    """Check that /dev/shm is large enough for processes to share data. Containers have 64 MB by default."""
    if size is None:
        return Check("shm", SKIP, "there is no /dev/shm")
    gib = size / 2**30
    has = f"{gib:.3g} GiB in /dev/shm"
    if gib >= SHARED_MEMORY_GIB:
        return Check("shm", PASS, has, value=gib, unit="GiB", warn_below=SHARED_MEMORY_GIB)
    hint = "mount an emptyDir with medium: Memory on /dev/shm, or docker run --shm-size=1g"
    text = f"only {has}: DataLoader workers and NCCL need more"
    return Check("shm", WARN, text, hint=hint, value=gib, unit="GiB", warn_below=SHARED_MEMORY_GIB)


def loader(_: Subject, measured: Mapping[str, Any]) -> list[Check]:
    """Check that data read by two worker processes arrived intact."""
    if measured["right"]:
        return [Check("shm.loader", PASS, f"{measured['bytes'] / 1e6:.3g} MB from two processes")]
    means = Meaning(faults.ENV, faults.REBOOT, "the machine's own memory is at fault")
    return [failure("shm.loader", "data that two processes read arrived changed", means)]


def _starts(found: Mapping[str, Any]) -> Check:
    path, code = found["path"], found.get("code")
    if code is None:
        means = Meaning(faults.ENV, faults.FIX_DRIVER, "the driver's libraries are missing here: the container toolkit "
                        "adds them if NVIDIA_DRIVER_CAPABILITIES has compute")  # fmt: skip
        return failure("libcuda.real", f"no CUDA device: {faults.one_line(found['missing'])}", means)
    if "/stubs/" in path:
        return failure("libcuda.real", f"{path} is not a driver", _CODES[34])
    if code == 0:
        return Check("libcuda.real", PASS, f"CUDA {found.get('cuda', '?')} from {path or 'a file that is not named'}")
    means = _CODES.get(code, Meaning(faults.ENV, faults.REBOOT, "see enum cudaError_enum in CUDA's Driver API"))
    return failure("libcuda.real", f"no CUDA device: cuInit gave {code} ({_NAMES.get(code, 'an error')})", means)


def _match(driver: str, found: Mapping[str, Any]) -> Check:
    library, path = found["library"], found["path"]
    if not driver or not library:
        return Check("driver.match", SKIP, "one of the two versions is unknown")
    if library == driver:
        return Check("driver.match", PASS, driver)
    if "/compat/" in path or "/compat" in path.rpartition("/")[0]:
        return Check("driver.match", SKIP, f"{path} is CUDA's compatibility package, of another version on purpose")
    means = Meaning(faults.ENV, faults.REBOOT, "the driver was updated and the old one still runs: reboot the machine")
    return failure("driver.match", f"the kernel runs driver {driver}, the library is {library} ({path})", means)
