"""The judges of a GPU's results: the last value that is right, and the first that is wrong."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from gpu_smoke.checks import Check
from gpu_smoke.judge import between_gpus, results, speed
from gpu_smoke.judge.subject import Subject
from gpu_smoke.measure import gemm as measured_gemm

from ..subjects import CPU, L4, NEW, SLICE, verdict


def product(**more: Any) -> dict[str, Any]:
    right = {"dtype": "float32", "finite": True, "norm_error": 1e-5, "element_error": 1e-4, "same": 8, "repeats": 8}
    return {**right, **more}


@pytest.mark.parametrize(
    ("more", "wrong"),
    [
        ({}, set()),  # each error at its limit
        ({"norm_error": math.nextafter(1e-5, 1)}, {"gemm.norm"}),
        ({"element_error": math.nextafter(1e-4, 1)}, {"gemm.element"}),
        ({"norm_error": None}, {"gemm.norm"}),
        ({"finite": False}, {"gemm.finite"}),
        ({"finite": None}, {"gemm.finite"}),
        ({"same": 7}, {"gemm.bitwise"}),
        ({"same": 1, "repeats": 1}, set()),
        ({"same": 0, "repeats": 0}, {"gemm.bitwise"}),  # what was never repeated was not the same
    ],
    ids=str,
)
def test_a_product(more: dict[str, Any], wrong: set[str]) -> None:
    found = results.product(L4, product(**more))
    assert {check.id for check in found if check.status == "fail"} == wrong
    assert {(check.severity, check.action) for check in found if check.status == "fail"} <= {("gpu", "replace-node")}
    assert len(found) == 4


def test_a_product_without_its_counts_is_not_right() -> None:
    lacking = {"dtype": "float32", "finite": True, "norm_error": 0.0, "element_error": 0.0}
    assert verdict(results.product(L4, lacking))["gemm.bitwise"] == "fail"
    assert verdict(results.product(L4, {**lacking, "same": 1}))["gemm.bitwise"] == "fail"
    assert verdict(results.product(L4, {**lacking, "repeats": 1}))["gemm.bitwise"] == "fail"


@pytest.mark.parametrize(
    ("ended", "status", "value"),
    [(75.0, "pass", 0.75), (74.99, "warn", 0.7499), (100.0, "pass", 1.0), (76.54321, "pass", 0.7654)],
)
def test_a_burn(ended: float, status: str, value: float) -> None:
    [found] = results.burned(L4, {"dtype": "float16", "began": 100.0, "ended": ended, "wrong": 0, "products": 40})
    assert (found.status, found.value) == (status, value)


def test_a_burn_is_measured_by_its_first_tenth_and_its_last(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = [16.0] * 2 + [24.0] * 16 + [32.0] * 2  # seconds for sixteen products, hotter and hotter
    ticks = iter([tick for took in rounds for tick in (0.0, took)])
    now = iter([0.0] * len(rounds) + [1.0])
    clocks = SimpleNamespace(perf_counter=lambda: next(ticks), monotonic=lambda: next(now))
    monkeypatch.setattr(measured_gemm, "time", clocks)
    monkeypatch.setattr(measured_gemm, "_on", lambda *_: (MagicMock(), MagicMock()))
    monkeypatch.setattr(measured_gemm, "_differs", lambda *_: 0)
    found = measured_gemm.burn(None, SimpleNamespace(type="cuda"), "float16", 10_000, sec=1.0)
    assert (found["began"], found["ended"], found["products"], found["wrong"]) == (2.0, 1.0, 320, 0)


def test_a_burn_that_never_was_fast_is_no_pass_and_one_wrong_product_fails() -> None:
    nothing = {"dtype": "float16", "began": 0.0, "ended": 0.0, "wrong": 0, "products": 4}
    assert results.burned(L4, nothing)[0].status == "warn"
    assert results.burned(L4, nothing)[0].value == 0.0
    assert results.burned(CPU, nothing)[0].status == "pass"
    [found] = results.burned(L4, {**nothing, "wrong": 1})
    assert (found.status, found.severity, found.message) == (
        "fail",
        "gpu",
        "GPU 0 computed 1 of 4 float16 products differently",
    )


def test_speeds_on_the_cpu_and_of_nothing() -> None:
    assert speed.judge("gemm.speed", CPU, None, "TFLOPS", None).status == "skip"
    found = speed.judge("gemm.speed", NEW, 0.0, "TFLOPS", None)
    assert (found.status, found.severity) == ("fail", "env")
    assert speed.judge("gemm.speed", L4, 42.675, "TFLOPS", L4.gemm).status == "warn"  # the floor itself
    assert speed.judge("gemm.speed", L4, 51.21, "TFLOPS", L4.gemm).status == "pass"
    part = Subject(1, "NVIDIA A100-SXM4-80GB MIG 1g.10gb", "8.0", 14)
    assert speed.judge("gemm.speed", part, 1.0, "TFLOPS", part.gemm).fail_below == 20.5746


@pytest.mark.parametrize(
    ("slow", "status"),
    [(90.0, "pass"), (91.23456, "pass"), (89.99, "warn"), (80.0, "warn"), (79.99, "fail"), (None, None)],
)
def test_peers(slow: float | None, status: str | None) -> None:
    subjects = {i: Subject(i, name) for i, name in enumerate(["A", "A", "A", "B"])}
    measured = [
        Check("gemm.speed", "pass", "", gpu=i, value=v) for i, v in enumerate([100.0, 100.0, slow, 1.0]) if v or i == 2
    ]
    measured += [Check("h2d", "pass", "", gpu=2, value=1.0), Check("gemm.speed", "pass", "", value=7.0)]
    found = {check.gpu: check for check in speed.against_peers(subjects, measured)}
    assert {gpu: check.status for gpu, check in found.items()} == {
        0: "pass",
        1: "pass",
        **({2: status} if status else {}),
    }
    if slow:
        assert (found[2].id, found[2].value) == ("gemm.peers", round(slow / 100, 4))
        assert "of the median of 3 A" in found[2].message


def bits(*hashes: str, name: str = "NVIDIA L4") -> list[tuple[str, int | None, str]]:
    subjects = {i: Subject(i, name) for i, _ in enumerate(hashes)}
    products = [{"gpu": i, "dtype": "float32", "hash": each} for i, each in enumerate(hashes)]
    return [(c.status, c.gpu, c.message) for c in between_gpus.hashes(subjects, [*products, {"gpu": 9, "dtype": "x"}])]


def test_bits_of_one_machine() -> None:
    assert bits("a") == []
    assert bits("a", "a") == [("pass", None, "float32: the same bits on 2 NVIDIA L4")]
    assert bits("a", "b") == [("fail", None, "2 NVIDIA L4 gave 2 different float32 products for the same numbers")]
    assert bits("a", "a", "b") == [("fail", 2, "GPU 2 gave another float32 product than the other NVIDIA L4")]
    assert bits("a", "a", "b", "c")[0][:2] == (
        "fail",
        None,
    )  # half of them differ, so it is unknown which GPUs are wrong


@pytest.mark.parametrize(
    ("pairs", "status"),
    [
        ([], "fail"),
        ([(100, True), (100, True), (50, True)], "pass"),
        ([(100, True), (100, True), (49.9, True)], "warn"),
        ([(100.0123, True), (100.0123, True), (90, True)], "pass"),
        ([(100, True), (100, False)], "fail"),
    ],
)
def test_copies_between_gpus(pairs: list[tuple[float, bool]], status: str) -> None:
    told = [{"from": 0, "to": i, "gbs": gbs, "same": same} for i, (gbs, same) in enumerate(pairs, 1)]
    [found] = between_gpus.pairs(L4, {"pairs": told})
    assert found.status == status
    if status in ("pass", "warn"):
        assert found.message.endswith("from GPU 0 to 3, the median pair 100")
        assert found.warn_below in (50.0, 50.006)
    elif pairs:
        assert found.message == "a copy from GPU 0 to 2 arrived changed"


@pytest.mark.parametrize(
    ("subject", "world", "floor"),
    [("NVIDIA H200", 8, 300.0), ("NVIDIA H200", 7, 5.0), ("NVIDIA L4", 8, 5.0), ("NVIDIA A100-SXM4-40GB", 8, 150.0)],
)
def test_the_sum_over_gpus(subject: str, world: int, floor: float) -> None:
    def found(gbs: float, right: bool = True) -> Check:
        [check] = between_gpus.reduction(Subject(0, subject), {"right": right, "gbs": gbs, "world": world})
        return check

    assert (found(floor).status, found(floor - 0.01).status) == ("pass", "warn")
    assert (found(floor, right=False).status, found(floor, right=False).severity) == ("fail", "gpu")


@pytest.mark.parametrize("value", [None, 0.0, -70.0, math.nan, math.inf], ids=str)
def test_a_value_that_is_no_speed_is_an_error_also_for_an_unknown_gpu(value: float | None) -> None:
    for subject in (L4, NEW):
        found = speed.judge("gemm.speed", subject, value, "TFLOPS", subject.gemm)
        assert (found.status, found.severity) == ("fail", "env")
        assert found.message == f"{subject.place} was timed without a result"
        copies = speed.host(subject, {"h2d": value, "d2h": 20.0, "same": True})
        assert verdict(copies) == {"h2d": "fail", "d2h": "skip"}


def test_copies_with_the_host() -> None:
    right = {"h2d": 20.0, "d2h": 20.0, "same": True}
    assert verdict(speed.host(CPU, right)) == {"h2d": "skip", "d2h": "skip"}
    assert [c.message for c in speed.host(CPU, right)] == ["not judged on the CPU"] * 2
    assert verdict(speed.host(NEW, right)) == {"h2d": "skip", "d2h": "skip"}
    assert verdict(speed.host(L4, {**right, "same": False})) == {"h2d": "fail"}


@pytest.mark.parametrize(
    ("wrong", "tested", "status", "severity"), [(0, 4, "pass", ""), (1, 4, "fail", "gpu"), (0, 0, "fail", "env")]
)
def test_the_pattern_in_memory(wrong: int, tested: int, status: str, severity: str) -> None:
    [found] = results.pattern(L4, {"wrong": wrong, "bytes": tested})
    assert (found.status, found.severity, found.value, found.fail_above) == (status, severity, wrong, 0)
    if wrong:
        assert found.message == "GPU 0 loses data: 1 of 1 words came back changed"


def test_sizes_are_printed_in_gigabytes() -> None:
    [found] = results.pattern(L4, {"wrong": 0, "bytes": 10 * 10**9})
    assert found.message == "10 GB came back as written, twice"
    total, taken = results.memory(
        Subject(0, "NVIDIA L4", mem_bytes=20 * 10**9), {"free": 6 * 10**9, "total": 10 * 10**9}
    )
    assert total.message == "GPU 0 shows 20 GB of memory, NVIDIA L4 has 22.32 at least"
    assert taken.message == "another process uses GPU 0: 4 of 10 GB are taken at the start"
    assert results.memory(NEW, {"free": 9_300_000_000, "total": 10**10})[1].message == "0.7 GB in use at the start"


@pytest.mark.parametrize(("error", "status"), [(1e-4, "pass"), (1.01e-4, "fail"), (None, "fail"), (0.0, "pass")])
def test_a_convolution(error: float | None, status: str) -> None:
    [found] = results.convolution(L4, {"error": error})
    assert (found.status, found.value) == (status, error)
    assert ("NaN" in found.message) is (error is None)


@pytest.mark.parametrize(
    ("first", "last", "finite", "status", "value"),
    [
        (2.0, 1.0, True, "pass", 0.5),
        (2.0, 1.0002, True, "fail", 0.5001),
        (3.0, 1.0, True, "pass", 0.3333),
        (2.0, 1.0, False, "fail", None),
        (None, 1.0, True, "fail", None),
        (2.0, None, True, "fail", None),
        (0.0, 0.0, True, "fail", 1.0),  # a loss of nothing has not become smaller
    ],
)
def test_training(first: float | None, last: float | None, finite: bool, status: str, value: float | None) -> None:
    [found] = results.training(L4, {"first": first, "last": last, "finite": finite, "steps": 30, "dtype": "float32"})
    assert (found.status, found.value) == (status, value)


@pytest.mark.parametrize(
    ("total", "taken", "status"),
    [
        (10_000_000_000, 750_000_000, "pass"),
        (10_000_000_000, 750_000_001, "fail"),
        (100_000_000_000, 3_000_000_000, "pass"),
        (100_000_000_000, 3_000_000_001, "fail"),
    ],
)
def test_memory_that_is_taken(total: int, taken: int, status: str) -> None:
    found = results.memory(NEW, {"free": total - taken, "total": total})
    assert verdict(found) == {"mem.total": "skip", "exclusive": status}
    assert found[1].value == taken


def test_the_memory_size_of_slices_and_cpus_is_not_checked() -> None:
    assert verdict(results.memory(SLICE, {"free": 10, "total": 10}))["mem.total"] == "skip"
    assert results.memory(SLICE, {"free": 10, "total": 10})[0].message == "10 GB; a MIG slice"
    assert results.memory(NEW, {"free": 10, "total": 10})[0].message == "10 GB; its expected size is unknown"
    assert verdict(results.memory(CPU, {})) == {"mem.total": "skip", "exclusive": "skip"}
