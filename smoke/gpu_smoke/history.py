"""Receipts of earlier runs: read, validated, and turned into speeds and products to compare."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from .compat import rules
from .options import Options
from .output import UsageError, printable

SCHEMA = "smoke/1"
# The stages whose speeds are compared, with the keys of the speed and of the size, and the unit.
_SPEEDS = {"gemm.speed": ("tflops", "n", "TFLOPS"), "mem.speed": ("gbs", "bytes", "GB/s")}
_HINT = "give receipts that gpu-smoke --json wrote, or a folder of them"

Kind = tuple[str, int, str, str, int]
"""The GPU's name and multiprocessors, the check, the format and the size. Values of one kind can be compared."""


class Problem(NamedTuple):
    """One error in a file, in the form that every error of this project has."""

    subject: str
    problem: str
    got: str
    expected: str
    hint: str

    def __str__(self) -> str:
        details = f"  got: {self.got}\n  expected: {self.expected}\n  hint: {self.hint}"
        return f"{printable(self.subject)}: {self.problem}\n{details}"


class Speed(NamedTuple):
    """A speed of one GPU."""

    gpu: int
    kind: Kind
    value: float
    unit: str


class Product(NamedTuple):
    """The bits of one GPU's product. `gpu_id` identifies the GPU across machines and runs."""

    gpu: int
    kind: Kind
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
                kind = (gpu["name"], int(gpu["sm"]), each["stage"], each.get("dtype", ""), int(each.get(size, 0)))
                found.append(Speed(gpu["index"], kind, float(each[speed]), unit))
        return found

    @property
    def products(self) -> list[Product]:
        """The product of every GPU in every format."""
        found, gpus = [], self._gpus()
        for each in self.record["products"]:
            if gpu := gpus.get(each["gpu"]):
                kind = (gpu["name"], int(gpu["sm"]), "gemm", each["dtype"], int(each["n"]))
                gpu_id = gpu["uuid"] or f"{self.digest}:{gpu['index']}"
                found.append(Product(gpu["index"], kind, gpu_id, each["hash"]))
        return found

    def lanes(self, name: str) -> list[int]:
        """Return the number of PCIe lanes under load for each GPU of a model, if NVML reported it."""
        gpus = self._gpus()
        with_width = [each for each in self.record["measured"] if each["stage"] == "nvml" and each.get("width")]
        return [int(each["width"]) for each in with_width if gpus.get(each["gpu"], {}).get("name") == name]

    def _gpus(self) -> dict[Any, Mapping[str, Any]]:
        return {gpu["index"]: gpu for gpu in self.record["gpus"]}


def earlier_runs(options: Options) -> tuple[Run, ...] | None:
    """Read the receipts of --baseline, or raise UsageError with all their errors. None without the option."""
    found, wrong = runs(options.baseline)
    if wrong:
        raise UsageError("\n".join(map(str, wrong)))
    return tuple(found) if options.baseline else None


def runs(paths: Sequence[str]) -> tuple[list[Run], list[Problem]]:
    """Return the distinct receipts in files and folders, and the errors of those that are not valid."""
    found: dict[str, Run] = {}
    wrong: list[Problem] = []
    for file in _files(paths):
        try:
            record = json.loads(file.read_text(encoding="utf-8"), parse_constant=_refuse_constant)
        except OSError as error:
            wrong.append(Problem(str(file), "cannot be read", str(error.strerror), "an existing file", _HINT))
        except (ValueError, RecursionError) as error:
            wrong.append(Problem(str(file), "not JSON", repr(str(error)[:200]), "JSON in UTF-8", _HINT))
        else:
            problems = list(_problems(str(file), record))
            wrong += problems
            if not problems:
                run = Run(str(file), record)
                found.setdefault(run.digest, run)
    return [*found.values()], wrong


def _files(paths: Sequence[str]) -> list[Path]:
    """Return the files to read. Of a folder these are the names that end in .json."""
    given = [Path(path) for path in paths]
    return [file for path in given for file in (sorted(path.glob("*.json")) if path.is_dir() else [path])]


def _refuse_constant(constant: str) -> float:
    raise ValueError(f"{constant} is not a JSON number")


def _problems(file: str, record: Any) -> Iterator[Problem]:
    """Return the reason why a file is no receipt. A receipt of a later version may have more fields."""
    if not isinstance(record, dict) or record.get("schema") != SCHEMA:
        got = repr(record.get("schema") if isinstance(record, dict) else record)[:80]
        yield Problem(file, "not a receipt of gpu-smoke", got, f"the schema {SCHEMA!r}", _HINT)
        return
    run = Run(file, record)
    try:
        texts = [
            record["verdict"],
            record["device"],
            *(gpu[name] for gpu in record["gpus"] for name in ("name", "uuid")),
        ]
        texts += [each.kind[2] for each in run.speeds] + [each.bits for each in run.products]
        _ = run.driver, run.torch, [run.lanes(gpu["name"]) for gpu in record["gpus"]]
        if not all(isinstance(text, str) for text in texts):
            raise TypeError("a text was expected")
        if not re.match(r"\d{4}-\d\d-\d\dT", record["started"]):
            raise ValueError(f"started: {record['started']!r}")
    except KeyError as error:
        yield Problem(file, "not a complete receipt", f"no field {error}", "every field of a receipt", _HINT)
    except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
        yield Problem(file, "not a receipt of gpu-smoke", repr(str(error)), "the values that gpu-smoke writes", _HINT)
