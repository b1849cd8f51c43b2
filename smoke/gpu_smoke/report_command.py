"""The command `gpu-smoke report RECEIPT`: write the reports of an existing receipt."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from . import checks, faults, options, output
from .reports import delivery, source, targets, terminal

_EPILOG = """\
exit codes: 0 all reports were written, 2 a report could not be written, 64 wrong usage or not a receipt.
They do not depend on the verdict of the receipt.

examples:
  gpu-smoke report receipt.json --junit gpu-smoke.xml
  kubectl logs job/l4-check | gpu-smoke report -              if the check ran with --json -
"""


def main(argv: Sequence[str], environment: Mapping[str, str] = os.environ) -> int:
    """Write the requested reports. Raises UsageError for a file that is not a receipt."""
    parser = options.Parser(
        prog="gpu-smoke report",
        description="Write the reports of a receipt: a table, and those of the options and of GitHub Actions.",
        epilog=_EPILOG,
    )
    parser.add_argument("receipt", metavar="RECEIPT|-", help="a file that --json wrote; - is standard input")
    options.add_reports(parser.add_argument)
    given = vars(parser.parse_args(list(argv)))
    wanted = targets.take(given, environment)
    options.check_distinct([("RECEIPT", given["receipt"]), *wanted.paths()])
    record = source.read(given["receipt"])
    errors = [*delivery.files(record, wanted), *delivery.attribute(record, wanted)]
    delivery.github(record, wanted)
    output.say(terminal.table(record, sys.stderr))
    for text in errors:
        output.say(f"gpu-smoke: cannot be written: {text}")
    return checks.EXIT_CODES[faults.ENV] if errors else 0
