"""The command `gpu-smoke record`: add the speeds of runs that passed to a file of the user's own measurements."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import output
from .data.gpus import FAIL, WARN
from .errors import UsageError, unwritable
from .history import measurements
from .history import receipts as past
from .history.measurements import Row
from .history.receipts import Run, Speed
from .json_validation import Problem
from .judge.subject import Subject
from .options import Parser
from .reports import files

_HINT = "gpu-smoke --profile standard --json RECEIPT.json, on whole GPUs that nothing else uses"
# Checks that compare the speed of a GPU with a reference. Their warning means that this GPU is slow.
_COMPARED = tuple(f"{what}.{check}" for what in ("gemm", "mem") for check in ("speed", "peers", "history"))
_FLOORS = ("gemm.speed", "mem.speed")
_THROTTLED = ("throttle", "burn")


def main(argv: Sequence[str]) -> int:
    """Record the receipts, or raise UsageError with every reason against it and write nothing."""
    parser = Parser(
        prog="gpu-smoke record",
        usage="gpu-smoke record RECEIPT.json [...] --specs FILE",
        description="Add the speeds of runs that passed to a file of your own measurements.",
        allow_abbrev=True,
    )
    parser.add_argument("receipts", nargs="+", metavar="RECEIPT.json", help="receipts that passed, or folders of them")
    parser.add_argument("--specs", required=True, metavar="FILE", help="the file to add to; created if missing")
    given = parser.parse_args(list(argv))
    new = _record(given.receipts, Path(given.specs))
    for row in new:
        fast = f"{row.median:.4g} {row.unit} ({row.lowest:.4g} to {row.highest:.4g}, {row.samples} samples)"
        what = " ".join(filter(None, (row.device, row.check, row.dtype)))
        output.say(f"gpu-smoke record: {what}: {fast} with driver {row.driver} and torch {row.torch}")
    return 0


def _record(receipts: Sequence[str], file: Path) -> list[Row]:
    runs, wrong = past.runs(receipts)
    try:
        with measurements.locked(file):
            rows, more = measurements.load(file) if file.exists() else ([], [])
            recorded = {digest for row in rows for digest in row.receipts}
            wrong += [problem for run in runs for problem in _refused(run, recorded)] + more
            if not runs and not wrong:
                wrong.append(Problem(", ".join(receipts), "no receipt", "nothing", "at least one", _HINT))
            if wrong:
                raise UsageError("\n".join(map(str, wrong)))
            new = _rows(runs)
            files.write(str(file), measurements.text([*rows, *new]))
    except OSError as error:
        raise unwritable("--specs", str(file), error, "gpu-smoke record") from None
    return new


def _refused(run: Run, recorded: set[str]) -> Iterator[Problem]:
    """Return the reasons why a receipt does not measure the full speed of its GPUs."""

    def problem(path: str, text: str, got: str, expected: str) -> Problem:
        return Problem(f"{run.path}: {path}", text, repr(got), expected, _HINT)

    if run.digest in recorded:
        yield problem("the whole file", "already recorded", run.digest, "a receipt that is not in the file")
    if run.record["device"] != "cuda":
        yield problem("device", "a run on the CPU does not measure a GPU", run.record["device"], "cuda")
    elif run.record["verdict"] != "pass":
        yield problem("verdict", "did not pass", run.record["verdict"], "pass")
    for index, gpu in enumerate(run.record["gpus"]):
        if Subject(gpu["index"], gpu["name"]).slice:
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

    A warning does not count if its floor is theoretical or was measured by one party, because the recorded speeds
    replace such a floor. Such a floor is recognized by the large distance between its two limits.
    """
    if check["id"] not in _COMPARED or "value" not in check:
        return False
    several_parties = check.get("fail_below", 0.0) >= round(FAIL / WARN, 2) * check.get("warn_below", math.inf)
    return several_parties or check["id"] not in _FLOORS


def _rows(runs: Sequence[Run]) -> list[Row]:
    groups: dict[tuple[tuple[str, int, str, str, int], str, str], list[tuple[Run, Speed]]] = {}
    for run in runs:
        for speed in run.speeds:
            groups.setdefault((speed.kind, run.driver, run.torch), []).append((run, speed))
    return [_row(driver, torch, group) for (_, driver, torch), group in groups.items()]


def _row(driver: str, torch: str, group: Sequence[tuple[Run, Speed]]) -> Row:
    values = [speed.value for _, speed in group]
    middle = statistics.median(values)
    watched = all(
        any(c["id"] == "throttle" and c["status"] == "pass" for c in run.record["checks"]) for run, _ in group
    )
    return Row(
        *group[0][1].kind,
        unit=group[0][1].unit,
        median=round(middle, 4),
        lowest=min(values),
        highest=max(values),
        spread=round((max(values) - min(values)) / middle, 4),
        samples=len(values),
        driver=driver,
        torch=torch,
        date=max(run.date for run, _ in group),
        throttle="none" if watched else "unknown",
        receipts=tuple(dict.fromkeys(run.digest for run, _ in group)),
    )
