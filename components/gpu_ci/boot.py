"""What a GPU machine is given to boot with: one script, and the smoke check packed into its metadata."""

from __future__ import annotations

import base64
import importlib.util
import io
import zipfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from . import versions
from .errors import ArgsError, Problem

if TYPE_CHECKING:
    from gpu_catalog import Machine

# Google's limit on one metadata value: 262,144 bytes (cloud.google.com/compute/docs/metadata/setting-custom-metadata).
METADATA_VALUE_LIMIT = 262_144

# What is left of the gate's deadline for a machine to boot and for its verdict to arrive, in seconds.
_OVERHEAD_SEC = 60


def metadata(pool: str, machine: Machine, deadline_sec: int) -> dict[str, str]:
    """Metadata that makes a machine check its GPU at boot and say what it found."""
    expectations = (
        ("--pool", pool),
        ("--expect-gpus", f"{machine.gpu_count:g}"),
        ("--expect-gpu", machine.gpu.device_name),
        ("--min-compute-capability", machine.gpu.compute_capability),
    )
    return {
        "enable-guest-attributes": "TRUE",
        "startup-script": script(),
        "gpu-smoke-pyz": payload(),
        "gpu-smoke-args": "\n".join(word for pair in expectations for word in pair),
        "gpu-smoke-deadline-sec": str(max(deadline_sec - _OVERHEAD_SEC, 60)),
        "gpu-smoke-torch": versions.TORCH,
    }


@cache
def script() -> str:
    """The boot script, as it is in gcp/boot.sh."""
    return Path(__file__).parent.joinpath("gcp", "boot.sh").read_text(encoding="utf-8")


@cache
def payload() -> str:
    """The smoke check as a zip in base64: the same bytes for the same sources, on every machine and day."""
    spec = importlib.util.find_spec("gpu_smoke")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    if not folders:
        text = "the gpu_smoke package is not installed beside gpu_ci"
        raise ArgsError("gpu-ci", [Problem("", text, hint="install the gpu-ci distribution, which brings both")])
    return base64.b64encode(pack(Path(folders[0]))).decode()


def pack(folder: Path) -> bytes:
    """The folder's Python files as a zip that Python runs. Times and modes are fixed, so nothing but content counts."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(
            archive,
            "__main__.py",
            f"import runpy\nrunpy.run_module({folder.name!r}, run_name='__main__', alter_sys=True)\n",
        )
        for file in sorted(folder.rglob("*.py")):
            _add(archive, f"{folder.name}/{file.relative_to(folder).as_posix()}", file.read_text(encoding="utf-8"))
    return buffer.getvalue()


def _add(archive: zipfile.ZipFile, name: str, text: str) -> None:
    entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system = 3  # the same on Windows
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, text)
