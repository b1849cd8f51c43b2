"""`--specs`: floors from the user's own measurements."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ..conftest import Outcome, Smoke, environment

STANDARD = ("--profile", "standard")
L40S = {"name": "NVIDIA L40S", "sm": 142, "mem": 48_000_000_000}


def own(folder: Path, *values: float, **more: Any) -> str:
    row = {
        "device": "NVIDIA L40S", "sm": 142, "check": "gemm.speed", "dtype": "bfloat16", "size": 8192, "unit": "TFLOPS",
        "spread": 0.01, "samples": 3, "driver": "580.1", "torch": "2.15.0", "date": "2026-11-21", "throttle": "none",
        "receipts": [], **more,
    }  # fmt: skip
    found = [{**row, "median": value, "lowest": value - 1, "highest": value + 1} for value in values]
    (folder / "own.json").write_text(json.dumps({"schema": "gpu-smoke-specs/1", "rows": found}))
    return str(folder / "own.json")


def timed(run: Outcome, check: str = "gemm.speed") -> dict[str, Any]:
    [found] = [c for c in run.receipt["checks"] if c["id"] == check]
    return {key: found.get(key) for key in ("status", "warn_below", "fail_below", "reference")}


def test_a_floor_of_one_party_can_fail_if_an_own_measurement_exists(smoke: Smoke, tmp_path: Path) -> None:
    slow: dict[str, Any] = {"gpus": [L40S], "speeds": {"gemm": 150, "copy": 800}}
    assert timed(smoke(*STANDARD, **slow)) == {
        "status": "warn", "warn_below": 193.788, "fail_below": 107.66, "reference": "l40s: zzc",
    }  # fmt: skip
    run = smoke(*STANDARD, "--specs", own(tmp_path, 270.0, 260.0), **slow)
    assert run.code == 3
    assert timed(run) == {  # the lower of the two medians
        "status": "fail", "warn_below": 234.0, "fail_below": 195.0,
        "reference": "l40s: own measurement of 2026-11-21 (3), own measurement of 2026-11-21 (3)",
    }  # fmt: skip
    assert timed(run, "mem.speed")["reference"] == "l40s: dcgm"  # of copies there is no row


@pytest.mark.slow
@pytest.mark.parametrize("other", [{"dtype": "float16"}, {"size": 4096}, {"device": "NVIDIA L40"}], ids=str)
def test_a_measurement_of_something_else_is_no_floor(smoke: Smoke, tmp_path: Path, other: dict[str, Any]) -> None:
    run = smoke(*STANDARD, "--specs", own(tmp_path, 270.0, **other), gpus=[L40S], speeds={"gemm": 250, "copy": 800})
    assert timed(run)["reference"] == "l40s: zzc"


def test_a_gpu_that_no_table_has_gets_floors_by_measurements_of_ones_own(smoke: Smoke, tmp_path: Path) -> None:
    new = {"name": "NVIDIA New", "sm": 100}
    specs = own(tmp_path, 200.0, device="NVIDIA New", sm=100)
    assert smoke(*STANDARD, "--specs", specs, gpus=[new], speeds={"gemm": 199}).code == 0
    run = smoke(*STANDARD, "--specs", specs, gpus=[new], speeds={"gemm": 149})
    assert (run.code, timed(run)["fail_below"]) == (3, 150.0)
    assert timed(run)["reference"] == "NVIDIA New: own measurement of 2026-11-21 (3)"
    part = {"name": "NVIDIA New MIG 1g.10gb", "sm": 25}
    run = smoke(*STANDARD, "--specs", specs, "--expect-gpu", "NVIDIA New MIG 1g.10gb", gpus=[part], speeds={"gemm": 37})
    assert (run.code, timed(run)["fail_below"]) == (3, 37.5)


def test_copies_have_floors_of_ones_own_too(smoke: Smoke, tmp_path: Path) -> None:
    specs = own(tmp_path, 700.0, check="mem.speed", dtype="", size=2**30, unit="GB/s")
    run = smoke(*STANDARD, "--specs", specs, gpus=[L40S], speeds={"gemm": 250, "copy": 500})
    assert (run.code, timed(run, "mem.speed")["fail_below"]) == (3, 525.0)


def test_the_field_names_of_a_file_are_shown_without_terminal_commands(tmp_path: Path) -> None:
    file = tmp_path / "a\x1b[2J.json"
    file.write_text(json.dumps({"schema": "gpu-smoke-specs/1", "rows": [], "b\x1b]0;\n": 1}))
    done = subprocess.run(
        [sys.executable, "-m", "gpu_smoke", "--specs", file],
        env=environment(gpus=[{}]),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr.splitlines()[0]) == (64, f"{tmp_path}/a [2J.json: b ]0;: unknown")


@pytest.mark.parametrize("option", ["--baseline", "--specs"])
def test_a_file_that_is_none_of_ours_is_refused_before_a_gpu_is_kept_busy(tmp_path: Path, option: str) -> None:
    (tmp_path / "a.json").write_text("{}")
    done = subprocess.run(
        [sys.executable, "-m", "gpu_smoke", "--json", tmp_path / "out.json", option, tmp_path / "a.json"],
        env=environment(gpus=[{}]),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr.splitlines()[0]) == (64, f"{tmp_path}/a.json: schema: missing")
    assert not (tmp_path / "out.json").exists()
