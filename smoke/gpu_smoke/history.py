"""Receipts of other runs: read, validated, and turned into speeds and products to compare, and into own floors."""

from __future__ import annotations

import hashlib
import json
import math
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from .compat import rules
from .data.gpus import FAIL, WARN
from .options import Options
from .output import UsageError, printable

SCHEMA = "smoke/1"
# The stages whose speeds are compared, with the keys of the speed and of the size, and the unit.
_SPEEDS = {"gemm.speed": ("tflops", "n", "TFLOPS"), "mem.speed": ("gbs", "bytes", "GB/s")}
_HINT = "give receipts that gpu-smoke --json wrote, or a folder of them"
_HINT_SPECS = "gpu-smoke --profile standard --json RECEIPT.json, on whole GPUs that nothing else uses"

# Checks that compare the speed of a GPU with a reference. Their warning means that this GPU is slow.
_COMPARED = tuple(f"{what}.{check}" for what in ("gemm", "mem") for check in ("speed", "peers", "history"))
_FLOORS = ("gemm.speed", "mem.speed")
_THROTTLED = ("throttle", "burn")

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


class OwnSpeed(NamedTuple):
    """The median speed of the user's own GPUs of one model, with one driver and one torch."""

    kind: Kind
    median: float
    samples: int
    date: str
    """The day of the latest run."""


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


@dataclass(frozen=True)
class References:
    """The receipts that the user gives. `earlier` has the runs of --baseline. It is None without the option."""

    earlier: tuple[Run, ...] | None = None
    own: tuple[OwnSpeed, ...] = ()


def references(options: Options) -> References:
    """Read the receipts that the command line names, or raise UsageError with all their errors."""
    earlier, wrong = runs(options.baseline)
    own, more = runs(options.specs)
    wrong += [*more, *(problem for run in own for problem in _refused(run))]
    if options.specs and not own and not wrong:
        wrong.append(Problem(f"--specs: {', '.join(options.specs)}", "no receipt", "nothing", "at least one", _HINT))
    if wrong:
        raise UsageError("\n".join(map(str, wrong)))
    return References(tuple(earlier) if options.baseline else None, own_speeds(own))


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


def own_speeds(own: Sequence[Run]) -> tuple[OwnSpeed, ...]:
    """Return the median of the receipts' speeds for each kind, driver and torch."""
    groups: dict[tuple[Kind, str, str], list[tuple[Run, Speed]]] = {}
    for run in own:
        for speed in run.speeds:
            groups.setdefault((speed.kind, run.driver, run.torch), []).append((run, speed))
    return tuple(
        OwnSpeed(
            kind,
            round(statistics.median(speed.value for _, speed in group), 4),
            len(group),
            max(str(run.record["started"])[:10] for run, _ in group),
        )
        for (kind, _, _), group in groups.items()
    )


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
        texts += [text for check in record["checks"] for text in (check["id"], check["status"])]
        _ = run.driver, run.torch, [run.lanes(gpu["name"]) for gpu in record["gpus"]]
        if not all(isinstance(text, str) for text in texts):
            raise TypeError("a text was expected")
        if not re.match(r"\d{4}-\d\d-\d\dT", record["started"]):
            raise ValueError(f"started: {record['started']!r}")
    except KeyError as error:
        yield Problem(file, "not a complete receipt", f"no field {error}", "every field of a receipt", _HINT)
    except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
        yield Problem(file, "not a receipt of gpu-smoke", repr(str(error)), "the values that gpu-smoke writes", _HINT)


def _refused(run: Run) -> Iterator[Problem]:
    """Return the reasons why a receipt does not measure the full speed of its GPUs."""

    def problem(path: str, text: str, got: str, expected: str) -> Problem:
        return Problem(f"{run.path}: {path}", text, repr(got), expected, _HINT_SPECS)

    if run.record["device"] != "cuda":
        yield problem("device", "a run on the CPU does not measure a GPU", run.record["device"], "cuda")
    elif run.record["verdict"] != "pass":
        yield problem("verdict", "did not pass", run.record["verdict"], "pass")
    for index, gpu in enumerate(run.record["gpus"]):
        if " MIG " in gpu["name"]:
            yield problem(f"gpus[{index}].name", "a MIG slice", gpu["name"], "a whole GPU")
    for index, check in enumerate(run.record["checks"]):
        if check["status"] == "warn" and check["id"] in _THROTTLED:
            yield problem(f"checks[{index}]", "a GPU was throttled", check["id"], "a GPU without throttling")
        elif check["status"] == "warn" and _slow(check):
            yield problem(f"checks[{index}]", "a GPU was slow", check["id"], "a GPU as fast as others of its model")
    if not run.speeds and run.record["device"] == "cuda":
        yield problem("measured", "no speed of a GPU", run.record.get("profile", ""), "the profile standard or burn")
    for name, version in (("host.driver", run.driver), ("torch.version", run.torch)):
        if not version:
            yield problem(name, "missing", version, "its version")


def _slow(check: Mapping[str, Any]) -> bool:
    """Return True if a warning says that a GPU is slow.

    A warning does not count if its floor is theoretical or was measured by one party, because own speeds replace such a
    floor. Such a floor is recognized by the large distance between its two limits.
    """
    if check["id"] not in _COMPARED or "value" not in check:
        return False
    several_parties = check.get("fail_below", 0.0) >= round(FAIL / WARN, 2) * check.get("warn_below", math.inf)
    return several_parties or check["id"] not in _FLOORS
