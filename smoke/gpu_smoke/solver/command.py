"""The command `gpu-smoke check`."""

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

    Raises UsageError for a wrong question or an output that cannot be written.
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
    if lost := output.put(sys.stdout, text + "\n"):
        raise unwritable("standard output", "/dev/stdout", lost, question.COMMAND)
    return 0 if found.works else checks.EXIT_CODES[faults.ENV]


def _lines(found: Answer) -> Iterator[str]:
    asked = found.question
    gpu = f"{asked.gpu} (compute capability {asked.capability})" if asked.gpu else f"a GPU of {asked.capability}"
    parts = [gpu, f"driver {found.driver}{_note(asked.driver)}", f"torch {found.torch}{_note(asked.torch)}"]
    parts += [f"the {asked.module} kernel module"] if asked.module else []
    parts += [f"Python {'.'.join(map(str, asked.python))}"] if asked.python else []
    parts += [asked.machine] if asked.machine != "x86_64" else []
    verdict = "does not work" if not found.works else "probably works" if found.unknown else "works"
    yield f"{verdict}: {', '.join(parts)}"
    yield from (f"  why: {problem.text} ({problem.rule})" for problem in found.problems)
    yield from (f"  unverified: {text}" for text in found.unknown)
    for way in found.ways:
        yield from _way(way, found)
    if not found.ways:
        yield "  nothing in the tables works on this GPU and machine"
    if found.rows:
        yield from _table(found)


def _note(given: str) -> str:
    return "" if given else " (chosen)"


def _way(way: Way, found: Answer) -> Iterator[str]:
    if not found.works:
        module = f", the {way.module} kernel module" if found.question.module and way.module else ""
        yield f"  what works: torch {way.torch}, driver branch {way.driver_branch}{module}"
    yield f"    torch: {way.install}"
    yield from (f"    driver: {name}: {text}" for name, text in way.drivers.items())


def _table(found: Answer) -> Iterator[str]:
    texts = {problem.text for problem in found.problems}
    wide = max(len(row.torch) for row in found.rows)
    yield f"every wheel with driver {found.driver} (? was not read for that release):"
    for row in found.rows:
        why = "; ".join(reason for reason in row.reasons if reason not in texts)
        mark = " " if row.sure else "?"
        yield f"  {row.torch:<{wide}}{mark} " + ("works" if row.works else f"no: {why}" if why else "no, as above")
