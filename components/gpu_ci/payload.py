"""The smoke check and the boot agent, each as one file that Python runs where nothing of this package is."""

from __future__ import annotations

import base64
import importlib.util
import io
import zipfile
from functools import cache
from pathlib import Path

from .errors import ArgsError, Problem


def smoke_archive() -> str:
    """The smoke check as a zip in base64: the same bytes for the same sources, on every machine and day."""
    return _archive("gpu_smoke")


def agent_archive() -> str:
    """What a machine runs at boot, in the same form."""
    return _archive("gpu_agent")


@cache
def _archive(package: str) -> str:
    spec = importlib.util.find_spec(package)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    if not folders:
        text = f"the {package} package is not installed beside gpu_ci"
        raise ArgsError("gpu-ci", [Problem("", text, hint="install the gpu-ci distribution, which brings it")])
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
