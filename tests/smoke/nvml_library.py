"""The fake libnvidia-ml.so.1: compiled here, with answers that a test gives."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .paths import FAKES

HEALTHY: dict[str, Any] = json.loads((FAKES / "healthy_gpu.json").read_text())


def compile_library(folder: Path, *flags: str) -> Path:
    """Return the folder with the compiled library."""
    library = folder / "libnvidia-ml.so.1"
    command = ["cc", "-shared", "-fPIC", "-Wall", "-Werror", *flags, "-o", library, FAKES / "libnvidia-ml.c"]
    subprocess.run(command, check=True, timeout=60)
    return folder


def variables(folder: Path, nvml: dict[str, Any]) -> dict[str, str]:
    """Return the environment in which the library is found, and gives the answers of FAKE_NVML."""
    gpus = [{**HEALTHY, "uuid": f"GPU-0000-{index}", **told} for index, told in enumerate(nvml.get("gpus", [{}]))]
    lines = [*_lines("", {**nvml, "gpus": len(gpus)}), *_lines("", dict(enumerate(gpus)))]
    return {"LD_LIBRARY_PATH": str(folder), "FAKE_NVML_LIBRARY": "\n".join(lines)}


def _lines(name: str, value: Any) -> Iterator[str]:
    """Return `name=value`; for a list also its length."""
    if isinstance(value, dict | list):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        for key, part in parts:
            yield from _lines(f"{name}.{key}" if name else str(key), part)
    if not isinstance(value, dict):
        yield f"{name}={len(value) if isinstance(value, list) else value}"
