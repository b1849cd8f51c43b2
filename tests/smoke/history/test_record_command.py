"""`gpu-smoke record`: the receipts that it accepts, and the rows that it writes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ..conftest import ROOT, environment

STANDARD = ("--profile", "standard")
SCHEMA = json.loads((ROOT / "docs" / "gpu-smoke-specs.schema.json").read_text())


def record(*args: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpu_smoke", "record", *args],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A receipt of two L4, written by the command itself."""
    path = tmp_path_factory.mktemp("measured") / "receipt.json"
    gpus = environment(gpus=[{}, {}], faults=[{"kind": "slow", "what": "gemm", "by": 0.95, "gpu": 1}])
    args = [*STANDARD, "--expect-gpus", "2", "--json", str(path)]
    done = subprocess.run([sys.executable, "-m", "gpu_smoke", *args], env=gpus, check=True, capture_output=True)
    assert done.returncode == 0
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def written(folder: Path, receipt: Any, name: str = "receipt.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(receipt))
    return path


def rows(path: Path) -> list[dict[str, Any]]:
    content = json.loads(path.read_text())
    Draft202012Validator.check_schema(SCHEMA)
    assert not [*Draft202012Validator(SCHEMA).iter_errors(content)]
    found: list[dict[str, Any]] = content["rows"]
    return found


def test_a_receipt_becomes_a_row_for_products_and_one_for_copies(tmp_path: Path, measured: dict[str, Any]) -> None:
    specs = tmp_path / "specs.json"
    done = record(written(tmp_path, measured), "--specs", specs)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines()[0] == (
        "gpu-smoke record: NVIDIA L4 gemm.speed bfloat16: 57.91 TFLOPS (56.43 to 59.4, 2 samples) "
        "with driver 580.159.03 and torch 9.9.9+fake"
    )
    products, copies = rows(specs)
    digest = products.pop("receipts")
    assert products == {
        "device": "NVIDIA L4", "sm": 58, "check": "gemm.speed", "dtype": "bfloat16", "size": 8192, "unit": "TFLOPS",
        "median": 57.915, "lowest": 56.43, "highest": 59.4, "spread": 0.0513, "samples": 2, "driver": "580.159.03",
        "torch": "9.9.9+fake", "date": measured["started"][:10], "throttle": "unknown",
    }  # fmt: skip
    assert (copies["check"], copies["median"], copies["size"], copies["unit"]) == ("mem.speed", 250.0, 2**30, "GB/s")
    assert copies["receipts"] == digest


def test_receipts_of_one_driver_and_torch_come_together_and_others_apart(
    tmp_path: Path, measured: dict[str, Any]
) -> None:
    specs = tmp_path / "specs.json"
    for name, change in (("a", {}), ("b", {"started": "2026-01-02T00:00:00Z"}), ("c", {"host": {"driver": "580.1"}})):
        written(tmp_path, {**measured, **change}, f"{name}.json")
    assert record(tmp_path, "--specs", specs).returncode == 0
    assert [(row["driver"], row["samples"], len(row["receipts"])) for row in rows(specs)[::2]] == [
        ("580.159.03", 4, 2),
        ("580.1", 2, 1),
    ]
    before = rows(specs)
    assert record(written(tmp_path, {**measured, "seconds": 1}, "d.json"), "--specs", specs).returncode == 0
    assert rows(specs)[:4] == before
    assert len(rows(specs)) == 6


def test_a_monitored_run_without_throttling_is_recorded_as_such(tmp_path: Path, measured: dict[str, Any]) -> None:
    watched = {"id": "throttle", "gpu": 0, "status": "pass", "message": "no"}
    receipt = {**measured, "checks": [*measured["checks"], watched]}
    assert record(written(tmp_path, receipt), "--specs", tmp_path / "s.json").returncode == 0
    assert {row["throttle"] for row in rows(tmp_path / "s.json")} == {"none"}


def warned(check: str, **more: Any) -> dict[str, Any]:
    return {"checks": [{"id": check, "status": "warn", "message": "x", **more}]}


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"verdict": "fail"}, "verdict: did not pass\n  got: 'fail'"),
    ({"verdict": "incomplete"}, "verdict: did not pass\n  got: 'incomplete'"),
    ({"device": "cpu"}, "device: a run on the CPU does not measure a GPU\n  got: 'cpu'"),
    (warned("throttle"), "checks[0]: a GPU was throttled\n  got: 'throttle'"),
    (warned("burn", value=0.7), "checks[0]: a GPU was throttled\n  got: 'burn'"),
    (
        warned("gemm.speed", value=50, warn_below=51.21, fail_below=42.675),
        "checks[0]: a GPU was slow\n  got: 'gemm.speed'",
    ),
    (warned("mem.peers", value=0.85, fail_below=0.8), "checks[0]: a GPU was slow\n  got: 'mem.peers'"),
    (warned("mem.history", value=0.85), "checks[0]: a GPU was slow\n  got: 'mem.history'"),
    ({"measured": []}, "measured: no speed of a GPU\n  got: 'standard'"),
    ({"host": {}}, "host.driver: missing\n  got: ''"),
    ({"torch": {}}, "torch.version: missing\n  got: ''"),
    ({"schema": "smoke/2"}, "schema: unknown value\n  got: 'smoke/2'"),
    ({"started": "today"}, "started: wrong format\n  got: 'today'"),
    ({"gpus": [{"index": 0}]}, "gpus[0].name: missing\n  got: nothing"),
]


@pytest.mark.parametrize(("change", "said"), REFUSED, ids=[said.partition("\n")[0] for _, said in REFUSED])
def test_a_receipt_that_is_no_measurement_is_refused_and_nothing_is_written(
    tmp_path: Path, measured: dict[str, Any], change: dict[str, Any], said: str
) -> None:
    path = written(tmp_path, {**measured, **change})
    done = record(path, "--specs", tmp_path / "s.json")
    assert done.returncode == 64
    assert f"{path}: {said}\n  expected: " in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "s.json").exists()


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
    tmp_path: Path, measured: dict[str, Any], fine: dict[str, Any]
) -> None:
    assert record(written(tmp_path, {**measured, **fine}), "--specs", tmp_path / "s.json").returncode == 0


def test_a_mig_slice_is_refused(tmp_path: Path, measured: dict[str, Any]) -> None:
    gpus = [{**measured["gpus"][0], "name": "NVIDIA A100-SXM4-80GB MIG 1g.10gb"}]
    done = record(written(tmp_path, {**measured, "gpus": gpus}), "--specs", tmp_path / "s.json")
    assert done.returncode == 64
    assert "gpus[0].name: a MIG slice\n  got: 'NVIDIA A100-SXM4-80GB MIG 1g.10gb'" in done.stderr


def test_a_receipt_counts_once_also_in_another_format(tmp_path: Path, measured: dict[str, Any]) -> None:
    specs, path = tmp_path / "s.json", written(tmp_path, measured, "a.json")
    again = tmp_path / "b.json"
    again.write_text(json.dumps(dict(reversed(measured.items())), indent=4))
    assert record(path, again, path, "--specs", specs).returncode == 0
    before = specs.read_text()
    assert [row["samples"] for row in rows(specs)] == [2, 2]
    done = record(again, "--specs", specs)
    assert (done.returncode, done.stderr.count("already recorded")) == (64, 1)
    assert specs.read_text() == before


def test_every_bad_file_is_reported_at_once(tmp_path: Path, measured: dict[str, Any]) -> None:
    (tmp_path / "broken.json").write_text('{"schema": ')
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe")
    (tmp_path / "nan.json").write_text('{"schema": NaN}')
    written(tmp_path, ["no", "receipt"], "list.json")
    written(tmp_path, {**measured, "verdict": "fail"}, "failed.json")
    (tmp_path / "s").write_text('{"schema": "gpu-smoke-specs/1", "rows": [{"device": "NVIDIA L4"}], "more": 1}')
    done = record(tmp_path, tmp_path / "nowhere.json", "--specs", tmp_path / "s")
    assert done.returncode == 64
    said = [line for line in done.stderr.splitlines() if not line.startswith("  ")]
    assert [line.removeprefix(f"{tmp_path}/") for line in said] == [
        "binary.json: not JSON",
        "broken.json: not JSON",
        "deep.json: not JSON",
        "list.json: the whole file: wrong type",
        "nan.json: not JSON",
        "nowhere.json: cannot be read",
        "failed.json: verdict: did not pass",
        *(
            f"s: rows[0].{name}: missing"
            for name in SCHEMA["properties"]["rows"]["items"]["required"]
            if name != "device"
        ),
        "s: more: unknown",
    ]


@pytest.mark.parametrize(
    ("args", "first"),
    [
        ([], "the following arguments are required: RECEIPT.json, --specs"),
        (["x.json"], "the following arguments are required: --specs"),
        (["x.json", "--specs", "/nowhere/s.json"], "--specs: cannot be written (No such file or directory)"),
    ],
)
def test_a_record_command_with_wrong_arguments_is_an_error(args: list[str], first: str) -> None:
    done = record(*args)
    assert (done.returncode, done.stderr.splitlines()[0]) == (64, f"gpu-smoke record: {first}")


def test_a_folder_without_receipts_is_none(tmp_path: Path) -> None:
    done = record(tmp_path, "--specs", tmp_path / "s.json")
    assert (done.returncode, done.stderr.splitlines()[0]) == (64, f"{tmp_path}: no receipt")


def test_two_concurrent_writers_lose_no_row(tmp_path: Path, measured: dict[str, Any]) -> None:
    specs = tmp_path / "s.json"
    command = [sys.executable, "-m", "gpu_smoke", "record", "--specs", specs]
    receipts = [written(tmp_path, {**measured, "seconds": n}, f"{n}.json") for n in range(6)]
    started = [subprocess.Popen([*command, path], env=environment(), stderr=subprocess.DEVNULL) for path in receipts]
    assert [each.wait(60) for each in started] == [0] * 6
    assert len(rows(specs)) == 12
