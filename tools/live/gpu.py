"""`make test-gpu`: run gpu-smoke's profiles on the GPUs of this machine, and compare their times with the budgets.

    GPU_CI_CONFIRM=gpu make test-gpu                     one GPU, torch from .venv-torch
    GPU_CI_CONFIRM=gpu GPU_CI_GPUS=8 make test-gpu       eight of them

Nothing is created. The GPUs are busy for some minutes, which disturbs other programs on them. The receipts go to
bench/results/receipts, to be kept with a page that says which machine they are of.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.live import RefusedError, require

ROOT = Path(__file__).resolve().parents[2]
RECEIPTS = ROOT / "bench" / "results" / "receipts"
BURN_SEC = 30


@dataclass(frozen=True)
class Run:
    """One run of the check, with its time budget and its expected exit code."""

    name: str
    arguments: tuple[str, ...]
    budget_sec: float
    """Seconds that one GPU may take once torch is loaded (docs/how-it-works/gpu-checks.md)."""
    exit_code: int = 0


RUNS = (
    Run("quick-first", ("--profile", "quick"), 120),
    Run("quick", ("--profile", "quick"), 15),
    Run("standard", ("--profile", "standard"), 60),
    Run("standard-again", ("--profile", "standard"), 60),
    Run("burn", ("--profile", "burn", "--burn-sec", str(BURN_SEC)), 60 + BURN_SEC),
    # Proves that the check can fail: no machine has this many GPUs.
    Run("too-many-expected", ("--profile", "quick", "--expect-gpus", "64"), 15, exit_code=2),
)


def check(run: Run, command: Sequence[str], gpus: int, receipts: Path, environment: Mapping[str, str]) -> list[str]:
    """Run the check once, keep its receipt, and return every problem."""
    file = receipts / f"{run.name}.json"
    file.unlink(missing_ok=True)
    expected = [] if "--expect-gpus" in run.arguments else ["--expect-gpus", str(gpus)]
    began = time.monotonic()
    ended = subprocess.run(
        [*command, *run.arguments, *expected, "--json", str(file)], check=False, capture_output=True, text=True,
        env=dict(environment),
    )  # fmt: skip
    seconds = time.monotonic() - began
    if not file.is_file():
        last = (ended.stderr.strip().splitlines() or ["no output"])[-1]
        return [f"wrote no receipt, and exits with {ended.returncode}: {last}"]
    receipt = json.loads(file.read_text())
    code = f"exit code {ended.returncode}{', as this run has to' if ended.returncode == run.exit_code != 0 else ''}"
    print(f"test-gpu: {run.name}: {code}, {seconds:.1f} s: {receipt['summary']}", flush=True)
    return problems(run, ended.returncode, receipt, gpus)


def problems(run: Run, exit_code: int, receipt: Mapping[str, Any], gpus: int) -> list[str]:
    """Find the problems of a run in its exit code and its receipt."""
    found = []
    if exit_code != run.exit_code:
        found.append(f"exit code {exit_code}, expected {run.exit_code}: {receipt['summary']}")
    elif run.exit_code == 0:
        if receipt["device"] != "cuda" or len(receipt["gpus"]) != gpus:
            found.append(f"checked {len(receipt['gpus'])} GPUs on {receipt['device']}, expected {gpus} on cuda")
        if gpus == 1 and receipt["seconds"] > run.budget_sec:
            found.append(f"took {receipt['seconds']:.1f} s, expected at most {run.budget_sec:g} s")
    return found


def same_products(receipts: Path) -> list[str]:
    """Return a problem if two runs of one profile on one machine did not compute the same bits."""
    first, second = (json.loads((receipts / f"{name}.json").read_text()) for name in ("standard", "standard-again"))
    hashes = [
        {(each["gpu"], each["dtype"]): each["hash"] for each in receipt["products"]} for receipt in (first, second)
    ]
    if not hashes[0]:
        return ["the receipts have no products"]
    return [] if hashes[0] == hashes[1] else [f"products differ between two runs: {hashes[0]} and {hashes[1]}"]


def main(environment: Mapping[str, str] = os.environ, command: Sequence[str] = (), receipts: Path = RECEIPTS) -> int:
    """Run the check several times. Return 0 if every run is as expected, 1 if one is not, or 2 if none was started."""
    number = environment.get("GPU_CI_GPUS", "1")
    print(f"test-gpu: {len(RUNS)} runs of gpu-smoke, some minutes; nothing is created or paid for here")
    try:
        if not number.isdecimal() or not int(number):
            raise RefusedError(f"GPU_CI_GPUS is not a number of GPUs\n  got: {number}\n  expected: 1 or more")
        require("gpu", environment)
    except RefusedError as error:
        print(f"test-gpu: {error}", file=sys.stderr)
        return 2
    gpus = int(number)
    receipts.mkdir(parents=True, exist_ok=True)
    command = command or [str(ROOT / ".venv-torch" / "bin" / "python"), "-m", "gpu_smoke"]
    began = time.monotonic()
    first, *others = RUNS
    problems_of = {first.name: check(first, command, gpus, receipts, environment)}
    if not problems_of[first.name]:  # the others would fail for the same reason
        problems_of |= {run.name: check(run, command, gpus, receipts, environment) for run in others}
    if len(problems_of) == len(RUNS) and not any(problems_of[name] for name in ("standard", "standard-again")):
        problems_of["same products"] = same_products(receipts)
    for name, found in problems_of.items():
        for problem in found:
            print(f"test-gpu: {name}: {problem}", file=sys.stderr)
    if problems_of[first.name]:
        print(f"  not run: {', '.join(run.name for run in others)}", file=sys.stderr)
        print(f"  hint: find the cause with {shlex.join([*command, 'diagnose'])}", file=sys.stderr)
    print(f"test-gpu: {(time.monotonic() - began) / 60:.1f} minutes of {gpus} GPU; receipts in {receipts}")
    return int(any(problems_of.values()))


if __name__ == "__main__":
    sys.exit(main())
