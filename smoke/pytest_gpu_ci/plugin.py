"""The pytest hooks. pytest loads this module wherever the package is installed, so it imports nothing heavy."""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

import pytest

from pytest_gpu_ci import machine, needs
from pytest_gpu_ci.fixtures import _gpu_memory, gpu_device, gpu_devices, gpu_seed
from pytest_gpu_ci.session import MODES, Session, of, problem
from pytest_gpu_ci.summary import Summary

__all__ = ["_gpu_memory", "gpu_device", "gpu_devices", "gpu_seed"]

# Each option and its help text. A test compares the tables of docs/guides/gpu-tests.md with it and with MARKERS.
OPTIONS = {
    "--gpu": "auto skips GPU tests without a GPU; require fails without a GPU, or if no GPU test ran; "
    "strict also fails each test that this machine cannot run; off skips all GPU tests",
    "--gpu-id": "the GPUs to use, by position among the visible ones, such as 0 or 0,2",
    "--gpu-share": "let more pytest-xdist workers run than there are GPUs",
}
MARKERS = {
    "gpu": f"needs a GPU; takes {', '.join(needs.ARGUMENTS)}",
    "multi_gpu": "the same as gpu, with count=2 by default",
    "slow": 'a slow test; -m "not slow" skips it',
}
LEAK_INI = "MiB a GPU test may leave allocated, or any"

WORKER_DIED = 70  # EX_SOFTWARE of sysexits.h
GPU_FIXTURES = {"gpu_device", "gpu_devices"}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gpu", "GPU tests")
    # No default: an explicit auto does more than no option, because it also assigns GPUs to workers.
    group.addoption("--gpu", choices=MODES, default=None, help=OPTIONS["--gpu"])
    group.addoption("--gpu-id", default=None, metavar="PLACES", help=OPTIONS["--gpu-id"])
    group.addoption("--gpu-share", action="store_true", help=OPTIONS["--gpu-share"])
    parser.addini("gpu_leak_mib", LEAK_INI, default="1")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Choose GPUs before any conftest file can use CUDA."""
    choose_gpus(early_config)


def choose_gpus(early_config: pytest.Config) -> None:
    """Set CUDA_VISIBLE_DEVICES. Without an option of this plugin nothing changes."""
    known = early_config.known_args_namespace
    if known.gpu_id is None and known.gpu in (None, "off"):
        return
    worker = machine.place_of_worker()
    # A worker inherits the CUDA_VISIBLE_DEVICES that --gpu-id set in the process that started it.
    gpus, lines = machine.chosen(None if worker else known.gpu_id)
    if lines:
        raise pytest.UsageError(problem(*lines))
    if worker and gpus:
        gpus = machine.of_worker(*worker, gpus)
    # An empty list does not prove that there is no GPU. Setting an empty variable would hide it.
    if gpus and (worker or known.gpu_id is not None):
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)


def pytest_configure(config: pytest.Config) -> None:
    for name, meaning in MARKERS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")
    limit = config.getini("gpu_leak_mib")
    try:
        leak_mib = needs.limit("any" if limit == "any" else float(limit))
    except ValueError:
        expected = needs.ARGUMENTS["leak_mib"][1]
        raise pytest.UsageError(
            problem("pytest: gpu_leak_mib: invalid value", f"got: {limit!r}", f"expected: {expected}")
        ) from None
    workers = 0 if hasattr(config, "workerinput") else workers_of(config)
    gpus = machine.visible()
    if config.option.gpu not in (None, "off"):
        lines = machine.too_many(workers, gpus, config.option.gpu_share)
        if lines:
            raise pytest.UsageError(problem(*lines))
    session = config.stash[Session.KEY] = Session(config.option.gpu or "auto", leak_mib)
    is_worker = hasattr(config, "workerinput")
    config.pluginmanager.register(Worker(session) if is_worker else Summary(config, workers, gpus))


def workers_of(config: pytest.Config) -> int:
    """Return the number of workers that pytest-xdist will start; 0 without it."""
    distributed = getattr(config.option, "dist", "no") != "no"
    return len(getattr(config.option, "tx", None) or ()) if distributed else 0


def pytest_itemcollected(item: pytest.Item) -> None:
    """Make `-m gpu` and `-m multi_gpu` select every test that needs GPUs, by marker or by fixture."""
    names: list[str] = getattr(item, "fixturenames", [])
    markers = [marker for marker in item.iter_markers() if marker.name in ("gpu", "multi_gpu")]
    if not markers and not GPU_FIXTURES & set(names):
        return
    item.add_marker("gpu")
    wanted, problems = needs.read(markers)
    where = item.nodeid.replace("::", ": ", 1)
    item.stash[Session.PROBLEMS] = [
        problem(f"{where}: {what}", f"got: {got}", f"expected: {expected}") for what, got, expected in problems
    ]
    if wanted.count > 1:
        item.add_marker("multi_gpu")
    item.stash[Session.NEEDS] = wanted
    # First, so that it is torn down last among the test's own fixtures. The list is shared with the function's other
    # parameters, some of which may need no GPU.
    item.fixturenames = ["_gpu_memory", *names]  # type: ignore[attr-defined]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    found = [text for item in items for text in item.stash.get(Session.PROBLEMS, [])]
    # A worker of pytest-xdist cannot pass a usage error on, so there the tests fail with these texts.
    if found and not hasattr(config, "workerinput"):
        raise pytest.UsageError(*found)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if Session.NEEDS in item.stash:
        of(item).admit(item, item.stash[Session.NEEDS])


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: Any) -> Generator[None, object, object]:
    watch = request.config.stash[Session.KEY].watch
    if watch is None or fixturedef.scope == "function":
        return (yield)
    with watch.paused():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    if (
        Session.NEEDS in item.stash
        and call.excinfo is not None
        and not call.excinfo.errisinstance(pytest.skip.Exception)
    ):
        of(item).failed(item, call.excinfo.value)
    return (yield)


class Worker:
    """Hooks in a process that pytest-xdist started."""

    def __init__(self, session: Session) -> None:
        self.session = session

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """End a worker whose CUDA failed, after its report is sent. pytest-xdist replaces it, and the other tests run.

        The worker ends before it reports the test as complete. Otherwise pytest-xdist would report the next test as
        crashed.
        """
        if report.when == "teardown" and self.session.death is not None:
            os._exit(WORKER_DIED)
