"""Measure `gpu-ci cost report` on 10,000 records: `make bench ARGS="--only cost-report"`."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.gpu_ci.cli.cost.simulated import BEGIN, machines, records

_RECORDS = 10_000


def bench_cost_report(rounds: int, console: Console) -> None:
    """Measure the whole command, and the start of a command that does nothing; the goal is 2 s."""
    gpu_ci = str(Path(sys.executable).with_name("gpu-ci"))
    with tempfile.TemporaryDirectory(prefix="gpu-ci bench ") as name:
        file = Path(name, "records.jsonl")
        file.write_text("".join(f"{each.line()}\n" for each in records(machines(_RECORDS - 2))))
        report = [gpu_ci, "cost", "report", str(file), "--since", str(BEGIN.date())]
        seconds = [(_seconds(report), _seconds([gpu_ci, "cost", "report", "--help"])) for _ in range(rounds)]
    table = Table("", "median s", title=f"cost report of {_RECORDS:,} records, {rounds} rounds in turn")
    for label, each in zip(("report (goal 2)", "its --help"), zip(*seconds, strict=True), strict=True):
        table.add_row(label, f"{statistics.median(each):.2f}")
    console.print(table)


def _seconds(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began
