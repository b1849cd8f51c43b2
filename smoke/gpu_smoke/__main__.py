"""The command line: `gpu-smoke`, `python -m gpu_smoke`, or a zip of this package."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from . import checks, commands, errors, faults, options, output


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code. --help and --version raise SystemExit with code 0."""
    _open_standard_streams()
    try:
        return commands.main(sys.argv[1:] if argv is None else argv)
    except errors.UsageError as error:
        output.say(str(error))
        return options.USAGE
    except Exception as error:  # Python would exit with 1, the code for a broken GPU
        output.say(f"gpu-smoke: the check itself failed: {type(error).__name__}: {error}")
        return checks.EXIT_CODES[faults.ENV]


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
