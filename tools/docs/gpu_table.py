"""Writes smoke/gpu_smoke/data/gpu_table.py: facts about GPUs, from the data files of the catalog.

gpu-smoke runs with the standard library alone, without the catalog, so it needs the facts as Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpu_catalog import data_files

_HEAD = '''\
"""Names, sizes and published speeds of GPU models. Generated from the catalog's gpu_speeds.json and gpus.json.

`make docs` writes this file; a test fails if it is not current. gpus.py explains the fields.
"""

from __future__ import annotations

Facts = tuple[tuple[str, ...], str, int, int, str, int, float | None]
Figures = tuple[tuple[float, str, str, int], ...]

# fmt: off'''


def module() -> Iterator[str]:
    """Return the lines of the module."""
    document = data_files.document("gpu_speeds")
    cards = {row["key"]: row for row in data_files.rows("gpus")}
    yield _HEAD
    yield "# CUDA's names, capability, multiprocessors, memory in GB, timed format and size, host floor in GB/s;"
    yield "# then TFLOPS and GB/s, each with its source, format and size."
    yield "ROWS: dict[str, tuple[Facts, Figures, Figures]] = {"
    for row in document["rows"]:
        card: dict[str, Any] = cards.get(row.get("gpu"), {})
        capability = row.get("compute_capability") or card["compute_capability"]
        memory = row.get("memory_gb") or card["memory_gib"]
        names = "".join(f"{_text(name)}, " for name in row["names"]).rstrip()
        timed = f"{_text(row['dtype'])}, {row['n']}, {row.get('host')}"
        yield f"    {_text(row['key'])}: ((({names}), {_text(capability)}, {row['sm']}, {memory}, {timed}),"
        yield f"        ({_figures(row['products'])}),"
        yield f"        ({_figures(row['copies'])})),"
    yield "}"
    yield ""


def _figures(figures: list[list[Any]]) -> str:
    padded = ([*figure, "", 0][:4] if len(figure) == 2 else figure for figure in figures)
    return "".join(
        f"({value!r}, {_text(source)}, {_text(dtype)}, {n}), " for value, source, dtype, n in padded
    ).rstrip()


def _text(text: str) -> str:
    return f'"{text}"'
