"""Judge the answers of the driver's libraries and of torch. These are pure functions from numbers to findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .. import faults
from ..checks import PASS, SKIP, WARN, Check, failure
from ..faults import Meaning
from ..judge import static
from ..judge.subject import Subject
from .finding import Finding, finding_of

_LOST_BY_RELOAD = (
    "a container loses its GPUs when systemd is reloaded on the machine: restart the container; if that happens "
)
_LOST_BY_RELOAD += "often, pass the nodes with --device or CDI"
# Error codes of NVML (enum nvmlReturn_t of nvml.h), with NVML's messages.
_CODES = {
    4: ("Insufficient Permissions", Meaning(faults.ENV, faults.FIX_IMAGE, "this user cannot open /dev/nvidiactl")),
    9: ("Driver Not Loaded", Meaning(faults.ENV, faults.FIX_DRIVER, "the machine's driver is not loaded")),
    12: ("Library Not Found", Meaning(faults.ENV, faults.FIX_DRIVER, "a part of the driver's libraries is missing")),
    15: ("GPU is lost", Meaning(faults.GPU, faults.REPLACE, "the GPU is gone from PCI, or does not answer there")),
    16: ("GPU requires reset", Meaning(faults.GPU, faults.REBOOT, "nvidia-smi --gpu-reset, or reboot")),
    17: ("Operating system blocked the request", Meaning(faults.ENV, faults.REBOOT, _LOST_BY_RELOAD)),
    18: (
        "Driver/library version mismatch",
        Meaning(faults.ENV, faults.REBOOT, "the driver was updated and the old one still runs: reboot the machine"),
    ),
    999: ("Unknown Error", Meaning(faults.ENV, faults.REBOOT, _LOST_BY_RELOAD)),
}
_OTHER = Meaning(faults.ENV, faults.REBOOT, "see enum nvmlReturn_t in NVIDIA's NVML API")
_USED_BY_OTHERS = "a job that has ended may still use it; processes of other containers are not visible from here"
# The most memory that the driver itself uses, in bytes and as a share (judge/results.py).
_OWN_BYTES, _OWN_SHARE = 750e6, 0.03


def nvml(answer: Mapping[str, Any]) -> Iterator[Finding]:
    """Check that NVML starts and that each GPU is usable."""
    if "missing" in answer:
        hint = "nvidia-smi also needs it, CUDA does not; in a container set NVIDIA_DRIVER_CAPABILITIES=compute,utility"
        yield finding_of(Check("nvml", WARN, faults.one_line(answer["missing"]), hint=hint))
        return
    if answer["code"]:
        yield finding_of(_refused("Failed to initialize NVML", answer["code"]))
        return
    gpus: Sequence[Mapping[str, Any]] = answer["gpus"]
    lost = [finding_of(_refused(f"GPU {gpu['index']}", gpu["code"])) for gpu in gpus if gpu["code"]]
    yield from lost or [finding_of(Check("nvml", PASS, ", ".join(gpu.get("name", "?") for gpu in gpus) or "no GPU"))]
    for gpu in gpus:
        if not gpu["code"]:
            yield from (finding_of(check) for check in (_memory(gpu), _mig(gpu), _persistence(gpu)))


def library(driver: str, answer: Mapping[str, Any], has_no_gpu: bool) -> list[Finding]:
    """Check the device nodes and the start of CUDA. A container without GPUs needs no nodes."""
    judged = static.library(driver, answer)
    none = Check("devnodes", SKIP, "no GPU was given to this container")
    return [finding_of(none if has_no_gpu and check.id == "devnodes" else check) for check in judged]


def torch(answer: Mapping[str, Any]) -> Finding:
    """Report the torch that was imported."""
    text = f"torch {answer['version']}"
    if answer["cuda"]:
        return finding_of(Check("torch.import", PASS, f"{text} for CUDA {answer['cuda']}"))
    means = Meaning(faults.ENV, faults.FIX_IMAGE, "install a torch built for CUDA: its version ends in +cu...")
    return finding_of(failure("torch.build", f"{text} is built without CUDA, for the CPU only", means))


def devices(answer: Mapping[str, Any], version: str, names: Sequence[str]) -> Iterator[Finding]:
    """Check that torch sees GPUs and has kernels for them."""
    gpus = answer["devices"]
    if not gpus:
        sentence = faults.one_line(answer["message"]) or "CUDA starts and lists none"
        means = faults.meaning(answer["message"] or "no CUDA-capable device", "devices")
        yield finding_of(failure("gpu.count", f"torch sees no GPU: {sentence}", means))
        return
    yield finding_of(Check("gpu.count", PASS, ", ".join(gpu["name"] for gpu in gpus)))
    for gpu in gpus:
        yield finding_of(static.arch(Subject.of("cuda", gpu), version, names))


def fault(check_id: str, doing: str, message: str, stage: str) -> Finding:
    """Report an error of torch or of a library below it."""
    text = f"{doing} failed: {faults.one_line(message)}"
    return finding_of(failure(check_id, text, faults.meaning(message, stage)))


def _refused(subject: str, code: int) -> Check:
    name, means = _CODES.get(code, ("an error", _OTHER))
    return failure("nvml", f"{subject}: {name} (NVML {code})", means)


def _memory(gpu: Mapping[str, Any]) -> Check:
    index = gpu["index"]
    if "memory" not in gpu or _mig_is_on(gpu):
        return Check("gpu.memory", SKIP, "NVML does not report its memory", gpu=index)
    used, total = gpu["memory"]["used"], gpu["memory"]["total"]
    by = f"by {len(gpu['processes'])} processes" if gpu.get("processes") else "by no process visible from here"
    text = f"{used / 1e9:.3g} of {total / 1e9:.3g} GB taken, {by}"
    if used <= max(_OWN_BYTES, _OWN_SHARE * total):
        return Check("gpu.memory", PASS, text, gpu=index)
    if used < total / 2:
        return Check("gpu.memory", WARN, text, gpu=index, hint=_USED_BY_OTHERS)
    means = Meaning(faults.ENV, faults.NONE, f"a job here soon runs out of memory; {_USED_BY_OTHERS}")
    return failure("gpu.memory", f"GPU {index}: {text}", means, gpu=index)


def _mig_is_on(gpu: Mapping[str, Any]) -> bool:
    """Return True if MIG is on. A GPU without MIG has no value for it."""
    return bool(gpu.get("mig", {}).get("on"))


def _mig(gpu: Mapping[str, Any]) -> Check:
    index = gpu["index"]
    if not _mig_is_on(gpu):
        return Check("gpu.mig", PASS, "off", gpu=index)
    if slices := gpu["mig"]["slices"]:
        return Check("gpu.mig", PASS, f"on, {len(slices)} slices", gpu=index)
    hint = "CUDA then finds no GPU: create slices (nvidia-smi mig -cgi), request one, or turn MIG off"
    means = Meaning(faults.ENV, faults.FIX_POOL, hint)
    return failure("gpu.mig", f"MIG is on for GPU {index}, but it has no slice here", means, gpu=index)


def _persistence(gpu: Mapping[str, Any]) -> Check:
    index = gpu["index"]
    if "persistence" not in gpu:
        return Check("gpu.persistence", SKIP, "NVML does not report it", gpu=index)
    if gpu["persistence"]:
        return Check("gpu.persistence", PASS, "on", gpu=index)
    hint = "the first process on the GPU waits seconds for the driver to load"
    return Check("gpu.persistence", WARN, "persistence mode is off", gpu=index, hint=hint)
