"""Fixtures that tests of several folders share."""

from __future__ import annotations

import fcntl
import functools
import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from gpu_ci.kubernetes import arc_controller, tekton
from gpu_preview.environment.virtualenv import create, site_packages
from hypothesis import HealthCheck, settings

from tests import warm_program
from tests.sandbox_runner import SandboxRunner

# A worker that has spoken gRPC also starts git, with a limit of memory, for which Python forks. Where gRPC minds forks,
# it polls in that child what is closed there, and ends it: 15 of 600 times, and none with this.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

# No test depends on the machine's speed, so neither do the generated ones.
# `make test` has 25 examples of each where a test names no number; HYPOTHESIS_PROFILE=thorough has 200.
for _name, _examples in (("quick", 25), ("thorough", 200)):
    settings.register_profile(
        _name, deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=_examples
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

# A shell starts what runs in the background with Ctrl-C ignored, and whatever a test starts would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Garbage collections scan imported modules for a tenth of the time, of the imports and of the tests.
gc.set_threshold(50_000, 20, 100)

ROOT = Path(__file__).resolve().parent.parent

WARM_PROGRAMS = pytest.StashKey[subprocess.Popen[bytes]]()


def pytest_configure(config: pytest.Config) -> None:
    """Start the server of programs once for all workers. It ends with this process."""
    if not hasattr(config, "workerinput"):
        config.stash[WARM_PROGRAMS] = warm_program.start()


def pytest_collection_finish() -> None:
    """Make what the tests load cheaper."""
    gc.freeze()
    # For each call, Google's client writes the documentation of every method of a collection again, and computes the
    # names of their parameters. That was most of the client's time. No test reads the documentation.
    if (schema := sys.modules.get("googleapiclient.schema")) is not None:
        schema.Schemas.prettyPrintSchema = schema.Schemas.prettyPrintByName = lambda *_: ""
    if (discovery := sys.modules.get("googleapiclient.discovery")) is not None:
        discovery.key2param = functools.cache(discovery.key2param)
        # Each client reads its discovery document again, one of which has 2 MB.
        discovery.json = SimpleNamespace(loads=functools.cache(json.loads))
    # OpenSSL proves that the numbers of a key are prime each time when a key is read.
    if (crypt := sys.modules.get("google.auth.crypt")) is not None:
        crypt.RSASigner.from_string = functools.cache(crypt.RSASigner.from_string)


# Only `make test-kubernetes`, `make test-tekton` and `make test-monitoring` name these folders, whose tests
# need programs that are built or downloaded first.
collect_ignore = ["control_plane", "monitoring", "tekton"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin each worker's share with its part of the engine tests, which take the longest.

    xdist's worksteal gives every worker an equal run of neighbours, so one worker would have nearly all of them.
    """
    if os.environ.get("GOLDEN") == "write":  # those alone that have a golden file, the slow ones among them
        items[:] = [item for item in items if "golden" in getattr(item, "fixturenames", ())]
    workers: int = getattr(config, "workerinput", {}).get("workercount", 1)
    engine = [item for item in items if item.get_closest_marker("engine")]
    others = [item for item in items if not item.get_closest_marker("engine")]
    bounds = [len(others) * worker // workers for worker in range(workers + 1)]
    items[:] = [
        item
        for worker in range(workers)
        for item in (*engine[worker::workers], *others[bounds[worker] : bounds[worker + 1]])
    ]


@pytest.fixture(scope="session")
def wheel(shared: Path) -> Path:
    """The wheel of this checkout."""
    build = [ROOT / ".tools" / "bin" / "uv", "build", "-q", "--wheel", "-o", shared / "wheel", ROOT]
    [found] = once(shared / "wheel", lambda: subprocess.run(build, check=True)).glob("*.whl")
    return found


@pytest.fixture(scope="session")
def torch_python() -> Path:
    """The interpreter that has torch. Its absence is a failure: a skipped check proves nothing."""
    python = ROOT / ".venv-torch" / "bin" / "python"
    assert python.exists(), "torch is not installed; run: make torch"
    return python


@pytest.fixture(scope="session")
def policy_python() -> Path:
    """The interpreter of the policy pack. Its absence is a failure, as that of torch is."""
    python = ROOT / ".venv-policy" / "bin" / "python"
    assert python.exists(), "the policy pack's environment is not installed; run: make policy"
    return python


@pytest.fixture(scope="session")
def notebook_python() -> Path:
    """The interpreter of the tasks of notebook pipelines. Its absence is a failure, as that of torch is."""
    python = ROOT / ".venv-notebook" / "bin" / "python"
    assert python.exists(), "the environment of notebooks is not installed; run: make notebook-tools"
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


@pytest.fixture
def short_definitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """ARC's and Tekton's definitions without their schemas: the SDK would convert 400 KB in each deployment on mocks.

    test_arc_controller.py and the tests on the engine have them whole.
    """

    def short(one: dict[str, Any]) -> dict[str, Any]:
        versions = [{**version, "schema": {}} for version in one["spec"]["versions"]]
        return {**one, "spec": {**one["spec"], "versions": versions}}

    for module in (arc_controller, tekton):
        short_ones = [short(one) for one in module.definitions()]
        monkeypatch.setattr(module, "definitions", lambda found=short_ones: found)


@dataclass(frozen=True)
class BroughtUp:
    """A sandbox in which a stack is up, how long that took here, what it printed, and what it did, in this order."""

    folder: Path
    up_sec: float
    output: str
    done: list[tuple[str, str]]


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of this run share."""
    base = tmp_path_factory.getbasetemp()
    # The workers' folders are side by side in the run's own.
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session", autouse=True)
def _no_kernels_left_behind(shared: Path) -> None:
    """torch's optimizers load its compiler, which makes a folder for kernels where all temporary files are."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(shared / "torchinductor")


def imports(environment: Path) -> list[str]:
    """The folders that an environment imports from: its packages, and those of this project."""
    [packages] = site_packages(environment)
    lines = [line for file in sorted(packages.glob("*.pth")) for line in file.read_text().splitlines()]
    return [str(packages), *(line for line in lines if line.startswith("/"))]


def lay_out(folder: Path) -> None:
    """This project in another folder, but for its stack files and sandbox.yaml.

    The program is copied: a link would lead its providers, and with them the sandbox, back to this checkout.
    """
    for name in ("agent", "components", ".venv-torch"):
        (folder / name).symlink_to(ROOT / name)
    # An environment of its own: Pulumi's own language host installs into that of a plugin whose schema it is asked for.
    create(ROOT / ".venv", folder / ".venv", imports(ROOT / ".venv"))
    shutil.copytree(ROOT / "infra", folder / "infra", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "Pulumi.yaml", folder)


def once(folder: Path, make: Callable[[], object]) -> Path:
    """Make a folder that all workers share, in the first worker that needs it."""
    done = folder.with_name(f"{folder.name}.done")
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            folder.mkdir()
            make()
            done.touch()
    return folder


def with_fake_torch(settings: str) -> str:
    """Return a sandbox.yaml whose machines check the GPU with the fake torch, in a tenth of the time."""
    found = yaml.safe_load(settings)
    found["guest"]["environment"]["PYTHONPATH"] = str(ROOT / "tests" / "smoke" / "fakes")
    return yaml.safe_dump(found)


def sandbox_settings() -> dict[str, Any]:
    """Return the sandbox.yaml of this checkout, with the fake torch."""
    settings: dict[str, Any] = yaml.safe_load(with_fake_torch((ROOT / "sandbox.yaml").read_text()))
    return settings


def project_of(shared: Path, name: str, config: dict[str, Any], settings: dict[str, Any]) -> Path:
    """This project with another config in its staging stack and another sandbox.yaml, made once for all workers."""
    project = shared / name

    def make() -> None:
        lay_out(project)
        (project / "sandbox.yaml").write_text(yaml.safe_dump(settings))
        whole = yaml.safe_load((ROOT / "Pulumi.staging.yaml").read_text()) | {"config": config}
        (project / "Pulumi.staging.yaml").write_text(yaml.safe_dump(whole, sort_keys=False))

    return once(project, make)


def bring_up(project: Path, fault: Sequence[str] = ()) -> BroughtUp:
    """The project's stack brought up once for all workers; with a fault of the world, as far as it comes."""
    name = " ".join((project.name, *fault)).replace("/", "-")
    kept = project.with_name(f"{name} up.json")
    runner = SandboxRunner(project=project, folder=project.with_name(f"{name} sandbox"))

    def make() -> None:
        if fault:
            runner.run("world", "break", *fault)
        # What does not need the broken resource is made too: without this it would depend on which one is faster.
        beyond = ["--continue-on-error"] if fault else []
        began = time.monotonic()
        up, done = runner.steps("up", "--stack", "staging", "--yes", "--skip-preview", *beyond, ok=not fault)
        assert runner.gone() == {}, "a process outlived the up"
        kept.write_text(json.dumps([time.monotonic() - began, up.output, done]))

    once(runner.folder, make)
    up_sec, output, done = json.loads(kept.read_text())
    return BroughtUp(runner.folder, up_sec, output, [(operation, name) for operation, name in done])


def copied(project: Path, there: BroughtUp, folder: Path) -> SandboxRunner:
    """A sandbox of one test's own in which the project's stack was brought up."""
    # Ports are allocated anew, or this copy would answer for the others.
    shutil.copytree(there.folder, folder, ignore=shutil.ignore_patterns("ports.json"))
    return SandboxRunner(project=project, folder=folder)


@pytest.fixture(scope="session")
def one_pool(shared: Path) -> Path:
    """This project with a staging stack of one pool: what most engine tests need, in half the time of the whole."""
    from tests.gpu_ci.program import stack  # it loads Pulumi, which most runs of a few tests do not need

    return project_of(shared, "one pool", stack.one_pool(), sandbox_settings())


@pytest.fixture(scope="session")
def proven_once(one_pool: Path) -> BroughtUp:
    """That stack brought up once for all workers; tests that begin where it stands take a copy."""
    return bring_up(one_pool)


@pytest.fixture
def proven(proven_once: BroughtUp, one_pool: Path, tmp_path: Path) -> Iterator[SandboxRunner]:
    """A sandbox of this test's own in which the stack of one pool is up."""
    runner = copied(one_pool, proven_once, tmp_path / "a sandbox")
    yield runner
    runner.close()


@pytest.fixture
def sandbox(one_pool: Path, tmp_path: Path) -> Iterator[SandboxRunner]:
    """An empty sandbox of this test's own, over this checkout's program and a stack of one pool."""
    runner = SandboxRunner(project=one_pool, folder=tmp_path / "sandbox")
    yield runner
    runner.close()
