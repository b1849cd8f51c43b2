"""Fixtures that tests of several folders share."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, settings

from tests.sandbox_runner import SandboxRunner

# No test depends on the machine's speed, so neither do the generated ones.
settings.register_profile("gpu-ci", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gpu-ci")

# A shell starts what runs in the background with Ctrl-C ignored, and whatever a test starts would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parent.parent

# Only `make test-kubernetes` names this folder, and whoever names it gets it: what it starts takes minutes to build.
collect_ignore = ["control_plane"]


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
    """A sandbox in which the stack of one pool is up, and how long that took here."""

    folder: Path
    up_sec: float


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of this run share."""
    base = tmp_path_factory.getbasetemp()
    # The workers' folders are side by side in the run's own.
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def lay_out(folder: Path) -> None:
    """This project in another folder, but for its stack files and sandbox.yaml.

    The program is copied: a link would lead its providers, and with them the sandbox, back to this checkout.
    """
    for name in ("components", ".venv", ".venv-torch"):
        (folder / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "infra", folder / "infra", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "Pulumi.yaml", folder)


@pytest.fixture(scope="session")
def one_pool(shared: Path) -> Path:
    """This project with a staging stack of one pool: what most engine tests need, in half the time of the whole."""
    project = shared / "one pool"
    with (shared / "one-pool.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not project.exists():
            draft = shared / "one pool draft"
            draft.mkdir()
            lay_out(draft)
            shutil.copy(ROOT / "sandbox.yaml", draft)
            from tests.infra import stack  # it loads Pulumi, which most runs of a few tests do not need

            whole = yaml.safe_load((ROOT / "Pulumi.staging.yaml").read_text()) | {"config": stack.one_pool()}
            (draft / "Pulumi.staging.yaml").write_text(yaml.safe_dump(whole, sort_keys=False))
            draft.rename(project)
    return project


@pytest.fixture(scope="session")
def proven_once(shared: Path, one_pool: Path) -> Proven:
    """That stack brought up once for all workers; tests that begin where it stands take a copy."""
    took = shared / "proven-took-sec"
    runner = SandboxRunner(project=one_pool, folder=shared / "proven sandbox")
    with (shared / "proven.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not took.is_file():
            began = time.monotonic()
            runner.run("up", "--stack", "staging", "--yes", "--skip-preview")
            assert runner.gone() == {}, "a process outlived the up"
            took.write_text(str(time.monotonic() - began))
    return Proven(runner.folder, float(took.read_text()))


@pytest.fixture
def proven(proven_once: Proven, one_pool: Path, tmp_path: Path) -> Iterator[SandboxRunner]:
    """A sandbox of this test's own in which the stack of one pool is up."""
    folder = tmp_path / "a sandbox"
    # Ports are allocated anew, or this copy would answer for the others.
    shutil.copytree(proven_once.folder, folder, ignore=shutil.ignore_patterns("ports.json"))
    runner = SandboxRunner(project=one_pool, folder=folder)
    yield runner
    runner.close()


@pytest.fixture
def sandbox(one_pool: Path, tmp_path: Path) -> Iterator[SandboxRunner]:
    """An empty sandbox of this test's own, over this checkout's program and a stack of one pool."""
    runner = SandboxRunner(project=one_pool, folder=tmp_path / "sandbox")
    yield runner
    runner.close()
