"""Files that are no receipts, which `--baseline` refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ..conftest import environment

L40S = {"index": 0, "name": "NVIDIA L40S", "uuid": "GPU-0", "sm": 142}


def receipt(*tflops: float, gpu: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """Return a receipt of as many GPUs as there are speeds."""
    gpus = [{**L40S, "index": index, "uuid": f"GPU-{index}", **(gpu or {})} for index, _ in enumerate(tflops)]
    measured = [
        {"gpu": index, "stage": "gemm.speed", "dtype": "bfloat16", "n": 8192, "tflops": value}
        for index, value in enumerate(tflops)
    ]
    return {
        "schema": "smoke/1", "verdict": "pass", "device": "cuda", "started": "2026-11-21T10:00:00Z",
        "host": {"driver": "580.1"}, "torch": {"version": "2.15.0", "cuda": "13.2"}, "gpus": gpus, "products": [],
        "measured": measured, "checks": [], **more,
    }  # fmt: skip


def refused(*args: str | Path) -> list[str]:
    """Run the command with receipts that it refuses, and return the lines of its message."""
    done = subprocess.run(
        [sys.executable, "-m", "gpu_smoke", *args],
        env=environment(gpus=[{}]),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 64
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()


@pytest.mark.parametrize(
    ("change", "got"),
    [
        ({"schema": "smoke/2"}, "'smoke/2'"),
        ({"started": "today"}, "\"started: 'today'\""),
        ({"host": []}, "\"'list' object has no attribute 'get'\""),
        ({"gpus": [{"index": 0}]}, "no field 'name'"),
        ({"gpus": [{**L40S, "name": 7}]}, "'a text was expected'"),
        ({"measured": [{"stage": "nvml", "gpu": 0, "width": "x16"}]}, None),
        ({"products": 1}, None),
    ],
    ids=str,
)
def test_a_file_that_gpu_smoke_did_not_write_is_refused(
    tmp_path: Path, change: dict[str, Any], got: str | None
) -> None:
    (tmp_path / "own-0.json").write_text(json.dumps({**receipt(250.0), **change}))
    name, *details = refused("--baseline", tmp_path)
    assert name.startswith((f"{tmp_path}/own-0.json: not a receipt", f"{tmp_path}/own-0.json: not a complete receipt"))
    assert got is None or details[0] == f"  got: {got}"
    assert [line.split(":")[0] for line in details] == ["  got", "  expected", "  hint"]


def test_every_bad_file_is_reported_at_once_without_terminal_commands(tmp_path: Path) -> None:
    (tmp_path / "broken\x1b[2J.json").write_text('{"schema": ')
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe")
    (tmp_path / "nan.json").write_text('{"schema": NaN}')
    (tmp_path / "list.json").write_text('["no", "receipt"]')
    (tmp_path / "none.json").write_text("{}")
    said = [line for line in refused("--baseline", tmp_path, tmp_path / "nowhere.json") if not line.startswith("  ")]
    assert [line.removeprefix(f"{tmp_path}/") for line in said] == [
        "binary.json: not JSON",
        "broken [2J.json: not JSON",
        "deep.json: not JSON",
        "list.json: not a receipt of gpu-smoke",
        "nan.json: not JSON",
        "none.json: not a receipt of gpu-smoke",
        "nowhere.json: cannot be read",
    ]
