"""The pytest hooks. pytest loads this module wherever the package is installed, so it imports nothing heavy."""

from __future__ import annotations

import contextlib
import os
import random
from collections import Counter
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from pytest_gpu_ci import machine, needs
from pytest_gpu_ci.machine import NO_GPU
from pytest_gpu_ci.session import MODES, Death, Session, Watch, is_dead, note, of, problem, synchronize

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


SHOWN = 5  # tests named in a line; the others are only counted


class Summary:
    """The summary in the process that reports. Under pytest-xdist the controller knows tests only by their reports."""

    def __init__(self, config: pytest.Config, workers: int, gpus: list[str]) -> None:
        self.mode = config.option.gpu
        self.sharing = (
            f"{workers} workers share {len(gpus)} GPU{'s'[: len(gpus) > 1]}" if workers > len(gpus) > 0 else ""
        )
        self.collects_only = config.option.collectonly
        self.ran: dict[str, str] = {}
        self.not_run: dict[str, str] = {}
        self.peaks: dict[str, float] = {}
        self.failed: set[str] = set()

    def pytest_report_header(self) -> list[str]:
        """Return the header line; empty without --gpu."""
        if self.mode is None:
            return []
        return [f"gpu: {self.mode}" + (f", {self.sharing}" if self.sharing else "")]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        properties: dict[str, Any] = dict(report.user_properties)
        node = report.nodeid
        if "gpu_not_run" in properties:
            self.not_run[node] = properties["gpu_not_run"]
        elif "gpu" in properties and report.when == "call" and (not report.skipped or hasattr(report, "wasxfail")):
            self.ran[node] = properties["gpu"]
        if report.failed:
            self.failed.add(node)
        if "gpu_peak_mib" in properties:
            self.peaks[node] = properties["gpu_peak_mib"]

    @property
    def vacuous(self) -> bool:
        """True if GPU tests were required, and none ran."""
        return self.mode in ("require", "strict") and not self.ran and not self.collects_only

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.vacuous and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        lines = self.lines()
        if lines:
            terminalreporter.section("GPU tests", "-")
            for line in lines:
                terminalreporter.write_line(line)

    def lines(self) -> list[str]:
        lines = []
        if self.ran:
            lines.append(f"{counted(self.ran)} ran on {', '.join(sorted(set(self.ran.values())))}")
        peaks = {node: mib for node, mib in self.peaks.items() if mib}
        if peaks:
            top = max(peaks, key=lambda node: peaks[node])
            lines.append(f"highest peak: {peaks[top]:,.1f} MiB in {top}")
        lines += did_not_run(list(self.not_run.values()))
        lines += hints([reason for node, reason in self.not_run.items() if node in self.failed])
        idle = [node for node in self.ran if self.peaks.get(node) == 0 and node not in self.failed]
        if idle:
            more = f" and {len(idle) - SHOWN} more" if len(idle) > SHOWN else ""
            lines.append(f"{counted(idle)} passed without GPU memory of torch: {', '.join(idle[:SHOWN])}{more}")
        if self.vacuous:
            found = f"{counted(self.not_run)} did not run" if self.not_run else "none was selected"
            lines.append(f"FAILED: --gpu={self.mode}, and no GPU test ran: {found}")
            if not self.not_run:
                lines.append('  hint: check -m, -k and the paths; use -m "not gpu" without --gpu')
        return lines


def counted(tests: Any) -> str:
    return f"{len(tests)} GPU test{'s'[: len(tests) != 1]}"


def hints(failed: list[str]) -> list[str]:
    """Return the hints for tests that failed without running, each once."""
    here = [text for _, at, text in (reason.partition("; here: ") for reason in failed) if at]
    lines = []
    if any(text.startswith(NO_GPU) for text in here):
        lines.append("  hint: run gpu-smoke diagnose for the reason; --gpu=off skips GPU tests")
    if not all(text.startswith(NO_GPU) for text in here):
        lines.append("  hint: --gpu=require skips tests that this machine cannot run")
    return lines


def did_not_run(reasons: list[str]) -> list[str]:
    """Return a line for each reason. The description of the machine is printed once."""
    lines = []
    by_place: dict[str, list[str]] = {}
    for reason in reasons:
        text, _, here = reason.partition("; here: ")
        by_place.setdefault(here, []).append(text)
    for here, needed in by_place.items():
        counts = Counter(needed).most_common()
        if here and len(counts) > 1:
            lines.append(f"{len(needed)} did not run; here: {here}")
            lines += [f"  {count}: {text}" for text, count in counts]
        else:
            end = f"; here: {here}" if here else ""
            lines += [f"{count} did not run: {text}{end}" for text, count in counts]
    return lines


GIB_IN_MIB = 1024
SEED = 0


@pytest.fixture(scope="session")
def gpu_device(request: pytest.FixtureRequest) -> Any:
    """The first GPU as a torch device. A test that uses this fixture is a GPU test, with or without the marker."""
    machine = request.config.stash[Session.KEY].machine
    if not machine.gpus:
        pytest.skip(f"needs 1 GPU; here: {machine.as_text()}")
    import torch

    return torch.device("cuda", 0)


@pytest.fixture
def gpu_devices(request: pytest.FixtureRequest) -> list[Any]:
    """The GPUs that the test's marker counts, as torch devices."""
    if Session.NEEDS not in request.node.stash:
        pytest.fail(
            "gpu_devices: requested while the test ran: add the marker gpu with the count it needs", pytrace=False
        )
    import torch

    return [torch.device("cuda", index) for index in range(request.node.stash[Session.NEEDS].count)]


@pytest.fixture
def gpu_seed() -> Iterator[int]:
    """Seed Python, NumPy and torch on every device, and make cuDNN choose the same algorithms each time."""
    random.seed(SEED)
    # Imported here, because the test may be the first to use it. Without NumPy there are no numbers to seed.
    with contextlib.suppress(ImportError):
        import numpy.random

        numpy.random.seed(SEED)
    try:
        import torch
    except ImportError:
        yield SEED
        return
    torch.manual_seed(SEED)
    cudnn = torch.backends.cudnn
    before = cudnn.deterministic, cudnn.benchmark
    cudnn.deterministic, cudnn.benchmark = True, False
    yield SEED
    cudnn.deterministic, cudnn.benchmark = before


@pytest.fixture
def _gpu_memory(request: pytest.FixtureRequest) -> Iterator[None]:
    """Measure a GPU test: wait for its kernels, clean up, record the peak, and fail a leak."""
    import torch

    item, session = request.node, of(request.node)
    wanted = item.stash[Session.NEEDS]
    watch = session.watch = Watch(torch, len(session.machine.gpus))
    try:
        yield
    finally:
        session.watch = None
    if session.death is not None:
        return
    # The values of the test's own fixtures are still referenced here, although they are torn down.
    item.funcargs.clear()
    used = watch.used(wanted.count)
    # A kernel that the test launched may fail after the test's last line. The error would be reported in the next test.
    late = synchronize(torch, used)
    if late is not None:
        if is_dead(torch, used):
            session.death = Death(item.nodeid, late)
        pytest.fail(f"CUDA failed after the test's last line: {late}", pytrace=False)
    peak = watch.peak_mib()
    note(item, "gpu_peak_mib", round(peak, 1))
    leaked = watch.leaked_mib()
    if item.stash[Session.FAILED]:
        return  # the traceback keeps the tensors of a failed test
    allowed = session.leak_mib if wanted.leak_mib is None else wanted.leak_mib
    problems = [
        f"leaked {mib:.1f} MiB on cuda:{gpu}, {allowed:g} allowed (gc and empty_cache did not free them)\n"
        "  hint: look for tensors in globals, caches and closures; leak_mib= of the gpu marker allows more"
        for gpu, mib in enumerate(leaked)
        if mib > allowed
    ]
    if peak / GIB_IN_MIB > wanted.peak_gib:
        problems.append(f"allocated {peak / GIB_IN_MIB:.2f} GiB at its highest, {wanted.peak_gib:g} allowed")
    if problems:
        note(item, "gpu_leaked_mib", round(max(leaked), 1))
        pytest.fail("\n".join(problems), pytrace=False)
