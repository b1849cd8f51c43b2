"""Measures what the GPUs do while a job runs. One nvidia-smi prints the state of each GPU every second.

If nvidia-smi fails in any way, values are missing. The job and the end of the machine do not change.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import threading
from collections.abc import Collection
from dataclasses import dataclass
from typing import IO, NamedTuple

from ..clock import Clock
from .system import System

# On one H200 with driver 580, a sample takes nvidia-smi 1 ms of CPU time, and each line comes at once, also in a pipe.
_INTERVAL_SEC = 1
STOP_SEC = 1.0
"""The longest time of a stop. An nvidia-smi that hangs in the driver is left behind; it ends with the machine."""
# Energy is known only if samples follow each other closely. On a busy machine, nvidia-smi may be late.
_GAP_SEC = 15
# A longer line is read in pieces.
_LINE_BYTES = 1024
# An nvidia-smi that prints more lines than expected, with this margin, is ended.
_MORE_LINES = 100
_SHORT_SEC = 120
"""The time below which the line of the log has seconds."""
_QUERY = "--query-gpu=uuid,utilization.gpu,memory.used,power.draw"
_NUMBER = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)


class GpuUse(NamedTuple):
    """What the GPUs did while the job ran. A value that some GPU did not report is None."""

    util_avg: float | None
    """The mean share of time in which a kernel ran, 0 to 1, over all GPUs."""
    mem_max_mib: int | None
    """The most memory of one GPU in use, in MiB."""
    joules: float | None
    """The energy of all GPUs. None also if samples are missing for a part of the time."""

    def as_json(self) -> dict[str, float | None]:
        """Return the value in the form of the machine's end."""
        return {"utilAvg": self.util_avg, "memMaxMib": self.mem_max_mib, "joules": self.joules}


@dataclass
class _Gpu:
    """The samples of one GPU."""

    sampled_at: float
    """The time of the last power sample, or of the start."""
    lines: int = 0
    utils: float = 0.0
    util_count: int = 0
    mem_max_mib: int | None = None
    watts: float | None = None
    """The last sample. A sample stands for the time since the one before it."""
    joules: float | None = 0.0

    def joules_until(self, now: float, watts: float | None) -> float | None:
        if self.joules is None or watts is None or now - self.sampled_at > _GAP_SEC:
            return None
        return self.joules + watts * (now - self.sampled_at)


class Samples:
    """The samples of these GPUs since `now`, from lines of nvidia-smi."""

    def __init__(self, uuids: Collection[str], now: float) -> None:
        self._gpus = {uuid: _Gpu(now) for uuid in uuids}

    def add(self, line: str, now: float) -> None:
        """Add one line. Ignore a line about no GPU of the machine, and values that are no numbers, such as [N/A]."""
        uuid, *texts = (field.strip() for field in line.split(","))
        gpu = self._gpus.get(uuid)
        if gpu is None or len(texts) != 3:
            return
        gpu.lines += 1
        if gpu.lines == 1:
            # nvidia-smi prints the first state at once, before the first step of the job.
            return
        percent, mib, watts = (float(text) if _NUMBER.fullmatch(text) else None for text in texts)
        if percent is not None and percent <= 100:
            gpu.utils += percent / 100
            gpu.util_count += 1
        if mib is not None:
            gpu.mem_max_mib = max(int(mib), gpu.mem_max_mib or 0)
        if watts is not None:
            gpu.joules = gpu.joules_until(now, watts)
            gpu.sampled_at, gpu.watts = now, watts

    def use(self, now: float) -> GpuUse | None:
        """Return the use until now, or None if nothing was measured."""
        gpus = self._gpus.values()
        utils = [gpu.utils / gpu.util_count for gpu in gpus if gpu.util_count]
        mibs = [gpu.mem_max_mib for gpu in gpus if gpu.mem_max_mib is not None]
        joules = [each for gpu in gpus if (each := gpu.joules_until(now, gpu.watts)) is not None]
        # A value of only some GPUs would look like that of all.
        use = GpuUse(
            round(sum(utils) / len(utils), 3) if len(utils) == len(gpus) > 0 else None,
            max(mibs) if len(mibs) == len(gpus) > 0 else None,
            round(sum(joules), 1) if len(joules) == len(gpus) > 0 else None,
        )
        return None if use == (None, None, None) else use


class Sampler:
    """Measures from `start` to `stop`. No method raises an exception because of nvidia-smi."""

    def __init__(self, system: System, uuids: Collection[str], clock: Clock) -> None:
        self._system, self._uuids, self._clock = system, uuids, clock
        self._lock = threading.Lock()
        self._samples: Samples | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped_at: float | None = None
        self.job_started_sec: float | None = None
        """Seconds from the machine's power-on to `start`; None before that."""

    def start(self) -> None:
        """Begin to measure, when the job starts."""
        self.job_started_sec = self._system.up_sec()
        self._samples = Samples(self._uuids, self._clock.now())
        command = ["nvidia-smi", _QUERY, "--format=csv,noheader,nounits", f"--loop-ms={_INTERVAL_SEC * 1000}"]
        # Without a program, a process or a thread, the values are missing.
        with contextlib.suppress(Exception):
            process = self._system.stream(command)
            with self._lock:
                self._process = process
                if self._stopped_at is not None:
                    process.kill()
            threading.Thread(target=self._read, args=(process, process.stdout), daemon=True).start()

    def use(self) -> GpuUse | None:
        """Return the use so far, or None if nothing was measured."""
        with self._lock:
            now = self._clock.now() if self._stopped_at is None else self._stopped_at
            return self._samples.use(now) if self._samples else None

    def stop(self) -> None:
        """End nvidia-smi, and ignore what it prints from now on."""
        with self._lock:
            if self._stopped_at is None:
                self._stopped_at = self._clock.now()
            process = self._process
        if process:
            process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_SEC)

    def _read(self, process: subprocess.Popen[bytes], stream: IO[bytes]) -> None:
        began, count = self._clock.now(), 0
        with stream:
            while line := stream.readline(_LINE_BYTES):
                now, count = self._clock.now(), count + 1
                if count > _MORE_LINES + len(self._uuids) * (now - began) / _INTERVAL_SEC:
                    process.kill()
                    return
                with self._lock:
                    if self._stopped_at is not None or self._samples is None:
                        return
                    self._samples.add(line.decode(errors="replace"), now)


def price(up_sec: float, usd_per_hour: float | None, market: str) -> str:
    """Return what the machine has cost since power-on, as the start of the line; empty if the price is unknown."""
    if usd_per_hour is None:
        return ""
    time = f"{up_sec:.0f} s" if up_sec < _SHORT_SEC else f"{up_sec / 60:.0f} min"
    usd = up_sec / 3600 * usd_per_hour
    cost = "less than 0.01 USD" if usd < 0.01 else f"about {usd:.2f} USD"
    return f"GPU machine: {time}, {cost} ({usd_per_hour:.2f} USD per hour, {market}); "


def summary(job_started_sec: float | None, use: GpuUse | None) -> str:
    """Return a line for the log of the job."""
    util_avg, mem_max_mib, joules = use or GpuUse(None, None, None)
    started = "an unknown time" if job_started_sec is None else f"{job_started_sec:.0f} s"
    return (
        f"the job started {started} after power-on; GPU use "
        f"{'unknown' if util_avg is None else f'{util_avg:.0%}'}, most memory of one GPU "
        f"{'unknown' if mem_max_mib is None else f'{mem_max_mib} MiB'}, energy "
        f"{'unknown' if joules is None else f'{joules:.0f} J'}"
    )
