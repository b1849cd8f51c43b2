"""References that the user gives: receipts of earlier runs, and own measurements."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..errors import UsageError
from ..options import Options
from . import measurements, receipts
from .measurements import Row
from .receipts import Run


@dataclass(frozen=True)
class Known:
    """The references of the user. `earlier` is None without --baseline, which differs from an empty baseline."""

    earlier: tuple[Run, ...] | None = None
    own: tuple[Row, ...] = ()


def read(options: Options) -> Known:
    """Read the files that the command line names, or raise UsageError with all their errors."""
    runs, wrong = receipts.runs(options.baseline)
    rows, more = measurements.load(Path(options.specs)) if options.specs else ([], [])
    if wrong or more:
        raise UsageError("\n".join(str(problem) for problem in [*wrong, *more]))
    return Known(tuple(runs) if options.baseline else None, tuple(rows))
