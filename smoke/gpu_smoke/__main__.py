"""The command line: `gpu-smoke`, `python -m gpu_smoke`, or a zip of this package."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from . import checks, faults, options, output


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code. --help and --version raise SystemExit with code 0."""
    _open_standard_streams()
    try:
        return _run(list(sys.argv[1:] if argv is None else argv))
    except output.UsageError as error:
        output.say(str(error))
        return options.USAGE
    except Exception as error:  # Python would exit with 1, the code for a broken GPU
        output.say(f"gpu-smoke: the check itself failed: {type(error).__name__}: {error}")
        return checks.EXIT_CODES[faults.ENV]


def _run(argv: list[str]) -> int:
    """Run the command that the first word names, or the check if it starts with an option."""
    named = argv.pop(0) if argv and not argv[0].startswith("-") else "run"
    if named == "diagnose":
        from .diagnose import command

        return command.main(argv)
    if named == "prove-nodes":
        from .nodes import command as prove_nodes

        return prove_nodes.main(argv)
    if named != "run":
        raise output.usage_error(named, "no such command", named, "run, diagnose or prove-nodes")
    from . import no_gpu_check, receipt
    from .workers import parent

    chosen = options.parse(argv)
    if chosen.no_gpu_in:
        return no_gpu_check.run(chosen)
    report = receipt.Receipt(chosen)
    report.open()
    return parent.run(chosen, report)


def _open_standard_streams() -> None:
    """Open closed standard streams.

    Otherwise pipes would get their numbers, and Python would set the streams to None.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


if __name__ == "__main__":
    sys.exit(main())
