"""`--specs`: floors from receipts of the user's own GPUs, and receipts that are none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ..conftest import Outcome, Smoke, environment

STANDARD = ("--profile", "standard")
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


def own(folder: Path, *receipts: Any) -> list[str]:
    for number, each in enumerate(receipts):
        (folder / f"own-{number}.json").write_text(json.dumps(each))
    return [*STANDARD, "--specs", *(str(folder / f"own-{number}.json") for number, _ in enumerate(receipts))]


def timed(run: Outcome, check: str = "gemm.speed") -> dict[str, Any]:
    [found] = [c for c in run.receipt["checks"] if c["id"] == check]
    return {key: found.get(key) for key in ("status", "warn_below", "fail_below", "reference")}


def test_a_floor_of_one_party_can_fail_if_an_own_measurement_exists(smoke: Smoke, tmp_path: Path) -> None:
    slow: dict[str, Any] = {
        "gpus": [{"name": "NVIDIA L40S", "sm": 142, "mem": 48_000_000_000}], "speeds": {"gemm": 150, "copy": 800},
    }  # fmt: skip
    assert timed(smoke(*STANDARD, **slow)) == {
        "status": "warn", "warn_below": 193.788, "fail_below": 107.66, "reference": "l40s: zzc",
    }  # fmt: skip
    other = receipt(270.0, host={"driver": "575.1"}, started="2026-11-20T10:00:00Z")
    run = smoke(*own(tmp_path, receipt(255.0, 265.0), receipt(250.0, 270.0), other), **slow)
    assert run.code == 3
    assert timed(run) == {  # the lower of the medians of two drivers
        "status": "fail", "warn_below": 234.0, "fail_below": 195.0,
        "reference": "l40s: own measurement of 2026-11-21 (4), own measurement of 2026-11-20 (1)",
    }  # fmt: skip
    assert timed(run, "mem.speed")["reference"] == "l40s: dcgm"  # the receipts have no speed of copies


@pytest.mark.parametrize("other", [{"dtype": "float16"}, {"n": 4096}, {"gpu": {"name": "NVIDIA L40"}}], ids=str)
def test_a_measurement_of_something_else_is_no_floor(smoke: Smoke, tmp_path: Path, other: dict[str, Any]) -> None:
    found = receipt(270.0, gpu=other.pop("gpu", None))
    found["measured"][0].update(other)
    gpus = [{"name": "NVIDIA L40S", "sm": 142, "mem": 48_000_000_000}]
    run = smoke(*own(tmp_path, found), gpus=gpus, speeds={"gemm": 250, "copy": 800})
    assert timed(run)["reference"] == "l40s: zzc"


def test_a_gpu_that_no_table_has_gets_floors_by_measurements_of_ones_own(smoke: Smoke, tmp_path: Path) -> None:
    new = {"name": "NVIDIA New", "sm": 100}
    found = receipt(200.0, gpu=new)
    found["measured"].append({"gpu": 0, "stage": "mem.speed", "bytes": 2**30, "gbs": 700.0})
    specs = own(tmp_path, found)
    assert smoke(*specs, gpus=[new], speeds={"gemm": 199, "copy": 699}).code == 0
    run = smoke(*specs, gpus=[new], speeds={"gemm": 149, "copy": 500})
    assert (run.code, timed(run)["fail_below"], timed(run, "mem.speed")["fail_below"]) == (3, 150.0, 525.0)
    assert timed(run)["reference"] == "NVIDIA New: own measurement of 2026-11-21 (1)"
    part = {"name": "NVIDIA New MIG 1g.10gb", "sm": 25}
    run = smoke(*specs, "--expect-gpu", "NVIDIA New MIG 1g.10gb", gpus=[part], speeds={"gemm": 37, "copy": 699})
    assert (run.code, timed(run)["fail_below"]) == (3, 37.5)


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


def warned(check: str, **more: Any) -> dict[str, Any]:
    return {"checks": [{"id": check, "status": "warn", **more}]}


@pytest.mark.parametrize(
    ("change", "said", "got"),
    [
        ({"verdict": "incomplete"}, "verdict: did not pass", "'incomplete'"),
        ({"device": "cpu"}, "device: a run on the CPU does not measure a GPU", "'cpu'"),
        ({"gpus": [{**L40S, "name": "A100 MIG 1g.10gb"}]}, "gpus[0].name: a MIG slice", "'A100 MIG 1g.10gb'"),
        (warned("throttle"), "checks[0]: a GPU was throttled", "'throttle'"),
        (warned("burn", value=0.7), "checks[0]: a GPU was throttled", "'burn'"),
        (warned("gemm.speed", value=50, warn_below=51.21, fail_below=42.675), "checks[0]: a GPU was slow", None),
        (warned("mem.peers", value=0.85, fail_below=0.8), "checks[0]: a GPU was slow", "'mem.peers'"),
        (warned("mem.history", value=0.85), "checks[0]: a GPU was slow", "'mem.history'"),
        ({"measured": []}, "measured: no speed of a GPU", "''"),
        ({"host": {}}, "host.driver: missing", "''"),
        ({"torch": {}}, "torch.version: missing", "''"),
    ],
    ids=str,
)
def test_a_receipt_that_is_no_measurement_is_refused_before_a_gpu_is_used(
    tmp_path: Path, change: dict[str, Any], said: str, got: str | None
) -> None:
    out = tmp_path / "out.json"
    lines = refused(*own(tmp_path, {**receipt(250.0), **change}), "--json", out)
    at = lines.index(f"{tmp_path}/own-0.json: {said}")
    assert got is None or lines[at + 1] == f"  got: {got}"
    assert [line.split(":")[0] for line in lines[at + 1 : at + 4]] == ["  got", "  expected", "  hint"]
    assert not out.exists()


@pytest.mark.parametrize(
    ("change", "got"),
    [
        ({"schema": "smoke/2"}, "'smoke/2'"),
        ({"started": "today"}, "\"started: 'today'\""),
        ({"host": []}, "\"'list' object has no attribute 'get'\""),
        ({"gpus": [{"index": 0}]}, "no field 'name'"),
        ({"gpus": [{**L40S, "name": 7}]}, "'a text was expected'"),
        ({"measured": [{"stage": "nvml", "gpu": 0, "width": "x16"}]}, None),
        ({"checks": ["all fine"]}, None),
        ({"products": 1}, None),
    ],
    ids=str,
)
def test_a_file_that_gpu_smoke_did_not_write_is_refused(
    tmp_path: Path, change: dict[str, Any], got: str | None
) -> None:
    name, *details = refused(*own(tmp_path, {**receipt(250.0), **change}))
    assert name.startswith((f"{tmp_path}/own-0.json: not a receipt", f"{tmp_path}/own-0.json: not a complete receipt"))
    assert got is None or details[0] == f"  got: {got}"
    assert [line.split(":")[0] for line in details] == ["  got", "  expected", "  hint"]


@pytest.mark.parametrize(
    "fine",
    [
        warned("gemm.speed", value=1, warn_below=2),  # as receipts before 2026-11 have a floor of one party
        warned("gemm.speed", value=190, warn_below=193.8, fail_below=107.7),  # of one party
        warned("mem.speed", value=100, fail_below=90.0),  # of theory
        warned("gemm.speed", value=1),
        warned("gemm.history"),
        warned("shm", value=1),
    ],
    ids=str,
)
def test_a_warning_of_one_partys_floor_or_of_something_else_is_no_reason(
    smoke: Smoke, tmp_path: Path, fine: dict[str, Any]
) -> None:
    assert smoke(*own(tmp_path, {**receipt(250.0), **fine})).code == 0


def test_a_receipt_counts_once_also_in_another_format(smoke: Smoke, tmp_path: Path) -> None:
    found = receipt(250.0)
    specs = own(tmp_path, found, dict(reversed(found.items())), found)
    gpus = [{"name": "NVIDIA L40S", "sm": 142, "mem": 48_000_000_000}]
    run = smoke(*specs, gpus=gpus, speeds={"gemm": 250, "copy": 800})
    assert timed(run)["reference"] == "l40s: own measurement of 2026-11-21 (1)"


def test_every_bad_file_is_reported_at_once_without_terminal_commands(tmp_path: Path) -> None:
    (tmp_path / "broken\x1b[2J.json").write_text('{"schema": ')
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe")
    (tmp_path / "nan.json").write_text('{"schema": NaN}')
    (tmp_path / "list.json").write_text('["no", "receipt"]')
    (tmp_path / "none.json").write_text("{}")
    for option in ("--baseline", "--specs"):
        said = [line for line in refused(option, tmp_path, tmp_path / "nowhere.json") if not line.startswith("  ")]
        assert [line.removeprefix(f"{tmp_path}/") for line in said] == [
            "binary.json: not JSON",
            "broken [2J.json: not JSON",
            "deep.json: not JSON",
            "list.json: not a receipt of gpu-smoke",
            "nan.json: not JSON",
            "none.json: not a receipt of gpu-smoke",
            "nowhere.json: cannot be read",
        ]


def test_a_folder_without_receipts_is_no_measurement(tmp_path: Path) -> None:
    assert refused("--specs", tmp_path)[0] == f"--specs: {tmp_path}: no receipt"
