"""Receipts of other runs: read, validated, and turned into speeds and products to compare."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..compat import rules
from ..json_validation import Problem, read

SCHEMA = "smoke/1"
# The stages whose speeds are compared, with the keys of the speed and of the size, and the unit.
_SPEEDS = {"gemm.speed": ("tflops", "n", "TFLOPS"), "mem.speed": ("gbs", "bytes", "GB/s")}
_HINT = "give receipts that gpu-smoke --json wrote, or a folder of them"

_TEXT, _NUMBER, _INDEX = {"type": "string"}, {"type": "number"}, {"type": ["number", "null"]}


def _objects(**properties: Any) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "object", "properties": properties, "required": [*properties]}}


# Only the fields that this module reads: a receipt of a later version may have more.
_NEEDED: dict[str, Any] = {
    "schema": {"type": "string", "enum": [SCHEMA]},
    "verdict": _TEXT,
    "device": _TEXT,
    "started": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT"},
    "host": {"type": "object", "properties": {"driver": _TEXT}},
    "torch": {"type": "object", "properties": {"version": _TEXT, "cuda": {"type": ["string", "null"]}}},
    "gpus": _objects(index=_NUMBER, name=_TEXT, uuid=_TEXT, sm=_NUMBER),
    "products": _objects(gpu=_INDEX, dtype=_TEXT, n=_NUMBER, hash=_TEXT),
    "measured": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"stage": _TEXT, "gpu": _INDEX, "dtype": _TEXT, **dict.fromkeys(("n", "bytes"), _NUMBER)}
            | dict.fromkeys(("tflops", "gbs", "width"), _NUMBER),
            "required": ["stage", "gpu"],
        },
    },
    "checks": _objects(id=_TEXT, status=_TEXT),
}
_RECEIPT = {"type": "object", "properties": _NEEDED, "required": [*_NEEDED]}


class Speed(NamedTuple):
    """A speed of one GPU. Two with the same `kind` can be compared."""

    gpu: int
    kind: tuple[str, int, str, str, int]  # the GPU's name and multiprocessors, the check, the format, the size
    value: float
    unit: str


class Product(NamedTuple):
    """The bits of one GPU's product. `kind` is that of Speed; `gpu_id` identifies the GPU across machines and runs."""

    gpu: int
    kind: tuple[str, int, str, str, int]
    gpu_id: str
    bits: str


@dataclass(frozen=True)
class Run:
    """A run, as its receipt describes it."""

    path: str
    record: Mapping[str, Any]

    @property
    def passed(self) -> bool:
        """True if the run passed on GPUs. A run on the CPU tests no GPU."""
        return bool(self.record["verdict"] == "pass" and self.record["device"] == "cuda")

    @property
    def driver(self) -> str:
        """The driver's version; empty if the receipt does not have it."""
        return str(self.record["host"].get("driver", ""))

    @property
    def torch(self) -> str:
        """The version of torch; empty if the receipt does not have it."""
        return str(self.record["torch"].get("version", ""))

    @property
    def date(self) -> str:
        """The day on which the run started."""
        return str(self.record["started"])[:10]

    @property
    def software(self) -> tuple[str, int | None]:
        """The software that determines speeds: the major of torch's CUDA, and the driver's branch."""
        try:
            branch = rules.branch_of(self.driver)
        except ValueError:
            branch = None
        return str(self.record["torch"].get("cuda") or "").partition(".")[0], branch

    @property
    def digest(self) -> str:
        """A digest that identifies the receipt, independent of its formatting."""
        return hashlib.sha256(json.dumps(self.record, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def speeds(self) -> list[Speed]:
        """All measured speeds of GPUs."""
        found, gpus = [], self._gpus()
        for each in self.record["measured"]:
            gpu, (speed, size, unit) = gpus.get(each["gpu"]), _SPEEDS.get(each["stage"], ("", "", ""))
            if gpu and each.get(speed):
                kind = (gpu["name"], gpu["sm"], each["stage"], each.get("dtype", ""), each.get(size, 0))
                found.append(Speed(gpu["index"], kind, each[speed], unit))
        return found

    @property
    def products(self) -> list[Product]:
        """The product of every GPU in every format."""
        found, gpus = [], self._gpus()
        for each in self.record["products"]:
            if gpu := gpus.get(each["gpu"]):
                kind = (gpu["name"], gpu["sm"], "gemm", each["dtype"], each["n"])
                gpu_id = gpu["uuid"] or f"{self.digest}:{gpu['index']}"
                found.append(Product(gpu["index"], kind, gpu_id, each["hash"]))
        return found

    def lanes(self, name: str) -> list[int]:
        """Return the number of PCIe lanes under load for each GPU of a model, if NVML reported it."""
        gpus = self._gpus()
        with_width = [each for each in self.record["measured"] if each["stage"] == "nvml" and each.get("width")]
        return [each["width"] for each in with_width if gpus.get(each["gpu"], {}).get("name") == name]

    def _gpus(self) -> dict[Any, Mapping[str, Any]]:
        return {gpu["index"]: gpu for gpu in self.record["gpus"]}


def runs(paths: Sequence[str]) -> tuple[list[Run], list[Problem]]:
    """Return the distinct receipts in files and folders, and the errors of those that are not valid."""
    found: dict[str, Run] = {}
    wrong: list[Problem] = []
    for file in _files(paths):
        record, problems = read(file, _RECEIPT, _HINT)
        wrong += problems
        if not problems:
            run = Run(str(file), record)
            found.setdefault(run.digest, run)
    return [*found.values()], wrong


def _files(paths: Sequence[str]) -> list[Path]:
    """Return the files to read. Of a folder these are the names that end in .json."""
    given = [Path(path) for path in paths]
    return [file for path in given for file in (sorted(path.glob("*.json")) if path.is_dir() else [path])]
