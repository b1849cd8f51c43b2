"""The use of the GPUs while a job runs, from an nvidia-smi that works, or that fails in some way."""

from __future__ import annotations

import math
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gpu_agent.clock import Clock
from gpu_agent.machine import system
from gpu_agent.machine.gpu_use import GpuUse, Sampler, Samples, price, summary
from gpu_agent.machine.system import System
from hypothesis import given
from hypothesis import strategies as st

ONE, TWO = "GPU-11111111-aaaa", "GPU-22222222-bbbb"
GOOD = f"{ONE}, 50, 900, 100.00\n{TWO}, 100, 700, 200.50\n"


def sampled(*lines: tuple[float, str], until: float, uuids: tuple[str, ...] = (ONE,)) -> GpuUse | None:
    """Return the use of a job that starts at 0, from lines at these times."""
    samples = Samples(uuids, 0)
    for at, line in lines:
        samples.add(line, at)
    return samples.use(until)


def test_a_sample_stands_for_the_time_since_the_one_before_and_the_last_one_until_the_end() -> None:
    use = sampled(
        (0, f"{ONE}, 0, 3, 80.0"),
        (0, f"{TWO}, 0, 3, 80.0"),
        (2, f"{ONE}, 100, 9120, 300"),
        (2, f"{TWO}, 0, 20, 80"),
        (3, f"{ONE}, 50, 400, 200"),
        (3, f"{TWO}, 10, 20, 80.4"),
        until=3.5,
        uuids=(ONE, TWO),
    )
    assert use == GpuUse(0.4, 9120, (2 * 300 + 1.5 * 200) + (2 * 80 + 1.5 * 80.4))


def test_a_job_that_ends_before_the_second_sample_has_no_use() -> None:
    """The first one is of the time before the job, in which the GPU did nothing."""
    assert sampled((0, f"{ONE}, 0, 3, 80.0"), until=1) is None


@pytest.mark.parametrize(
    ("line", "use"),
    [
        (f"{ONE}, [N/A], 900, 100", GpuUse(None, 900, 200.0)),
        (f"{ONE}, 50, [Not Supported], 100", GpuUse(0.5, None, 200.0)),
        (f"{ONE}, 50, 900, [N/A]", GpuUse(0.5, 900, None)),
        (f"{ONE}, 0, 0, 0.00", GpuUse(0.0, 0, 0.0)),
        (f"{ONE}, 101, -1, nan", None),
        (f"{ONE}, 1e2, 0x10, inf", None),
        (f"{ONE}, [Unknown Error], [GPU requires reset], {'9' * 400}", None),
        (f"{ONE}, 50, 900", None),
        (f"{TWO}, 50, 900, 100", None),
        ("No devices were found", None),
        ("", None),
    ],
)
def test_a_value_that_is_missing_or_no_number_is_none_and_never_zero(line: str, use: GpuUse | None) -> None:
    assert sampled((0, line), (1, line), until=2) == use


def test_values_of_one_gpu_of_two_do_not_count_as_those_of_both() -> None:
    assert sampled((0, GOOD.splitlines()[0]), (1, GOOD.splitlines()[0]), until=2, uuids=(ONE, TWO)) is None


@pytest.mark.parametrize("times", [(0, 1, 17), (0, 16), (0, 1)])
def test_the_energy_is_unknown_if_samples_are_missing_for_a_while(times: tuple[int, ...]) -> None:
    line = f"{ONE}, 50, 900, 100"
    assert sampled(*((at, line) for at in times), until=18) == GpuUse(0.5, 900, None)


@given(st.lists(st.one_of(st.text(), st.from_regex(rf"{ONE}(, (\d{{1,4}}|\[N/A\]|-1|1e999)){{2,4}}", fullmatch=True))))
def test_no_line_raises_or_gives_a_value_out_of_range(lines: list[str]) -> None:
    samples = Samples((ONE,), 0)
    for at, line in enumerate(lines):
        samples.add(line, at)
    util_avg, mem_max_mib, joules = samples.use(len(lines)) or GpuUse(None, None, None)
    assert util_avg is None or 0 <= util_avg <= 1
    assert mem_max_mib is None or 0 <= mem_max_mib <= 999_999_999
    assert joules is None or 0 <= joules < 1e12


Start = Callable[[str], Sampler]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Start to measure, with this Python program as nvidia-smi."""
    monkeypatch.setitem(system.ENVIRONMENT, "PATH", f"{tmp_path}:{os.environ['PATH']}")
    started: list[Sampler] = []

    def start(program: str) -> Sampler:
        path = tmp_path / "nvidia-smi"
        path.with_suffix(".py").write_text(f"import os, signal, sys, time\nGOOD = {GOOD!r}\n{program}")
        path.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -S "$0.py" "$@"\n')
        path.chmod(0o755)
        started.append(Sampler(System(tmp_path), (ONE, TWO), Clock()))
        started[-1].start()
        return started[-1]

    yield start
    for each in started:
        each.stop()


def until(done: Callable[[], object]) -> None:
    """Wait until the condition is met. The time limit is longer than it ever takes."""
    limit = time.monotonic() + 30
    while not done():
        assert time.monotonic() < limit
        time.sleep(0.01)


def code_of(sampler: Sampler) -> int | None:
    assert sampler._process
    return sampler._process.poll()


PRINTS = "while True: sys.stdout.write(GOOD); sys.stdout.flush(); time.sleep(0.2)"


def test_one_nvidia_smi_measures_until_it_is_ended(start: Start, tmp_path: Path) -> None:
    sampler = start(f"open({str(tmp_path / 'arguments')!r}, 'w').write(' '.join(sys.argv[1:]))\n{PRINTS}")
    until(sampler.use)
    sampler.stop()
    use = sampler.use()
    assert use is not None
    assert (use.util_avg, use.mem_max_mib) == (0.75, 900)
    assert use.joules is not None
    assert use.joules > 0
    sampler._clock.now = lambda: math.inf  # type: ignore[method-assign]
    assert (code_of(sampler), sampler.use()) == (-9, use)
    assert (tmp_path / "arguments").read_text() == (
        "--query-gpu=uuid,utilization.gpu,memory.used,power.draw --format=csv,noheader,nounits --loop-ms=1000"
    )


@pytest.mark.parametrize(
    "program",
    [
        "sys.exit(9)",
        "os.kill(os.getpid(), signal.SIGSEGV)",
        "print('Failed to initialize NVML: Driver/library version mismatch')",
        "sys.stdout.buffer.write(bytes(range(256)) * 10)",
        "sys.stderr.write('x' * 1_000_000); sys.exit(1)",
    ],
)
def test_an_nvidia_smi_that_fails_measures_nothing(start: Start, program: str) -> None:
    sampler = start(program)
    until(lambda: code_of(sampler) is not None)
    assert sampler.use() is None
    sampler.stop()
    assert sampler.use() is None


@pytest.mark.parametrize("first", ["", "signal.signal(signal.SIGTERM, signal.SIG_IGN); "])
def test_an_nvidia_smi_that_hangs_is_ended_with_the_job(start: Start, first: str, tmp_path: Path) -> None:
    sampler = start(f"{first}open({str(tmp_path / 'hangs')!r}, 'w'); time.sleep(1000)")
    until((tmp_path / "hangs").exists)
    assert code_of(sampler) is None
    sampler.stop()
    assert (code_of(sampler), sampler.use()) == (-9, None)


@pytest.mark.parametrize(
    ("line", "use"),
    [("'x' * 50_000_000", None), ("'garbage' + chr(10)", None), ("GOOD", (0.75, 900))],
)
def test_an_nvidia_smi_that_floods_is_ended_before_the_job(
    start: Start, line: str, use: tuple[float, int] | None
) -> None:
    sampler = start(f"while True: sys.stdout.write({line})")
    until(lambda: code_of(sampler) is not None)
    assert code_of(sampler) == -9
    found = sampler.use()
    assert (found and found[:2]) == use


def test_a_child_that_keeps_the_output_open_does_not_delay_the_stop(start: Start) -> None:
    sampler = start(f"if os.fork(): time.sleep(1000)\n{PRINTS}")
    until(sampler.use)
    sampler.stop()
    assert code_of(sampler) == -9


def test_without_nvidia_smi_nothing_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(system.ENVIRONMENT, "PATH", str(tmp_path))
    sampler = Sampler(System(tmp_path), (ONE,), Clock())
    assert (sampler.use(), sampler.job_started_sec) == (None, None)
    sampler.start()
    sampler.stop()
    assert sampler.use() is None
    assert sampler.job_started_sec is not None


def test_a_sampler_that_was_stopped_before_its_process_started_leaves_none(start: Start) -> None:
    sampler = start(PRINTS)
    sampler.stop()
    sampler.start()
    until(lambda: code_of(sampler) == -9)
    assert sampler.use() is None


def test_the_log_of_the_job_says_unknown_where_nothing_was_measured() -> None:
    assert summary(95.4, GpuUse(0.414, 9120, 51230.4)) == (
        "the job started 95 s after power-on; GPU use 41%, most memory of one GPU 9120 MiB, energy 51230 J"
    )
    unknown = "GPU use unknown, most memory of one GPU unknown, energy unknown"
    assert summary(95.4, None) == f"the job started 95 s after power-on; {unknown}"
    assert summary(None, GpuUse(None, None, None)) == f"the job started an unknown time after power-on; {unknown}"
    assert summary(1, GpuUse(0.0, 0, 0.0)) == (
        "the job started 1 s after power-on; GPU use 0%, most memory of one GPU 0 MiB, energy 0 J"
    )


def test_the_log_of_the_job_has_the_price_of_the_machine_if_it_is_known() -> None:
    assert price(431, 0.7123, "spot") == "GPU machine: 7 min, about 0.09 USD (0.71 USD per hour, spot); "
    assert price(48, 0.51, "spot") == "GPU machine: 48 s, less than 0.01 USD (0.51 USD per hour, spot); "
    assert price(431, None, "spot") == ""
