"""The command `gpu-smoke check`: it prints one answer, the reasons with their sources, and what to do."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence

from .. import checks, faults, output
from ..errors import unwritable
from ..reports import files
from . import question
from .answer import Answer, Way, answer


def main(argv: Sequence[str]) -> int:
    """Print the answer and return the exit code.

    Raises UsageError for a wrong command line, or for an output that cannot be written.
    """
    asked = question.parse(argv)
    found = answer(asked)
    record = json.dumps(found.record(), indent=2)
    if asked.json not in ("", "-"):
        try:
            files.write(asked.json, record + "\n")
        except (OSError, ValueError) as error:
            raise unwritable("--json", asked.json, error, question.COMMAND) from None
    text = record if asked.json == "-" else "\n".join(_lines(found))
    if write_error := output.put(sys.stdout, text + "\n"):
        raise unwritable("standard output", "/dev/stdout", write_error, question.COMMAND)
    return 0 if found.works else checks.EXIT_CODES[faults.ENV]


def _lines(found: Answer) -> Iterator[str]:
    asked = found.question
    gpu = f"{asked.gpu} (compute capability {asked.capability})" if asked.gpu else f"a GPU of {asked.capability}"
    parts = [gpu, f"driver {found.driver}{_note(asked.driver)}", f"torch {found.torch}{_note(asked.torch)}"]
    parts += [f"the {asked.module} kernel module"] if asked.module else []
    parts += [f"Python {'.'.join(map(str, asked.python))}"] if asked.python else []
    parts += [asked.machine] if asked.machine != "x86_64" else []
    result = "does not work" if not found.works else "probably works" if found.unknown else "works"
    yield f"{result}: {', '.join(parts)}"
    for problem in found.problems:
        yield f"  reason: {problem.text}"
        yield from ([f"    source: {problem.source}"] if problem.source else [])
    yield from (f"  unverified: {text}" for text in found.unknown)
    for number, way in enumerate(found.ways):
        yield from _way(way, found, "what to do: use" if number == 0 else "or use")
    if not found.ways:
        yield "  what to do: use another GPU or machine; nothing in the tables works on this one"
    if found.rows:
        yield from _table(found)


def _note(given: str) -> str:
    return "" if given else " (chosen)"


def _way(way: Way, found: Answer, begin: str) -> Iterator[str]:
    """Describe a combination that works, and how to get its torch and its driver."""
    if not found.works:
        module = f" and the {way.module} kernel module" if found.question.module and way.module else ""
        yield f"  {begin} torch {way.torch} with driver branch {way.driver_branch}{module}"
    indent = "  " if found.works else "    "
    yield f"{indent}install torch: {way.install}"
    if way.drivers:
        yield f"{indent}get driver branch {way.driver_branch} from one of:"
    yield from (f"{indent}  {name}: {text}" for name, text in way.drivers.items())


def _table(found: Answer) -> Iterator[str]:
    """List every wheel, unless the driver itself is the problem. A reason that is printed above is not repeated."""
    printed = {problem.text for problem in found.problems}
    if all(printed & {*row.reasons} for row in found.rows):
        yield f"no known torch wheel works with driver {found.driver}, for the reason above"
        return
    width = max(len(row.torch) for row in found.rows)
    yield f"every known torch wheel with driver {found.driver} (?: its list of GPUs was not read):"
    for row in found.rows:
        others = "; ".join(reason for reason in row.reasons if reason not in printed)
        result = "works" if row.works else f"no: {others}" if others else "no, for the reason above"
        yield f"  {row.torch:<{width}}{' ' if row.sure else '?'} {result}"
