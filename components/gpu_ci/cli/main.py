"""The entry point of `gpu-ci`. Each command is a separate module, imported when it is called."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

from gpu_ci import extras
from gpu_ci.cli import RESULTS_FROM_2


def main(argv: Sequence[str] | None = None) -> None:
    sys.exit(run(list(sys.argv[1:] if argv is None else argv)))


def run(arguments: list[str]) -> int:
    """Run a command and return the exit code: 0 for success, 1 for problems found, 2 for invalid input.

    Commands of RESULTS_FROM_2 return 1 for invalid input.
    """
    invalid_input = 1 if arguments and arguments[0] in RESULTS_FROM_2 else 2
    try:
        code = _run(arguments, invalid_input)
        sys.stdout.flush()
        return code
    except ModuleNotFoundError as error:
        if not (hint := extras.hint(error.name or "")):
            raise
        problem = {"text": f"gpu-ci: the package {error.name} is not installed", "hint": hint}
        sys.stderr.write(f"{problem['text']}\n  hint: {problem['hint']}\n")
        if "--json" in arguments:
            sys.stdout.write(json.dumps({"error": {"problems": [problem]}}, indent=2) + "\n")
        return invalid_input
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        if error.filename is not None:  # an error of a file, not of an output stream
            raise
        # Python flushes the rest of the output when the process exits, which would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # the reader closed the pipe, such as `| head`
            sys.stderr.write(f"gpu-ci: the output cannot be written: {error.strerror or error}\n")
        return invalid_input


def _run(arguments: list[str], invalid_input: int) -> int:
    import click

    from gpu_ci.cli.commands import gpu_ci
    from gpu_ci.cli.output import InputError, print_error

    try:
        # With standalone_mode=False, click returns the exit code, and raises its exceptions instead of printing them.
        code = gpu_ci.main(args=arguments or ["--help"], prog_name="gpu-ci", standalone_mode=False)
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        print_error(error, "--json" in arguments)
        return min(error.exit_code, invalid_input)
    except click.Abort:
        return 130
    except Exception as error:
        from gpu_ci.errors import ArgsError  # loads Pulumi

        if not isinstance(error, ArgsError):
            raise
        print_error(InputError(str(error)), "--json" in arguments)
        return invalid_input
    return code if isinstance(code, int) else 0
