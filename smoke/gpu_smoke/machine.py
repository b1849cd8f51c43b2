"""What the kernel and the files of this machine tell, read without touching a driver or torch."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path
from typing import NamedTuple

# Where the machine's own /dev and /proc are, for one who looks from a container that has them mounted elsewhere.
ROOT = "GPU_SMOKE_ROOT"
CGROUP = Path("/sys/fs/cgroup")  # of this process: a container sees its own there
_NODE = re.compile(r"nvidia\d+|nvidiactl|nvidia-uvm")


class Installed(NamedTuple):
    """The torch that an import would find: its version, and the CUDA it is built for (empty: none, or not told)."""

    version: str
    cuda: str


def real(path: str) -> Path:
    """A path of the machine as this process reaches it."""
    return Path(os.environ.get(ROOT) or "/") / path.lstrip("/")


def nodes() -> list[str]:
    """The device nodes of NVIDIA's driver."""
    try:
        names = sorted(path.name for path in real("/dev").iterdir())
    except OSError:
        return []
    return [f"/dev/{name}" for name in names if _NODE.fullmatch(name)]


def windows() -> bool:
    """Whether this is Linux under Windows, whose GPUs have no nodes of their own."""
    return real("/dev/dxg").exists()


def driver() -> str:
    """The kernel driver's version, from its own file; empty where there is none."""
    fields = text("/proc/driver/nvidia/version").split()
    return next((word for word in fields if word[:1].isdigit() and "." in word), "")


def mapped(name: str) -> list[str]:
    """The files of that name which this process has loaded."""
    found = (line.split(maxsplit=5)[-1] for line in text("/proc/self/maps").splitlines() if name in line)
    return list(dict.fromkeys(found))


def compatible() -> bool:
    """Whether a newer CUDA's compatibility package lies here, which lets it run on an older driver."""
    return any(real("/usr/local").glob("cuda*/compat/libcuda.so*"))


def torch() -> Installed:
    """The torch that is installed, without importing it, which may take long or never end."""
    try:
        spec = importlib.util.find_spec("torch")
        folder = next(iter(spec.submodule_search_locations or ()), "") if spec else ""
        source = text(Path(folder, "version.py")) if folder else ""
    except (OSError, ValueError):
        source = ""
    values = dict(re.findall(r"^(__version__|cuda)\b[^=\n]*=\s*['\"]([^'\"]+)['\"]", source, re.MULTILINE))
    return Installed(values.get("__version__") or _distribution("torch"), values.get("cuda", ""))


def _distribution(name: str) -> str:
    """The version of what was installed under that name, or nothing."""
    from importlib import metadata  # it brings the mail package along, which a torch that says its version spares

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def shared_memory() -> int | None:
    """How many bytes /dev/shm can hold."""
    try:
        found = os.statvfs(real("/dev/shm"))  # noqa: S108 - it is asked, not written to
    except OSError:
        return None
    return found.f_blocks * found.f_frsize


def processors() -> int:
    """How many processors this process may use: by its affinity, and by the quota of its cgroup (versions 2 and 1)."""
    usable = len(os.sched_getaffinity(0))
    quota = text(CGROUP / "cpu.max").split() or [
        text(CGROUP / "cpu" / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period")
    ]
    if len(quota) == 2 and all(each.isdigit() for each in quota):  # "max" and -1 are none
        usable = min(usable, int(quota[0]) // int(quota[1]))
    return max(1, usable)


def uuids() -> list[str]:
    """The UUIDs of the GPUs, as the driver's files tell them; none where it hides these."""
    files = sorted(real("/proc/driver/nvidia/gpus").glob("*/information"))
    found = (re.search(r"GPU UUID:\s*(GPU-[0-9a-f-]+)", text(file)) for file in files)
    return [match[1] for match in found if match]


def text(path: str | Path) -> str:
    """What a file has, empty where it cannot be read; a Path is one that this process reaches as it is."""
    try:
        return (real(path) if isinstance(path, str) else path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
