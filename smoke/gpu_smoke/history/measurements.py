"""A file of the user's own measurements, which become floors: its schema, reading and writing."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..json_validation import Problem, read

SCHEMA = "gpu-smoke-specs/1"
_HINT = "gpu-smoke record writes this file; its schema is docs/gpu-smoke-specs.schema.json"


class Row(NamedTuple):
    """The speed of one model with one driver and one torch, over all receipts that were recorded together."""

    device: str
    sm: int
    check: str
    dtype: str
    size: int
    unit: str
    median: float
    lowest: float
    highest: float
    spread: float
    samples: int
    driver: str
    torch: str
    date: str
    throttle: str
    receipts: tuple[str, ...]


_TEXT, _ABOVE_ZERO = {"type": "string", "pattern": "."}, {"type": "number", "exclusiveMinimum": 0}
_FIELDS: dict[str, tuple[str, dict[str, Any]]] = {
    "device": ("the GPU's name, as CUDA has it", _TEXT),
    "sm": ("number of multiprocessors of the GPU", _ABOVE_ZERO),
    "check": ("the check whose floor this row replaces", {"type": "string", "enum": ["gemm.speed", "mem.speed"]}),
    "dtype": ("the format of the numbers; empty for copies", {"type": "string"}),
    "size": ("n of n x n matrices; bytes of a copy", _ABOVE_ZERO),
    "unit": ("unit of median, lowest and highest", {"type": "string", "enum": ["TFLOPS", "GB/s"]}),
    "median": ("median speed of all samples", _ABOVE_ZERO),
    "lowest": ("lowest speed of all samples", _ABOVE_ZERO),
    "highest": ("highest speed of all samples", _ABOVE_ZERO),
    "spread": ("highest minus lowest, as a share of the median", {"type": "number"}),
    "samples": ("number of samples: one for each GPU of each receipt", _ABOVE_ZERO),
    "driver": ("version of the driver", _TEXT),
    "torch": ("version of torch", _TEXT),
    "date": ("day of the latest run", {"type": "string", "pattern": r"^\d{4}-\d\d-\d\d$"}),
    "throttle": (
        "none if every run monitored the clocks and saw no throttling, otherwise unknown",
        {"type": "string", "enum": ["none", "unknown"]},
    ),
    "receipts": (
        "digests of the receipts, so that no receipt is counted twice",
        {"type": "array", "items": {"type": "string", "pattern": "^[0-9a-f]{16}$"}},
    ),
}
FILE: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Speeds that were measured on the user's own GPUs, for gpu-smoke --specs",
    "type": "object",
    "properties": {
        "schema": {"type": "string", "enum": [SCHEMA]},
        "rows": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {name: {"description": text, **kind} for name, (text, kind) in _FIELDS.items()},
                "required": [*_FIELDS],
                "additionalProperties": False,
            },
        },
    },
    "required": ["schema", "rows"],
    "additionalProperties": False,
}


def load(path: Path) -> tuple[list[Row], list[Problem]]:
    """Return the rows of a file and its errors."""
    value, wrong = read(path, FILE, _HINT)
    rows = [] if wrong else [Row(**{**row, "receipts": tuple(row["receipts"])}) for row in value["rows"]]
    return rows, wrong


def text(rows: Sequence[Row]) -> str:
    """Return the content of a file with these rows."""
    return json.dumps({"schema": SCHEMA, "rows": [row._asdict() for row in rows]}, indent=2, allow_nan=False) + "\n"


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock the folder of the file, so that two concurrent writers do not overwrite the rows of each other."""
    folder = os.open(Path(os.path.realpath(path)).parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)
