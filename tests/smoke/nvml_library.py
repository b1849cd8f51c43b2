"""The stand-in for libnvidia-ml.so.1: compiled, and told what to answer."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .paths import FAKES

HEALTHY: dict[str, Any] = json.loads((FAKES / "healthy_gpu.json").read_text())


def compile_library(folder: Path, *flags: str) -> Path:
    """The folder, with the library in it."""
    library = folder / "libnvidia-ml.so.1"
    command = ["cc", "-shared", "-fPIC", "-Wall", "-Werror", *flags, "-o", library, FAKES / "libnvidia-ml.c"]
    subprocess.run(command, check=True, timeout=60)
    return folder


def variables(folder: Path, nvml: dict[str, Any]) -> dict[str, str]:
    """The environment in which the library is found, and answers what FAKE_NVML would have nvidia-ml-py's stand-in."""
    gpus = [{**HEALTHY, "uuid": f"GPU-0000-{index}", **told} for index, told in enumerate(nvml.get("gpus", [{}]))]
    lines = [*_lines("", {**nvml, "gpus": len(gpus)}), *_lines("", dict(enumerate(gpus)))]
    return {"LD_LIBRARY_PATH": str(folder), "FAKE_NVML_LIBRARY": "\n".join(lines)}


def _lines(name: str, value: Any) -> Iterator[str]:
    """`name=value`; of a list also how long it is."""
    if isinstance(value, dict | list):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        for key, part in parts:
            yield from _lines(f"{name}.{key}" if name else str(key), part)
    if not isinstance(value, dict):
        yield f"{name}={len(value) if isinstance(value, list) else value}"
