"""The check itself, as `gpu-smoke` and `gpu-smoke run`."""

from __future__ import annotations

from collections.abc import Sequence

from . import history, no_gpu_check, options, receipt
from .workers import parent


def main(argv: Sequence[str]) -> int:
    """Run the check and return its exit code. Raises UsageError for a wrong command line."""
    chosen = options.parse(argv)
    if chosen.no_gpu_in:
        return no_gpu_check.run(chosen)
    reference = history.references(chosen)
    report = receipt.Receipt(chosen)
    report.open()
    return parent.run(chosen, report, reference)
