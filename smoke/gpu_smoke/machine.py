"""Facts about this machine from the kernel and from files, without any call to a driver or torch."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path
from typing import NamedTuple

# The variable with the folder of the machine's /dev and /proc, for a container that has them mounted elsewhere.
ROOT = "GPU_SMOKE_ROOT"
CGROUP = Path("/sys/fs/cgroup")  # in a container, the cgroup of the container
_NODE = re.compile(r"nvidia\d+|nvidiactl|nvidia-uvm")


class Installed(NamedTuple):
    """The torch that an import would find: its version and its CUDA.

    The CUDA is empty for the CPU, or if it is unknown.
    """

    version: str
    cuda: str


def real(path: str) -> Path:
    """Return the path at which this process finds a path of the machine."""
    return Path(os.environ.get(ROOT) or "/") / path.lstrip("/")


def nodes() -> list[str]:
    """Return the device nodes of NVIDIA's driver."""
    try:
        names = sorted(path.name for path in real("/dev").iterdir())
    except OSError:
        return []
    return [f"/dev/{name}" for name in names if _NODE.fullmatch(name)]


def windows() -> bool:
    """Return True on Linux under Windows, where GPUs have no device nodes."""
    return real("/dev/dxg").exists()


def driver() -> str:
    """Return the kernel driver's version from its own file; empty if there is no such file."""
    fields = text("/proc/driver/nvidia/version").split()
    return next((word for word in fields if word[:1].isdigit() and "." in word), "")


def mapped(name: str) -> list[str]:
    """Return the files with that name that this process has loaded."""
    found = (line.split(maxsplit=5)[-1] for line in text("/proc/self/maps").splitlines() if name in line)
    return list(dict.fromkeys(found))


def compatible() -> bool:
    """Return True if CUDA's compatibility package is installed.

    With this package, a newer CUDA runs on an older driver.
    """
    return any(real("/usr/local").glob("cuda*/compat/libcuda.so*"))


def torch() -> Installed:
    """Find the installed torch without importing it: an import may be slow or never end."""
    try:
        spec = importlib.util.find_spec("torch")
        folder = next(iter(spec.submodule_search_locations or ()), "") if spec else ""
        source = text(Path(folder, "version.py")) if folder else ""
    except (OSError, ValueError):
        source = ""
    values = dict(re.findall(r"^(__version__|cuda)\b[^=\n]*=\s*['\"]([^'\"]+)['\"]", source, re.MULTILINE))
    return Installed(values.get("__version__") or _distribution("torch"), values.get("cuda", ""))


def _distribution(name: str) -> str:
    """Return the version of an installed distribution; empty if it is not installed."""
    from importlib import metadata  # imports the email package, so it is only loaded if torch has no version file

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def shared_memory() -> int | None:
    """Return the size of /dev/shm in bytes; None if it does not exist."""
    try:
        found = os.statvfs(real("/dev/shm"))  # noqa: S108 - it is asked, not written to
    except OSError:
        return None
    return found.f_blocks * found.f_frsize


def processors() -> int:
    """Return the number of processors that this process may use, by affinity and by cgroup quota (versions 1 and 2)."""
    usable = len(os.sched_getaffinity(0))
    quota = text(CGROUP / "cpu.max").split() or [
        text(CGROUP / "cpu" / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period")
    ]
    if len(quota) == 2 and all(each.isdigit() for each in quota):  # "max" and -1 mean no quota
        usable = min(usable, int(quota[0]) // int(quota[1]))
    return max(1, usable)


def uuids() -> list[str]:
    """Return the UUIDs of the GPUs from the driver's files; empty if the driver hides them."""
    files = sorted(real("/proc/driver/nvidia/gpus").glob("*/information"))
    found = (re.search(r"GPU UUID:\s*(GPU-[0-9a-f-]+)", text(file)) for file in files)
    return [match[1] for match in found if match]


def text(path: str | Path) -> str:
    """Return the content of a file; empty if it cannot be read.

    A str is a path of the machine, a Path is used as it is.
    """
    try:
        return (real(path) if isinstance(path, str) else path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
