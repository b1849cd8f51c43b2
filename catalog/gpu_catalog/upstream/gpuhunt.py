"""Reads the table of NVIDIA GPUs in the package gpuhunt: memory and compute capability by name."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from typing import Any

from gpu_catalog.upstream import UpstreamError, folder

TABLE = "KNOWN_NVIDIA_GPUS"


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU. A name with two memory sizes (A100, V100) has two entries."""

    name: str
    memory_gib: int
    compute_capability: str


@cache
def gpus() -> dict[tuple[str, int], Gpu]:
    """Return the GPUs by name and memory."""
    path = folder("gpuhunt", "gpuhunt") / "_internal" / "constraints.py"
    return parse(path.read_text(encoding="utf-8"))


def parse(source: str) -> dict[tuple[str, int], Gpu]:
    """Read the table from the module's text: importing it takes 0.4 s, and loads an HTTP client."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == TABLE:
            found = [_gpu(each) for each in getattr(node.value, "elts", [])]
            return {(gpu.name, gpu.memory_gib): gpu for gpu in found}
    raise UpstreamError(f"gpuhunt: {TABLE}: missing\n  hint: gpuhunt has changed; pin the version in pyproject.toml")


def _gpu(node: ast.expr) -> Gpu:
    if not isinstance(node, ast.Call):
        raise UpstreamError(f"gpuhunt: {TABLE}: line {node.lineno}: is not the call of a class")
    given: dict[str, Any] = {word.arg: ast.literal_eval(word.value) for word in node.keywords if word.arg}
    return Gpu(given["name"], given["memory"], ".".join(map(str, given["compute_capability"])))
