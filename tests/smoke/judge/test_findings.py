"""Checks: their device, their meaning, and the one that decides the exit code."""

from __future__ import annotations

import pytest
from gpu_smoke import checks, faults
from gpu_smoke.checks import Check
from gpu_smoke.judge import completeness
from gpu_smoke.judge.subject import Subject
from gpu_smoke.options import Options
from gpu_smoke.plan import GEMM, PROFILES

from ..subjects import CPU, L4, NEW, SLICE, gpu

STANDARD = PROFILES["standard"]


def test_the_subject() -> None:
    assert (L4.place, CPU.place, L4.on_cpu, CPU.on_cpu) == ("GPU 0", "the CPU", False, True)
    assert (L4.capability, CPU.capability) == ((8, 9), None)
    assert (L4.slice, SLICE.slice, SLICE.key, NEW.key, NEW.row) == ("", "1g.10gb", "a100-80gb", "", None)
    assert (L4.share, SLICE.share, NEW.share) == (1.0, 14 / 108, 1.0)
    assert Subject(0, SLICE.name, "8.0", 200).share == 1.0
    assert Subject(0, "NVIDIA L4", "8.9", 29).share == 1.0  # whole, whatever it says
    assert (L4.timed, NEW.timed, Subject(0, "X", "7.5").timed) == (
        ("bfloat16", 8192),
        ("bfloat16", 8192),
        ("float16", 8192),
    )
    assert Subject.of("cuda", gpu(3)) == Subject(3, "NVIDIA L4", "8.9", 58, 24 * 10**9)
    assert Subject.of("cpu", {}) == CPU
    assert (Subject(0, "X").sm, Subject(0, "X").mem_bytes) == (0, 0)


def test_a_run_of_several_gpus_needs_the_checks_between_gpus_and_a_run_of_one_does_not() -> None:
    def missing(count: int) -> list[str]:
        subjects = [Subject(i, "NVIDIA New", "7.5", 10, 1) for i in range(count)]
        ids = {each for stage in (*STANDARD.gpu, *STANDARD.host) for each in stage.checks}
        found = [Check(i, "skip" if i.endswith(".speed") else "pass", "", s.index) for s in subjects for i in ids]
        found += [Check("shm.loader", "pass", ""), Check("nvml", "skip", "")]
        found += [
            Check(i, "pass", "", s.index, dtype) for s in subjects for i in GEMM for dtype in ("float32", "float16")
        ]
        return [
            check.message.removesuffix(", so the run cannot pass")
            for check in completeness.complete(STANDARD, subjects, found)
        ]

    assert missing(1) == []
    assert missing(2) == ["GPU 0 has no result for allreduce", "GPU 1 has no result for allreduce", "p2p has no result"]


def test_the_worst_finding_decides() -> None:
    means = {severity: faults.Meaning(severity, "none", "h") for severity in ("env", "gpu", "hang", "perf")}
    found = [checks.failure(name, name, means[name]) for name in ("perf", "env", "gpu", "hang")]
    found += [Check("a", "warn", "a"), Check("b", "skip", "b"), Check("c", "pass", "c")]
    found.insert(0, checks.failure("error", "error", means["env"], status="error"))
    assert [check.id for check in checks.bad(found)] == ["hang", "gpu", "error", "env", "perf"]
    assert checks.EXIT_CODES == {"hang": 4, "gpu": 1, "env": 2, "perf": 3}
    summary = checks.summary
    assert summary(Options("cuda", pool="p"), [], found) == "p: hang (and 4 more)"
    assert summary(Options("cuda"), [], found[1:2]) == "perf"
    assert summary(Options("cuda"), [], found[1:3]) == "env (and 1 more)"


def test_the_summary_of_a_pass_names_the_products_and_the_device() -> None:
    found = [
        Check(i, "pass", "", dtype=dtype) for dtype in ("float32", "float16") for i in ("gemm.element", "gemm.norm")
    ]
    found.append(Check("burn", "pass", "", dtype="bfloat16"))
    on_gpu, on_cpu = (Options(device, pool="p") for device in ("cuda", "cpu"))
    two = [{"name": "NVIDIA L4"}, {"name": "NVIDIA L4"}]
    right = "float32, float16 products are right"
    assert checks.summary(on_gpu, two, found) == f"p: 2 x NVIDIA L4: {right}, and the same every time"
    assert checks.summary(on_cpu, [], found) == f"p: {right} on the CPU: tests the check, not a GPU"


def test_a_warning_is_a_failure_where_none_is_wanted_and_nothing_else_changes() -> None:
    warned = checks.strict(Check("a", "warn", "a"))
    assert (warned.status, warned.severity, warned.action) == ("fail", "perf", "none")
    assert warned.hint == "--strict turns this warning into a failure"
    assert checks.strict(Check("a", "warn", "a", hint="h")).hint == "h"
    for status in ("pass", "skip", "fail", "error"):
        assert checks.strict(Check("a", status, "a")) == Check("a", status, "a")


def test_a_record_has_the_fields_of_the_check_including_zero_values() -> None:
    assert Check("a", "pass", "b", gpu=0, value=0.0).record() == {
        "id": "a", "status": "pass", "message": "b", "gpu": 0, "value": 0.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("code", "stage", "said", "severity", "action"),
    [
        (3, "kernel", "exited with code 3", "env", "fix-image"),
        (0, "kernel", "exited with code 0", "env", "fix-image"),
        (-9, "kernel", "died of SIGKILL", "env", "none"),
        (-4, "kernel", "died of SIGILL", "env", "fix-image"),
        (-11, "kernel", "died of SIGSEGV", "gpu", "replace-node"),
        (-11, "import", "died of SIGSEGV", "env", "fix-image"),
        (-11, "nvml", "died of SIGSEGV", "env", "fix-driver"),
        (-99, "import", "died of signal 99", "env", "fix-image"),
    ],
)
def test_the_end_of_a_worker_has_its_meaning(code: int, stage: str, said: str, severity: str, action: str) -> None:
    text, means = faults.death(code, stage)
    assert (text, means.severity, means.action) == (said, severity, action)


@pytest.mark.parametrize(
    ("stage", "on_cpu", "action"),
    [
        ("stopped", False, "none"),
        ("kernel", False, "replace-node"),
        ("kernel", True, "none"),
        ("devices", False, "reboot"),
        ("devices", True, "none"),
        ("end", False, "reboot"),
        ("end", True, "none"),
        ("import", False, "none"),
    ],
)
def test_a_hang_has_its_meaning(stage: str, on_cpu: bool, action: str) -> None:
    means = faults.hang(stage, on_cpu=on_cpu)
    assert (means.severity, means.action) == ("hang", action)
    assert ("the run was stopped" in means.hint) is (stage == "stopped")


@pytest.mark.parametrize(
    ("message", "stage", "severity", "action"),
    [
        ("CUDA error: OUT OF MEMORY", "kernel", "env", "none"),
        ("what?", "kernel", "gpu", "replace-node"),
        ("what?", "nvml", "env", "fix-driver"),
        ("what?", "import", "env", "fix-image"),
    ],
)
def test_an_error_of_torch_has_its_meaning(message: str, stage: str, severity: str, action: str) -> None:
    means = faults.meaning(message, stage)
    assert (means.severity, means.action) == (severity, action)


def test_one_line_is_one_and_not_too_long() -> None:
    assert faults.one_line("\n \x1b[1m\nsecond") == "[1m"
    assert faults.one_line("") == ""
    assert faults.one_line("x" * 300) == "x" * 300
    assert faults.one_line("x" * 301) == "x" * 299 + "…"
    assert faults.one_line("abc", 3) == "abc"
