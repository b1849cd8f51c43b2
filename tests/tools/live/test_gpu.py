"""Tests of `make test-gpu`: the problems that it finds, and a whole run with fakes of torch and NVML."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.smoke import conftest as smoke
from tests.smoke.paths import FAKES
from tools.live import gpu
from tools.live.gpu import RUNS, problems, same_products

ROOT = Path(__file__).resolve().parents[3]
# What a real H100 answered.
RECEIPT: dict[str, Any] = json.loads((ROOT / "tests/smoke/receipts/h100.json").read_text())
STANDARD = next(run for run in RUNS if run.name == "standard")


def test_a_real_receipt_has_no_problem() -> None:
    assert problems(STANDARD, 0, RECEIPT, 1) == []


@pytest.mark.parametrize(
    ("exit_code", "changes", "gpus", "problem"),
    [
        (3, {}, 1, "exit code 3, expected 0"),
        (2, {"device": None, "gpus": []}, 1, "exit code 2, expected 0"),
        (0, {"seconds": 60.5}, 1, "took 60.5 s, expected at most 60 s"),
        (0, {"device": "cpu"}, 1, "checked 1 GPUs on cpu, expected 1 on cuda"),
        (0, {}, 8, "checked 1 GPUs on cuda, expected 8 on cuda"),
    ],
)
def test_a_run_that_is_not_as_expected_is_a_problem(
    exit_code: int, changes: dict[str, Any], gpus: int, problem: str
) -> None:
    [found] = problems(STANDARD, exit_code, RECEIPT | changes, gpus)
    assert found.startswith(problem)


def test_a_run_that_has_to_fail_and_passes_is_a_problem() -> None:
    too_many = next(run for run in RUNS if run.exit_code)
    assert problems(too_many, 0, RECEIPT, 1) == [f"exit code 0, expected 2: {RECEIPT['summary']}"]
    assert problems(too_many, 2, RECEIPT, 1) == []


@pytest.mark.parametrize(("products", "count"), [(RECEIPT["products"], 0), ([], 1)])
def test_two_runs_without_products_or_with_other_bits_are_a_problem(
    tmp_path: Path, products: list[Any], count: int
) -> None:
    for name in ("standard", "standard-again"):
        (tmp_path / f"{name}.json").write_text(json.dumps(RECEIPT | {"products": products}))
    assert len(same_products(tmp_path)) == count
    other = [product | {"hash": "0"} for product in RECEIPT["products"]]
    (tmp_path / "standard-again.json").write_text(json.dumps(RECEIPT | {"products": other}))
    assert len(same_products(tmp_path)) == 1


def test_nothing_starts_without_a_confirmation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    never = [sys.executable, "-c", f"open({str(tmp_path / 'ran')!r}, 'w')"]
    assert gpu.main({"GPU_CI_CONFIRM": "yes"}, never, tmp_path / "receipts") == 2
    assert "expected: GPU_CI_CONFIRM=gpu" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_nothing_more_runs_after_a_first_run_that_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('no GPU here')"]
    assert gpu.main({"GPU_CI_CONFIRM": "gpu"}, command, tmp_path) == 1
    assert capsys.readouterr().err.splitlines() == [
        "test-gpu: quick-first: wrote no receipt, and exits with 1: no GPU here",
        "  not run: quick, standard, standard-again, burn, too-many-expected",
        f"  hint: find the cause with {shlex.join([*command, 'diagnose'])}",
    ]


@pytest.mark.slow
def test_a_healthy_gpu_passes_every_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "RUNS", [run for run in RUNS if run.name != "burn"])  # it burns for half a minute
    environment = smoke.environment(gpus=smoke.ONE_GPU) | {"GPU_CI_CONFIRM": "gpu"}
    environment["FAKE_NVML"] = (FAKES / "healthy_gpu.json").read_text()
    assert gpu.main(environment, [sys.executable, "-m", "gpu_smoke"], tmp_path) == 0
    assert sorted(file.stem for file in tmp_path.iterdir()) == sorted(run.name for run in gpu.RUNS)
