"""Reference data that the user gives: receipts of earlier runs, and own measurements.

A receipt is the JSON report of a run. Own measurements are a file that `gpu-smoke record` writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..errors import UsageError
from ..options import Options
from . import measurements, receipts
from .measurements import Row
from .receipts import Run


@dataclass(frozen=True)
class References:
    """The reference data. `earlier` has the runs of --baseline. It is None without the option."""

    earlier: tuple[Run, ...] | None = None
    own: tuple[Row, ...] = ()


def read(options: Options) -> References:
    """Read the files that the command line names, or raise UsageError with all their errors."""
    runs, receipt_problems = receipts.runs(options.baseline)
    rows, specs_problems = measurements.load(Path(options.specs)) if options.specs else ([], [])
    if receipt_problems or specs_problems:
        raise UsageError("\n".join(map(str, [*receipt_problems, *specs_problems])))
    return References(tuple(runs) if options.baseline else None, tuple(rows))
