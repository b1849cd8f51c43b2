"""Fixtures that tests of several folders share."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.sandbox_runner import SandboxRunner

# No test depends on the machine's speed, so neither do the generated ones.
settings.register_profile("gpu-ci", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gpu-ci")

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def torch_python() -> Path:
    """The interpreter that has torch. Its absence is a failure: a skipped check proves nothing."""
    python = ROOT / ".venv-torch" / "bin" / "python"
    assert python.exists(), "torch is not installed; run: make torch"
    return python


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compare a text with tests/golden/<name>; GOLDEN=write (make golden) writes it instead."""

    def compare(name: str, text: str) -> None:
        path = ROOT / "tests" / "golden" / name
        if os.environ.get("GOLDEN") == "write":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"tests/golden/{name} is missing; run: make golden"
        assert path.read_text() == text, f"tests/golden/{name} differs; if that is meant, run: make golden"

    return compare


@dataclass(frozen=True)
class Proven:
    """A sandbox in which staging is up, and how long that took here."""

    folder: Path
    up_sec: float


@pytest.fixture(scope="session")
def proven_once(tmp_path_factory: pytest.TempPathFactory) -> Proven:
    """Staging brought up once for all workers; tests that begin where it stands take a copy."""
    # The workers' folders are side by side in the run's own.
    workers = "PYTEST_XDIST_WORKER" in os.environ
    base = tmp_path_factory.getbasetemp().parent if workers else tmp_path_factory.mktemp("proven")
    took = base / "proven-took-sec"
    runner = SandboxRunner(project=ROOT, folder=base / "proven sandbox")
    with (base / "proven.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not took.is_file():
            began = time.monotonic()
            runner.run("up", "--stack", "staging", "--yes", "--skip-preview")
            assert runner.gone() == {}, "a process outlived the up"
            took.write_text(str(time.monotonic() - began))
    return Proven(runner.folder, float(took.read_text()))


@pytest.fixture
def proven(proven_once: Proven, tmp_path: Path) -> Iterator[SandboxRunner]:
    """A sandbox of this test's own in which staging is up."""
    folder = tmp_path / "a sandbox"
    # Ports are allocated anew, or this copy would answer for the others.
    shutil.copytree(proven_once.folder, folder, ignore=shutil.ignore_patterns("ports.json"))
    runner = SandboxRunner(project=ROOT, folder=folder)
    yield runner
    runner.close()


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[SandboxRunner]:
    """An empty sandbox of this test's own, over this checkout's program and stack files."""
    runner = SandboxRunner(project=ROOT, folder=tmp_path / "sandbox")
    yield runner
    runner.close()
