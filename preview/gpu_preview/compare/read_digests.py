"""Makes a report from the output of `pulumi preview --json`, which the user ran with credentials."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpu_common.visible import visible

from ..engine import digest
from ..engine.digest import DigestError
from ..engine.output import clean, made_by
from ..git import repository
from ..model import Report, Side, Stack, Status
from ..report.analysis import Files, analyze
from .compare import CompareError


def read(given: Sequence[str], folder: Path, max_usd_month: float | None) -> Report:
    """Return the report on digests given as `STACK=FILE`.

    Raises:
        CompareError: at least one file cannot be read; the message lists all of them.
    """
    stacks, problems = [], []
    names = [each.partition("=")[0] for each in given]
    for at, each in enumerate(given):
        try:
            if names[at] in names[:at]:
                raise CompareError(f"--digest {each}: {names[at]} has two digests\n  expected: one for each stack")
            stacks.append(_stack(each, folder, max_usd_month))
        except CompareError as error:
            problems.append(str(error))
    if problems:
        raise CompareError("\n".join(problems))
    return Report(
        made_by=made_by(),
        how="credentials",
        base=Side(ref="the state of each stack"),
        head=Side(ref="the program, previewed with credentials"),
        stacks=tuple(stacks),
    )


def _stack(given: str, folder: Path, max_usd_month: float | None) -> Stack:
    name, equals, path = given.partition("=")
    if not equals or not name:
        raise CompareError(f"--digest {given}: is not STACK=FILE\n  hint: --digest staging=preview.json")
    try:
        found = digest.read(Path(path))
    except OSError as error:
        raise CompareError(f"--digest {name}: {path}: {error.strerror or error}") from None
    except DigestError as error:
        # Do not suggest the given file: the shell would truncate it, and it is some other file.
        hint = f"pulumi preview --json --show-sames --stack {name} > a-new-file.json"
        raise CompareError(f"--digest {name}: {path}: {error}\n  hint: {hint}") from None
    if others := sorted({each.urn.split("::")[0].removeprefix("urn:pulumi:") for each in found.resources} - {name}):
        shown = ", ".join(visible(each, 100) for each in others[:3])
        raise CompareError(f"--digest {name}: {path}: belongs to another stack\n  got: {shown}\n  expected: {name}")
    file = repository.stack_files(folder).get(name)
    known = str(file.relative_to(folder)) if file else ""
    if found.errors:
        return Stack(stack=name, file=known, status=Status.FAILED, error=clean("\n\n".join(found.errors)))
    stack = Stack(stack=name, file=known, status=Status.PREVIEWED)
    return analyze(stack, found, Files(known, folder, "", None, file), max_usd_month=max_usd_month)
