"""The machines of the catalog with all their GPUs, in virtual time: healthy ones pass, and broken ones fail."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Callable
from typing import Any

import gpu_catalog
import pytest
from gpu_smoke.judge.subject import Subject

from .. import virtual_time
from ..gpu_rates import MODELS, machine
from ..virtual_time import Machine

Patch = Callable[[pytest.MonkeyPatch, Machine], None]
IMPORT_SEC = 40.0  # gpu_rates.py
COLD_SEC = 200.0  # torch's import from the disk of a new machine (ROCm/pytorch#1232 has 216)


def run(key: str, *args: str, gpus: int = 0, patch: Patch | None = None, **more: Any) -> dict[str, Any]:
    chosen = machine(key, gpus)
    fake = {**chosen.fake, **more, "delays": {**chosen.fake["delays"], **more.get("delays", {})}}
    words = ["--expect-gpus", str(chosen.gpus), *args]
    return virtual_time.run(*words, nvml_gpus=chosen.nvml, patch=patch, **fake)


def standard(key: str, *args: str, **more: Any) -> dict[str, Any]:
    return run(key, "--profile", "standard", *args, **more)


def bad(record: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(check["id"], check.get("gpu")) for check in record["checks"] if check["status"] in ("fail", "error")]


def warned(record: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(check["id"], check.get("gpu")) for check in record["checks"] if check["status"] == "warn"]


def has_measurements(key: str) -> bool:
    return Subject(0, MODELS[key].name).row is not None


def stages(record: dict[str, Any], stage: str) -> list[dict[str, Any]]:
    return [each for each in record["measured"] if each["stage"] == stage]


def some(*quick: str) -> list[Any]:
    """Return every model. The models that are not named run with the slow tests."""
    return [key if key in quick else pytest.param(key, marks=pytest.mark.slow) for key in MODELS]


def test_every_gpu_of_the_catalog_is_emulated() -> None:
    assert set(MODELS) == {each.gpu.key for each in gpu_catalog.machines() if each.gpu.vendor == "nvidia"}


@pytest.mark.parametrize("key", some("h100"))
def test_a_healthy_machine_of_each_model_passes_standard_in_half_of_its_time(key: str) -> None:
    record = standard(key)
    assert bad(record) == []
    # Of a model without a measurement no speed is known, and the check says so.
    assert {check for check, _ in warned(record)} == (set() if has_measurements(key) else {"gemm.speed", "mem.speed"})
    count = len(record["gpus"])
    assert count == 8 or key in ("p4", "p100", "t4g", "gb200", "gb300")
    assert record["budget_seconds"] == 180 + 20 * (count - 1)
    assert record["seconds"] - IMPORT_SEC < record["budget_seconds"] / 2
    assert len(stages(record, "allreduce")) == count
    [copied] = stages(record, "p2p")
    assert len(copied["pairs"]) == count * (count - 1)
    assert copied["seconds"] < (60 + count * (count - 1)) / 2  # half of its limit


@pytest.mark.parametrize("key", some("t4"))
def test_one_gpu_of_each_model_takes_less_than_a_minute_once_torch_is_there(key: str) -> None:
    record = standard(key, gpus=1)
    assert bad(record) == []
    assert record["budget_seconds"] == 180
    assert record["seconds"] - IMPORT_SEC < 60


@pytest.mark.parametrize(
    ("key", "more", "found"),
    [
        # By way of the host, by NVLink, and by the host although there is an NVLink.
        ("v100", {"pairs": {"0-5": 2.0}}, [("p2p", None)]),
        pytest.param("v100", {"pairs": {"0-3": 10.0}}, [("p2p", None)], marks=pytest.mark.slow),
        pytest.param(
            "v100",
            {"by_host": ["0-3", "3-0"], "pairs": {"0-3": 6.85, "3-0": 6.85}},
            [("p2p", None)],
            marks=pytest.mark.slow,
        ),
        ("t4", {"speeds": {"sum": 2.0}}, [("allreduce", gpu) for gpu in range(8)]),
        pytest.param("l4", {"speeds": {"sum": 4.0}}, [("allreduce", gpu) for gpu in range(8)], marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_slow_links_between_gpus_are_warned_of(key: str, more: dict[str, Any], found: list[tuple[str, Any]]) -> None:
    healthy = machine(key).fake
    merged = {
        name: [*healthy[name], *given] if isinstance(given, list) else {**healthy.get(name, {}), **given}
        for name, given in more.items()
    }
    record = standard(key, **merged)
    assert (bad(record), warned(record)) == ([], found)


SICK = 5  # of eight
ON_FIVE: dict[str, tuple[dict[str, Any], int, list[tuple[str, int | None]]]] = {
    "slow products": ({"kind": "slow", "what": "gemm", "by": 0.7}, 3, [("gemm.speed", 5), ("gemm.peers", 5)]),
    "slow copies": ({"kind": "slow", "what": "copy", "by": 0.6}, 3, [("mem.speed", 5), ("mem.peers", 5)]),
    "a wrong element": ({"kind": "element", "by": 3.0}, 1, [("gemm.norm", 5), ("gemm.element", 5)]),
    "a corrupt link to its peers": ({"kind": "corrupt", "what": "peer"}, 1, [("p2p", None)]),
    "a wrong sum": ({"kind": "corrupt", "what": "sum"}, 1, [("allreduce", 5)]),
    "a product that hangs": ({"kind": "hang", "dtype": "float16"}, 4, [("deadline", 5)]),
    "a sum that hangs": ({"kind": "hang", "what": "sum"}, 4, [("deadline", 5)]),
}


@pytest.mark.slow
@pytest.mark.parametrize("key", ["h100", "t4"])
@pytest.mark.parametrize("what", ON_FIVE)
def test_one_sick_gpu_of_eight_is_found(what: str, key: str) -> None:
    fault, code, found = ON_FIVE[what]
    record = standard(key, faults=[{**fault, "gpu": SICK}])
    assert record["exit_code"] == code
    assert set(found) <= set(bad(record))
    assert {gpu for _, gpu in bad(record)} <= {SICK, None, 0 if found == [("deadline", 0)] else SICK}


@pytest.mark.slow
def test_copies_between_gpus_that_hang_are_given_up_a_second_a_pair_after_a_minute() -> None:
    record = standard("h100", gpus=4, faults=[{"kind": "hang", "what": "peer", "gpu": 2}])
    assert (record["exit_code"], bad(record)) == (4, [("deadline", 0)])
    assert record["summary"] == "GPU 0: no answer within 72 s while copying from GPU to GPU"


@pytest.mark.parametrize("profile", ["quick", pytest.param("standard", marks=pytest.mark.slow)])
def test_a_torch_that_comes_from_a_cold_disk_is_no_hang(profile: str) -> None:
    record = run("l4", "--profile", profile, gpus=1, delays={"cold": COLD_SEC})
    assert bad(record) == []
    assert record["seconds"] > COLD_SEC > record["budget_seconds"]


@pytest.mark.slow
def test_the_deadline_from_the_import_ends_a_hang_after_it() -> None:
    hang = [{"kind": "hang", "dtype": dtype} for dtype in ("float32", "float16", "bfloat16")]

    def no_limits(patch: pytest.MonkeyPatch, _: Machine) -> None:
        patch.setattr("gpu_smoke.plan.Task.limit_sec", 1e6)

    record = run("l4", gpus=2, faults=hang, patch=no_limits, delays={"cold": COLD_SEC, "nvml": 0, "cuda": 0})
    text = "no answer within 130 s of torch's import while multiplying float32 matrices"
    assert (record["exit_code"], record["summary"]) == (4, f"GPU 0: {text} (and 1 more)")
    assert 130 <= record["seconds"] - COLD_SEC < 132


@pytest.mark.parametrize("writable", ["/dev/shm", "nothing"])  # noqa: S108
def test_gpus_add_up_without_a_folder_for_temporary_files(writable: str) -> None:
    made: Any = tempfile.mkdtemp

    def read_only(patch: pytest.MonkeyPatch, _: Machine) -> None:
        def mkdtemp(prefix: str, dir: str | None = None) -> str:  # noqa: A002
            if dir != writable:
                raise OSError(errno.EROFS, "Read-only file system")
            return str(made(prefix=prefix))

        patch.setattr(tempfile, "mkdtemp", mkdtemp)

    record = standard("h100", gpus=2, patch=read_only)
    if writable == "/dev/shm":  # noqa: S108
        assert bad(record) == []
        assert len(stages(record, "allreduce")) == 2
        return
    assert (record["exit_code"], bad(record)) == (2, [("allreduce", None)])
    assert record["action"] == "fix-pool"
    assert record["summary"].startswith("the all-reduce has no folder for its file")


@pytest.mark.parametrize("host_pids", [False, True])
@pytest.mark.parametrize("role", ["", "gpu", "peers"])
def test_another_process_is_distinguished_from_the_checks_own_also_with_process_ids_of_the_host(
    role: str, host_pids: bool
) -> None:
    def neighbor(_: pytest.MonkeyPatch, machine: Machine) -> None:
        machine.host_pids = host_pids
        machine.neighbor = (1, role) if role else None

    record = standard("l4", gpus=3, patch=neighbor)
    assert bad(record) == ([("exclusive.processes", 1)] if role else [])
    if role:
        assert record["summary"] == "GPU 1 was used by 1 other process during the check"


def test_a_card_that_its_power_limit_holds_is_judged_once_it_is_warm() -> None:
    record = standard("t4", gpus=1, boost=42.0, boost_sec=5.0)
    [timed] = stages(record, "gemm.speed")
    assert (timed["first"], timed["tflops"], timed["heat_sec"]) == (42.0, 24.0, 10.0)
    [judged] = [check["value"] for check in record["checks"] if check["id"] == "gemm.speed"]
    assert judged == 24.0


def test_an_import_is_given_up_after_its_own_limit_or_the_given_deadline() -> None:
    def summary(*args: str, import_sec: float) -> str:
        return str(virtual_time.run(*args, gpus=[{}], delays={"cold": import_sec})["summary"])

    assert summary(import_sec=400) == "no answer within 300 s while importing torch"
    assert summary("--deadline-sec", "100", import_sec=400) == "no answer within 100 s while importing torch"
    assert " products are right" in summary("--deadline-sec", "600", import_sec=400)
