"""Run small suites with the plugin as pytest loads it, over a fake torch."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pytest_gpu_ci import machine

FAKES = Path(__file__).parent / "fakes"
L4 = ["NVIDIA L4", 22.0, 8, 9]
T4 = ["Tesla T4", 14.56, 7, 5]
L40S = ["NVIDIA L40S", 44.53, 8, 9]

Suite = Callable[..., pytest.RunResult]


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Suite:
    """Run a test file's source on the given GPUs; None is a machine whose Python has no torch."""
    # This run may be a worker's itself, and is not to be taken for one of the inner run's.
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_XDIST_TESTRUNUID", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)
    # Under CI pytest's closing summary repeats each failure whole, and a test that counts lines would count them twice.
    for name in ("CI", "BUILD_NUMBER"):
        monkeypatch.delenv(name, raising=False)
    # Set, so that what the plugin sets is taken back.
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    devices = tmp_path / "dev"
    devices.mkdir()
    monkeypatch.setattr(machine, "DEVICES", devices)

    def run(
        source: str,
        *args: str,
        gpus: list[Any] | None = None,
        process: bool = False,
        devices_of: int = 0,
        visible: str | None = None,
    ) -> pytest.RunResult:
        if visible is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        for index in range(devices_of):
            (devices / f"nvidia{index}").touch()
        (devices / "nvidiactl").touch()
        if gpus is not None:
            monkeypatch.setenv("FAKE_GPUS", json.dumps(gpus))
            monkeypatch.setenv("PYTHONPATH", str(FAKES))
            monkeypatch.syspath_prepend(FAKES)
        pytester.makepyfile(test_it=f"import pytest\n\n{source}")
        how = pytester.runpytest_subprocess if process else pytester.runpytest_inprocess
        return how("-p", "no:cacheprovider", "--strict-markers", "--strict-config", *args)

    return run


def lines_of(result: pytest.RunResult) -> list[str]:
    """Return the lines of the section about GPU tests."""
    at = next((at for at, line in enumerate(result.outlines) if " GPU tests " in line), None)
    if at is None:
        return []
    rest = result.outlines[at + 1 :]
    end = next((end for end, line in enumerate(rest) if line.startswith(("---", "===", "SKIPPED", "FAILED t"))), None)
    return [line for line in rest[:end] if line]
