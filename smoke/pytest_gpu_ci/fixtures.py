"""The fixtures that tests request by name, and the one that every GPU test gets."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import pytest

from pytest_gpu_ci.session import Death, Session, Watch, is_dead, note, of, synchronize

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
