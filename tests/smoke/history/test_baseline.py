"""`--baseline`: comparison with earlier runs that passed, by speed and by the bits of products."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gpu_smoke.checks import Check
from gpu_smoke.history import Run
from gpu_smoke.judge import history

from ..conftest import Outcome, Smoke

STANDARD = ("--profile", "standard")


def run(*tflops: float, **more: Any) -> Run:
    """Return a run of as many L4 as there are speeds. `bits` has the bits of each GPU."""
    bits, machine = more.get("bits", ["aa"] * len(tflops)), more.get("machine", "m")
    gpus = [
        {"index": i, "name": more.get("name", "NVIDIA L4"), "uuid": f"{machine}-{i}" if machine else "", "sm": 58}
        for i, _ in enumerate(tflops)
    ]
    measured = [
        {"gpu": i, "stage": "gemm.speed", "dtype": "bfloat16", "n": more.get("n", 8192), "tflops": value}
        for i, value in enumerate(tflops)
    ]
    products = [{"gpu": i, "dtype": "float32", "n": 2048, "hash": bits[i]} for i, _ in enumerate(tflops)]
    return Run(
        f"{machine}.json",
        {
            "verdict": more.get("verdict", "pass"),
            "device": more.get("device", "cuda"),
            "started": "2026-11-21T10:00:00Z",
            "host": {"driver": more.get("driver", "580.159.03")},
            "torch": {"version": more.get("torch", "2.15.0+cu132"), "cuda": more.get("cuda", "13.2")},
            "gpus": gpus,
            "products": products,
            "measured": measured,
            "checks": [],
        },
    )


def speed(now: float, *earlier: Run) -> Check:
    [found] = [check for check in history.judge(run(now, machine="now"), earlier) if check.id == "gemm.history"]
    return found


def bits(now: Run, *earlier: Run) -> Check:
    [found] = [check for check in history.judge(now, earlier) if check.id == "gemm.hash"]
    return found


@pytest.mark.parametrize(
    ("value", "status"), [(90.0, "pass"), (89.99, "warn"), (80.0, "warn"), (79.99, "fail"), (120.0, "pass")]
)
def test_three_earlier_runs_warn_below_nine_tenths_of_their_median_and_fail_below_eight(
    value: float, status: str
) -> None:
    found = speed(value, run(95.0), run(100.0), run(130.0))
    assert (found.status, found.warn_below, found.fail_below) == (status, 0.90, 0.80)
    assert found.value == round(value / 100, 4)
    assert found.severity == ("perf" if status == "fail" else "")


def test_the_message_has_the_measured_numbers() -> None:
    assert speed(79.0, run(95.0), run(100.0), run(130.0)).message == (
        "GPU 0 is slower than NVIDIA L4 in earlier runs: 79 TFLOPS, 79.0% of 100, the median of 3 "
        "earlier runs (95 to 130)"
    )
    assert speed(99.0, run(100.0)).message == "99 TFLOPS, 99.0% of 100, the median of 1 earlier run (100 to 100)"


def test_shares_have_four_places() -> None:
    assert speed(91.23456, run(100.0)).value == 0.9123
    assert speed(50.0, run(33.33333), run(100.0), run(100.0)).fail_below == 0.3333
    assert "fail_below" not in speed(50.0, run(100.0)).record()


def test_the_number_of_gpus_with_equal_bits_is_reported() -> None:
    assert bits(run(1.0), run(1.0, machine="a")).message == "float32: the same bits as on 1 GPU of earlier runs"
    both = bits(run(1.0), run(1.0, machine="a"), run(1.0, machine="b"))
    assert both.message == "float32: the same bits as on 2 GPUs of earlier runs"


def test_two_earlier_runs_are_too_few_to_fail_on_however_many_gpus_they_had() -> None:
    found = speed(10.0, run(100.0, 100.0), run(100.0, 100.0))
    assert (found.status, found.fail_below) == ("warn", None)
    assert speed(10.0, run(100.0), run(100.0), run(100.0)).status == "fail"


def test_a_speed_that_a_run_that_passed_has_had_is_not_failed() -> None:
    # A T4 that its power limit holds down, among colder ones.
    earlier = (run(42.0), run(40.0), run(24.0))
    assert (speed(24.0, *earlier).status, speed(24.0, *earlier).fail_below) == ("warn", 0.6)
    assert speed(23.9, *earlier).status == "fail"


@pytest.mark.parametrize(
    "other",
    [
        {"name": "NVIDIA A10G"},
        {"n": 4096},
        {"cuda": "12.8"},
        {"driver": "575.57.08"},
        {"verdict": "fail"},
        {"verdict": "incomplete"},
        {"device": "cpu"},
    ],
    ids=str,
)
def test_a_run_without_comparable_runs_is_reported(other: dict[str, Any]) -> None:
    found = speed(50.0, run(100.0, **other))
    assert (found.status, found.value) == ("warn", None)
    assert found.message == (
        "GPU 0 has no earlier run to compare with: none of 1 receipts is from a run that passed on "
        "NVIDIA L4 with CUDA 13 and driver branch 580"
    )


def test_a_patch_of_driver_or_torch_leaves_speeds_alike() -> None:
    assert speed(50.0, run(100.0, driver="580.1", torch="2.14.0+cu130", cuda="13.0")).value == 0.5


@pytest.mark.parametrize("other", [{"driver": "580.1"}, {"torch": "2.14.0+cu130"}, {"verdict": "fail"}], ids=str)
def test_bits_are_compared_only_under_the_very_same_driver_and_torch(other: dict[str, Any]) -> None:
    found = bits(run(1.0, bits=["bb"], machine="now"), *(run(1.0, machine=name, **other) for name in "abc"))
    assert found.status == "warn"
    assert found.message == (
        "GPU 0 has no earlier run to compare with: none of 3 receipts is from a run that passed on "
        "NVIDIA L4 with torch 2.15.0+cu132 and driver 580.159.03"
    )


@pytest.mark.parametrize(
    ("earlier", "status"),
    [
        ([run(1.0, machine="a")], "pass"),
        ([run(1.0, machine="a", bits=["bb"])], "warn"),  # one of the two
        ([run(1.0, machine="a", bits=["bb"]), run(2.0, machine="a", bits=["bb"])], "warn"),  # one GPU, seen twice
        ([run(1.0, machine="a", bits=["bb"]), run(1.0, machine="b", bits=["bb"])], "fail"),
        ([run(1.0, 1.0, machine="a", bits=["bb", "bb"])], "fail"),
        ([run(1.0, machine="a", bits=["bb"]), run(1.0, machine="b", bits=["cc"])], "warn"),  # no two agree
        # Its own earlier product speaks against it, and never for it.
        ([run(1.0, machine="a", bits=["bb"]), run(1.0, machine="now", bits=["bb"])], "fail"),
        ([*(run(1.0, machine=m, bits=["bb"]) for m in "ab"), run(1.0, machine="now")], "fail"),
        ([*(run(1.0, machine=m, bits=["bb"]) for m in "ab"), run(1.0, machine="c")], "warn"),
    ],
)
def test_other_bits_than_two_earlier_gpus_agree_on_are_a_gpu_fault(earlier: list[Run], status: str) -> None:
    found = bits(run(1.0, machine="now"), *earlier)
    assert (found.status, found.gpu, found.dtype) == (status, 0, "float32")
    assert (found.severity, found.action) == (("gpu", "replace-node") if status == "fail" else ("", ""))


def test_gpus_without_uuids_are_distinguished_by_their_receipts() -> None:
    other = [run(1.0, machine="", bits=["bb"], cuda="13.0"), run(1.0, machine="", bits=["bb"])]
    assert bits(run(1.0, machine="now"), other[0]).status == "warn"
    found = bits(run(1.0, machine="now"), *other)
    assert (found.status, found.message) == (
        "fail",
        "GPU 0 gave another float32 product than 2 NVIDIA L4 in earlier runs with this torch and driver",
    )


def baseline(folder: Path, *runs: Outcome) -> str:
    folder.mkdir()
    for number, each in enumerate(runs):
        (folder / f"{number}.json").write_text(json.dumps(each.receipt))
    return str(folder)


def test_a_link_with_fewer_lanes_than_three_earlier_runs_had_is_degraded(smoke: Smoke, tmp_path: Path) -> None:
    loaded: dict[str, Any] = {"lasts": {"gemm": 1.5}}
    before = smoke(*STANDARD, nvml={}, **loaded)
    folder = tmp_path / "h"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.json").write_text(json.dumps({**before.receipt, "seconds": number}))
    narrow = {"gpus": [{"width": 8}]}  # of generation 4, as many lanes as DCGM requires of an L4
    assert smoke(*STANDARD, nvml=narrow, **loaded).code == 0
    run = smoke(*STANDARD, "--baseline", str(folder), nvml=narrow, speeds={"host": 12.0}, **loaded)
    assert (run.code, run.bad()) == (3, [("pcie", 0)])
    assert run.summary.endswith("; 3 earlier runs had x16")


def test_an_empty_folder_is_no_silent_pass(smoke: Smoke, tmp_path: Path) -> None:
    folder = baseline(tmp_path / "h")
    first = smoke(*STANDARD, "--baseline", folder)
    assert (first.code, len([c for c in first.receipt["checks"] if c["status"] == "warn"])) == (0, 5)
    assert "no earlier run to compare with: none of 0 receipts" in first.stderr
    assert smoke(*STANDARD, "--baseline", folder, "--strict").code == 3
