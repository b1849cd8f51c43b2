"""Run gpu-smoke as a command, over a fake torch."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from . import command, nvml_library
from .paths import FAKES, ROOT
from .receipt_schema import faults_of

ONE_GPU: list[dict[str, Any]] = [{}]


@dataclass(frozen=True)
class Outcome:
    """The results of one run."""

    code: int
    receipt: dict[str, Any]
    message: str
    stdout: str
    stderr: str

    @property
    def summary(self) -> str:
        return str(self.receipt["summary"])

    def bad(self) -> list[tuple[str, Any]]:
        """Return every check that did not pass, with its GPU."""
        return [(c["id"], c.get("gpu")) for c in self.receipt["checks"] if c["status"] in ("fail", "error")]

    def first_bad(self) -> dict[str, Any]:
        return next(c for c in self.receipt["checks"] if c["status"] in ("fail", "error"))


def environment(**fake: Any) -> dict[str, str]:
    """Return an environment with only the path, the package and the fakes, and the description of the fake GPUs."""
    path = os.pathsep.join([str(ROOT / "smoke"), str(FAKES)])
    fakes = {"FAKE_TORCH": json.dumps(fake), "GPU_SMOKE_ROOT": str(FAKES / "root")}
    return {"PATH": os.environ["PATH"], "PYTHONPATH": path, **fakes}


Smoke = Callable[..., Outcome]


@pytest.fixture(scope="session")
def nvml_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the fake libnvidia-ml.so.1."""
    return nvml_library.compile_library(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def smoke(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Smoke:
    """Run the command on the GPUs and faults that the keywords describe.

    `nvml` has the answers of the fake nvidia-ml-py, or with `library` those of the fake libnvidia-ml.so.1 in that
    folder.
    """

    output = tmp_path_factory.mktemp("output")

    def run(
        *args: str,
        env: dict[str, str] | None = None,
        nvml: dict[str, Any] | None = None,
        library: Path | None = None,
        **fake: Any,
    ) -> Outcome:
        receipt, message = tmp_path / "receipt.json", tmp_path / "message"
        about = environment(**{"gpus": ONE_GPU, **fake})
        if nvml is not None:
            about |= nvml_library.variables(library, nvml) if library else {"FAKE_NVML": json.dumps(nvml)}
        words = ["--json", str(receipt), "--termination-log", str(message), *args]
        code, stdout, stderr = command.run(words, {**about, **(env or {})}, output)
        assert "Traceback" not in stderr, stderr
        outcome = Outcome(code, json.loads(receipt.read_text()), message.read_text("utf-8"), stdout, stderr)
        assert faults_of(outcome.receipt) == []
        assert outcome.receipt["exit_code"] == code
        assert outcome.receipt["ok"] is (code == 0)
        return outcome

    return run


@pytest.fixture(params=["nvidia-ml-py", pytest.param("libnvidia-ml.so.1", marks=pytest.mark.slow)])
def smoke_either_way(request: pytest.FixtureRequest, smoke: Smoke, nvml_folder: Path) -> Smoke:
    """Run the command with nvidia-ml-py, and with our own binding of the library."""
    return smoke if request.param == "nvidia-ml-py" else partial(smoke, library=nvml_folder)
