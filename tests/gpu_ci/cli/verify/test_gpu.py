"""`gpu-ci verify gpu`: with the real gpu-smoke on the CPU, and with what a machine with faults answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from gpu_ci.cli.verify import gpu
from gpu_ci.cli.verify.checklist import NotAskedError
from gpu_ci.cli.verify.programs import Output

from tests.gpu_ci.cli.conftest import Answer, Ask

ROOT = Path(__file__).resolve().parents[4]
RECEIPT = {"verdict": "pass", "seconds": 9.25, "summary": "1 x NVIDIA L4: right"}


def statuses(answer: Answer) -> dict[str, str]:
    return {step["name"]: step["status"] for step in answer.json["steps"]}


def machine(**outputs: Output | Exception) -> object:
    """A fake of `run`: what nvidia-smi, the diagnosis and each profile print."""

    def run(command: Sequence[str], timeout_sec: float = 0) -> Output:
        words = [word for word in outputs if word in command or command[0] == word.replace("_", "-")]
        answer = outputs[words[0]]
        if isinstance(answer, Exception):
            raise answer
        return answer

    return run


GOOD = {
    "nvidia_smi": Output(0, "Driver Version : 580.95\n", ""),
    "diagnose": Output(0, '{"summary": "nothing wrong was found"}', ""),
    "quick": Output(0, json.dumps(RECEIPT), ""),
    "standard": Output(0, json.dumps(RECEIPT), ""),
}


def test_every_step_passes_on_a_healthy_machine(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "run", machine(**GOOD))
    answer = ask("verify", "gpu", "--json")
    assert (answer.code, statuses(answer)) == (
        0,
        {"driver": "pass", "diagnosis": "pass", "quick": "pass", "standard": "pass"},
    )
    assert [step["got"] for step in answer.json["steps"]][2] == "pass in 9.2 s: 1 x NVIDIA L4: right"


@pytest.mark.parametrize(
    ("outputs", "step", "status"),
    [
        ({"nvidia_smi": Output(9, "NVIDIA-SMI has failed\n", "")}, "driver", "fail"),
        ({"nvidia_smi": NotAskedError("nvidia-smi is not installed")}, "driver", "unknown"),
        ({"diagnose": Output(2, '{"summary": "no GPU was given to this container"}', "")}, "diagnosis", "fail"),
        ({"quick": Output(1, json.dumps(RECEIPT | {"verdict": "fail"}), "")}, "quick", "fail"),
        ({"standard": Output(1, "", "Traceback\nModuleNotFoundError: gpu_smoke")}, "standard", "unknown"),
    ],
)
def test_what_is_wrong_fails_its_own_step_alone(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, outputs: dict[str, Output | Exception], step: str, status: str
) -> None:
    monkeypatch.setattr(gpu, "run", machine(**{**GOOD, **outputs}))
    answer = ask("verify", "gpu", "--json")
    expected = {**dict.fromkeys(("driver", "diagnosis", "quick", "standard"), "pass"), step: status}
    assert (answer.code, statuses(answer)) == (1, expected)


@pytest.mark.slow
def test_the_real_check_is_asked(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_SMOKE_DEVICE", "cpu")
    answer = ask("verify", "gpu", "--json", "--python", str(ROOT / ".venv-torch" / "bin" / "python"))
    found = statuses(answer)
    assert (found["quick"], found["standard"]) == ("pass", "pass")
    assert answer.json["steps"][2]["details"]["schema"] == "smoke/1"
