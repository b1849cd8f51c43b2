"""Environment variables that hide GPUs from CUDA, put other libraries first, or slow torch down."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from .. import faults, machine
from ..checks import PASS, SKIP, WARN, Check, failure
from ..faults import Meaning
from ..judge import static
from ..machine import Installed
from .finding import Finding, finding_of

_HIDDEN = Meaning(faults.ENV, faults.FIX_IMAGE, "CUDA only sees the GPUs before the first unknown name")
_LIBRARY = re.compile(r"lib(cudart|cublas|cudnn|nccl|nvrtc)\.so\.(\d+).*")
# Tools set these and may leave them behind (DCGM's software plugin, bad_env_vars, has these and more).
_TOOLS = {
    "CUDA_INJECTION64_PATH": "a profiler is loaded into every process",
    "CUDA_LAUNCH_BLOCKING": "CUDA waits for every kernel, which is slow",
    "CUDA_ENABLE_COREDUMP_ON_EXCEPTION": "an error writes all GPU memory to the disk",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "every tensor asks the driver for memory, which is slow",
}


def findings(environment: Mapping[str, str], in_container: bool) -> list[Finding]:
    """Check all variables and the installed torch."""
    torch = machine.torch()
    return [
        finding_of(_capabilities(environment.get("NVIDIA_DRIVER_CAPABILITIES"), in_container)),
        finding_of(_visible(environment.get("CUDA_VISIBLE_DEVICES"))),
        finding_of(_library_path(environment, torch)),
        finding_of(_tools(environment)),
        finding_of(_installed(torch)),
        *([finding_of(static.wheel(machine.driver(), torch, machine.compatible()))] if torch.cuda else []),
    ]


def _capabilities(given: str | None, in_container: bool) -> Check:
    if given is None or not in_container:
        return Check("env.capabilities", SKIP, "not set" if given is None else "this is not a container")
    if {"all", "compute"} & set(given.split(",")):
        return Check("env.capabilities", PASS, given)
    hint = "the container toolkit then adds no libcuda.so.1: nvidia-smi works, CUDA does not"
    text = f"NVIDIA_DRIVER_CAPABILITIES is {given!r}, without compute"
    return failure("env.capabilities", text, Meaning(faults.ENV, faults.FIX_IMAGE, hint))


def _visible(given: str | None) -> Check:
    if given is None:
        return Check("env.visible", PASS, "CUDA_VISIBLE_DEVICES is not set")
    names = [name.strip() for name in given.split(",")]
    fact = f"CUDA_VISIBLE_DEVICES is {given!r}"
    gpus = [node for node in machine.nodes() if node[-1].isdigit()]
    for at, name in enumerate(names):
        if name in names[:at]:
            return failure("env.visible", f"{fact}, which names {name} twice: CUDA then sees no GPU", _HIDDEN)
        if gpus and not _names_one(name, len(gpus)):
            visible_gpus = f"the first {at} of them" if at else "no GPU"
            return failure(
                "env.visible", f"{fact}, but {name!r} is not one of {len(gpus)} GPUs: CUDA sees {visible_gpus}", _HIDDEN
            )
    return Check("env.visible", PASS, fact)


def _names_one(name: str, count: int) -> bool:
    """Return True if CUDA may have a GPU with this name.

    MIG slices, and all GPUs if no file lists them, are assumed to exist.
    """
    if re.fullmatch(r"\d+", name):
        return int(name) < count
    if not name.startswith("GPU-"):
        return name.startswith("MIG-")
    known = [uuid for uuid in machine.uuids() if uuid]
    return not known or any(uuid.startswith(name) for uuid in known)


def _library_path(environment: Mapping[str, str], torch: Installed) -> Check:
    folders = [folder for folder in environment.get("LD_LIBRARY_PATH", "").split(":") if folder]
    preload = environment.get("LD_PRELOAD", "")
    for folder in folders:
        if _has(folder, "libcuda.so*") and "stubs" in Path(folder).parts:
            means = Meaning(
                faults.ENV, faults.FIX_IMAGE, "a stub is only for linking, not a driver: remove it from the path"
            )
            return failure("env.library-path", f"LD_LIBRARY_PATH has the stub of libcuda in {folder}", means)
    others = list(_others(folders, torch.cuda.partition(".")[0]))
    hint = "torch has its own CUDA libraries; those of the image break it if they come first: remove them from the path"
    if others:
        return failure("env.library-path", "; ".join(others), Meaning(faults.ENV, faults.FIX_IMAGE, hint))
    if any(_has(folder, "libcuda.so*") and "compat" in Path(folder).parts for folder in folders):
        text = "LD_LIBRARY_PATH has CUDA's compatibility package, which only data center GPUs can use"
        return Check("env.library-path", WARN, text, hint="remove it from the path if cuInit returns 803 or 804")
    if preload:
        return Check(
            "env.library-path", WARN, f"LD_PRELOAD is {preload!r}", hint="it is loaded before every other library"
        )
    with_cuda = [folder for folder in folders if any(_libraries(folder))]
    if with_cuda:
        return Check("env.library-path", WARN, f"CUDA libraries come from {with_cuda[0]} before torch's own", hint=hint)
    return Check("env.library-path", PASS, ":".join(folders) or "LD_LIBRARY_PATH is not set")


def _others(folders: list[str], cuda: str) -> Iterator[str]:
    """Describe libraries of another CUDA version than torch's.

    cuDNN and NCCL are left out, because they have version numbers of their own.
    """
    for folder in folders:
        for file, library, major in _libraries(folder):
            if cuda and library in ("cudart", "cublas", "nvrtc") and major != cuda:
                yield f"LD_LIBRARY_PATH has {file} in {folder}, and torch is for CUDA {cuda}"
                break


def _libraries(folder: str) -> Iterator[tuple[str, str, str]]:
    for name in _names(folder):
        if match := _LIBRARY.fullmatch(name):
            yield name, match[1], match[2]


def _names(folder: str) -> list[str]:
    try:
        return sorted(path.name for path in machine.real(folder).iterdir())
    except OSError:
        return []


def _has(folder: str, pattern: str) -> bool:
    return any(Path(name).match(pattern) for name in _names(folder))


def _tools(environment: Mapping[str, str]) -> Check:
    active = [f"{name}: {effect}" for name, effect in _TOOLS.items() if environment.get(name, "0") not in ("", "0")]
    if active:
        return Check("env.tools", WARN, "; ".join(active), hint="unset those that you do not need")
    return Check("env.tools", PASS, f"none of {len(_TOOLS)} is set")


def _installed(torch: Installed) -> Check:
    if not torch.version:
        hint = "jobs may use another Python: run gpu-smoke with that one"
        return Check("torch.installed", WARN, "this Python has no torch", hint=hint)
    if torch.cuda:
        return Check("torch.installed", PASS, f"torch {torch.version} for CUDA {torch.cuda}")
    means = Meaning(faults.ENV, faults.FIX_IMAGE, "install a torch built for CUDA: its version ends in +cu...")
    return failure("torch.installed", f"torch {torch.version} is built without CUDA, for the CPU only", means)
