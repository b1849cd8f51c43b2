"""The smoke check as one file that Python runs, for machines and containers that have nothing of this package."""

from __future__ import annotations

import base64
import importlib.util
import io
import zipfile
from functools import cache
from pathlib import Path

from .errors import ArgsError, Problem


@cache
def smoke_archive() -> str:
    """The smoke check as a zip in base64: the same bytes for the same sources, on every machine and day."""
    spec = importlib.util.find_spec("gpu_smoke")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    if not folders:
        text = "the gpu_smoke package is not installed beside gpu_ci"
        raise ArgsError("gpu-ci", [Problem("", text, hint="install the gpu-ci distribution, which brings both")])
    return base64.b64encode(pack(Path(folders[0]))).decode()


def pack(folder: Path) -> bytes:
    """The folder as a zip that Python runs, code and data. Times and modes are fixed, so content alone counts."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(
            archive,
            "__main__.py",
            f"import runpy\nrunpy.run_module({folder.name!r}, run_name='__main__', alter_sys=True)\n",
        )
        for file in sorted(file for file in folder.rglob("*") if file.suffix in (".py", ".json")):
            _add(archive, f"{folder.name}/{file.relative_to(folder).as_posix()}", file.read_text(encoding="utf-8"))
    return buffer.getvalue()


def _add(archive: zipfile.ZipFile, name: str, text: str) -> None:
    entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system = 3  # the same on Windows
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, text)
