"""What the user knows beside the tables of this package: receipts of earlier runs, and measurements of their own."""

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
    """`earlier` is None where nobody asked for a comparison, which is not the same as having nothing to compare."""

    earlier: tuple[Run, ...] | None = None
    own: tuple[Row, ...] = ()


def read(options: Options) -> Known:
    """Read what the command line names, or raise UsageError with everything that is wrong with it."""
    runs, wrong = receipts.runs(options.baseline)
    rows, more = measurements.load(Path(options.specs)) if options.specs else ([], [])
    if wrong or more:
        raise UsageError("\n".join(str(problem) for problem in [*wrong, *more]))
    return Known(tuple(runs) if options.baseline else None, tuple(rows))
