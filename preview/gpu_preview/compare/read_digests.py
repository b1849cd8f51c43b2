"""Makes the report of `gpu-ci preview --digest`, from the output of `pulumi preview --json`.

The user ran that preview with credentials. Pulumi calls its JSON output a digest: the planned steps of one stack.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpu_common.visible import visible

from ..engine import digest
from ..engine.digest import DigestError
from ..engine.output import clean, made_by
from ..errors import PreviewError
from ..git import repository
from ..model import Report, Side, Stack, Status
from ..report.analysis import Files, analyze


def read(arguments: Sequence[str], folder: Path, max_usd_month: float | None) -> Report:
    """Return the report on the digests of one or more stacks.

    Args:
        arguments: The values of `--digest`, each `STACK=FILE`.
        folder: The folder of the project, with its stack files.
        max_usd_month: The value of `--max-usd-month`.

    Raises:
        PreviewError: an argument or a file is not valid. The message lists all problems.
    """
    stacks, problems = [], []
    earlier_names: set[str] = set()
    for argument in arguments:
        name = argument.partition("=")[0]
        try:
            if name in earlier_names:
                raise PreviewError(f"--digest {argument}: {name} has two digests\n  expected: one for each stack")
            earlier_names.add(name)
            stacks.append(_stack_report(argument, folder, max_usd_month))
        except PreviewError as error:
            problems.append(str(error))
    if problems:
        raise PreviewError("\n".join(problems))
    return Report(
        made_by=made_by(),
        how="credentials",
        base=Side(ref="the state of each stack"),
        head=Side(ref="the program, previewed with credentials"),
        stacks=tuple(stacks),
    )


def _stack_report(argument: str, folder: Path, max_usd_month: float | None) -> Stack:
    """Read the digest of one `STACK=FILE`, check that it is of this stack, and return the report on the stack."""
    name, equals, path = argument.partition("=")
    if not equals or not name:
        raise PreviewError(f"--digest {argument}: is not STACK=FILE\n  hint: --digest staging=preview.json")
    try:
        read_digest = digest.read(Path(path))
    except OSError as error:
        raise PreviewError(f"--digest {name}: {path}: {error.strerror or error}") from None
    except DigestError as error:
        # The hint names a new file. `> FILE` would overwrite the user's file, which is not a digest.
        hint = f"pulumi preview --json --show-sames --stack {name} > a-new-file.json"
        raise PreviewError(f"--digest {name}: {path}: {error}\n  hint: {hint}") from None
    # A URN begins with its stack: urn:pulumi:STACK::PROJECT::TYPE::NAME.
    stack_names = {each.urn.split("::")[0].removeprefix("urn:pulumi:") for each in read_digest.resources}
    if other_stacks := sorted(stack_names - {name}):
        listed = ", ".join(visible(each, 100) for each in other_stacks[:3])
        raise PreviewError(f"--digest {name}: {path}: belongs to another stack\n  got: {listed}\n  expected: {name}")
    stack_file = repository.stack_files(folder).get(name)
    relative_path = str(stack_file.relative_to(folder)) if stack_file else ""
    if read_digest.errors:
        error_text = clean("\n\n".join(read_digest.errors))
        return Stack(stack=name, file=relative_path, status=Status.FAILED, error=error_text)
    stack = Stack(stack=name, file=relative_path, status=Status.PREVIEWED)
    return analyze(stack, read_digest, Files(relative_path, folder, "", None, stack_file), max_usd_month=max_usd_month)
