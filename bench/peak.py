"""Records the peak memory of a benchmarked program."""

from __future__ import annotations

import atexit
import os
import resource
from pathlib import Path


def record() -> None:
    """At exit, write this process's peak resident memory in KiB (Linux's unit) to $BENCH_PEAK_FILE."""

    def write() -> None:
        Path(os.environ["BENCH_PEAK_FILE"]).write_text(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))

    atexit.register(write)
