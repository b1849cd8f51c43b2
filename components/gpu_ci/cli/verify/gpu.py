"""The checklist of `gpu-ci verify gpu`: checks the GPUs of the machine on which the command runs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from gpu_ci.cli.verify.checklist import Finding, NotAskedError, Step
from gpu_ci.cli.verify.programs import Output, run

_SMOKE_TIMEOUT_SEC = 900


@dataclass(frozen=True)
class GpuMachine:
    """The machine on which the command runs: the path of the Python with torch, and the expected number of GPUs."""

    python: str
    gpus: int

    def gpu_smoke(self, *arguments: str) -> Output:
        return run([self.python, "-m", "gpu_smoke", *arguments], _SMOKE_TIMEOUT_SEC)


def driver_answers(_: GpuMachine) -> Finding:
    output = run(["nvidia-smi", "-q"])
    if output.code:
        lines = (output.out + output.err).strip().splitlines() or ["no output"]
        return Finding("fail", f"nvidia-smi exits with {output.code}: {lines[-1]}")
    return Finding("pass", "nvidia-smi answers", output.out)


def diagnosis(machine: GpuMachine) -> Finding:
    output = machine.gpu_smoke("diagnose", "--json", "-")
    found = _json(output)
    return Finding("fail" if output.code else "pass", str(found["summary"]), found)


def profile(name: str, machine: GpuMachine) -> Finding:
    output = machine.gpu_smoke("--profile", name, "--expect-gpus", str(machine.gpus), "--json", "-")
    receipt = _json(output)
    got = f"{receipt['verdict']} in {receipt['seconds']:.1f} s: {receipt['summary']}"
    return Finding("pass" if receipt["verdict"] == "pass" else "fail", got, receipt)


def quick(machine: GpuMachine) -> Finding:
    return profile("quick", machine)


def standard(machine: GpuMachine) -> Finding:
    return profile("standard", machine)


def _json(output: Output) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(output.out)
    except ValueError:
        lines = output.err.strip().splitlines() or [f"exit code {output.code}"]
        raise NotAskedError(f"gpu-smoke: {lines[-1]}") from None
    return found


STEPS: tuple[Step[GpuMachine], ...] = (
    Step(
        "driver", "nvidia-smi -q", "every GPU is listed", "run gpu-smoke diagnose", driver_answers,
    ),
    Step(
        "diagnosis", "gpu-smoke diagnose", "exit code 0", "the output has the next command to run", diagnosis,
    ),
    Step(
        "quick", "gpu-smoke --profile quick", "pass, within 15 s once torch is loaded",
        "docs/how-it-works/gpu-checks.md has a row for each check", quick,
    ),
    Step(
        "standard", "gpu-smoke --profile standard", "pass, within 60 s for one GPU",
        "docs/reference/gpu-floors.md has the limits; attach the file of `gpu-ci verify` to an issue", standard,
    ),
    Step(
        "cold start", "sync; echo 3 > /proc/sys/vm/drop_caches; gpu-smoke --profile quick",
        "pass, and the import of torch within 300 s", "attach the receipt: gpu-smoke --json receipt.json",
    ),
    Step(
        "repeats", "gpu-smoke --profile standard --json receipts/1.json",
        "five runs pass, with speeds within 10 %", "use your own floors: gpu-smoke --specs receipts/",
    ),
    Step(
        "burn", "gpu-smoke --profile burn --burn-sec 300", "pass", "look for throttling in the receipt",
    ),
    Step(
        "slow on purpose", "nvidia-smi -lgc 300; gpu-smoke --profile standard; nvidia-smi -rgc",
        "exit code 3", "if the slow GPU passes, attach the receipt to an issue",
    ),
    Step(
        "in a pod", "gpu-smoke --profile quick", "pass in a pod without root and with a read-only root file system",
        "docs/guides/kubernetes.md lists the needs of a pod",
    ),
    Step(
        "pytest", "pytest examples/gpu-tests", "tests run and are not skipped", "docs/guides/gpu-tests.md",
    ),
)  # fmt: skip
