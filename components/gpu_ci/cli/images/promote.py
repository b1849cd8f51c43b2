"""`gpu-ci images promote`: writes the newest candidate that passed its check into the pools of stack files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from gpu_ci.cli.images import edit
from gpu_ci.cli.images.candidates import notes
from gpu_ci.cli.images.pins import BEHIND, Pin
from gpu_ci.cli.images.pipelines import (
    PASSED,
    Candidate,
    Pipeline,
    PoolPin,
    kind_of,
    newest_first,
    pins_of,
    pipelines,
)
from gpu_ci.cli.output import InputError, print_error, print_json, print_text
from gpu_ci.cli.stack_files import StackFile, files_of, read
from gpu_ci.errors import did_you_mean
from gpu_ci.stack.images import IMAGES


@dataclass(frozen=True)
class Change:
    """One field of a pool, with the image before and after."""

    file: str
    pool: str
    field: str
    pipeline: str
    before: str
    after: str
    made_from: str
    written: bool


@click.command("promote")
@click.argument("names", metavar="[NAME...]", nargs=-1)
@click.option("--file", "files", multiple=True, type=click.Path(), metavar="FILE",
              help="A stack file. Repeatable; by default every Pulumi.<stack>.yaml of this folder.")  # fmt: skip
@click.option("--to", "wanted", metavar="CANDIDATE",
              help="The candidate, by 12 or more characters of its name. Default: the newest that passed.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")
def command(names: tuple[str, ...], files: tuple[str, ...], wanted: str | None, as_json: bool) -> None:
    """Replace the images of pipelines in the pools of stack files by the newest candidate that passed its check.

    Without a name, the command promotes every pipeline of the files. Comments and the order of keys stay as they are.
    A pool uses the new image after the next `pulumi up`, whose smoke check proves the image on a GPU first. To roll
    back, revert the commit, and add the candidate to `skip` of the pipeline.

    A candidate whose check failed or is missing, and a candidate under `skip`, are never written. The exit code is 1 if
    a field could not be changed, or if a cloud did not list the images of some pipelines. It is 2 for a wrong file,
    pipeline or candidate, or if no cloud listed images.

    \b
    Examples:
      gpu-ci images promote
      gpu-ci images promote runner --file Pulumi.staging.yaml
      gpu-ci images promote runner --to sha256:4bcfbc3e1b21
    """
    read_files = [read(path) for path in files_of(files)]
    chosen = _chosen([each for file in read_files for each in pipelines(file)], names)
    if wanted and not len(names) == len(chosen) == 1:
        hint = "gpu-ci images promote NAME --file FILE --to …"
        raise InputError("gpu-ci images promote: --to needs the name of one pipeline", hint=hint)
    changes: list[Change] = []
    texts: list[str] = []
    errors: list[InputError] = []
    for pipeline in chosen:
        try:
            own, text = promote(pipeline, read_files, wanted)
        except InputError as failure:
            errors.append(failure)
            continue
        changes += own
        texts += text
    if as_json:
        problems = [problem for error in errors for problem in error.problems]
        print_json({"changes": [asdict(each) for each in changes], "notes": texts, "problems": problems})
    elif len(errors) < len(chosen) or not chosen:
        _show(changes, texts)
    for error in errors:
        print_error(error)
    if errors or not all(each.written for each in changes):
        click.get_current_context().exit(2 if errors and len(errors) == len(chosen) else 1)


def promote(
    pipeline: Pipeline, files: Sequence[StackFile], wanted: str | None = None
) -> tuple[list[Change], list[str]]:
    """Write the candidate into the files. Return the changes, and notes on what was left."""
    found = newest_first(kind_of(pipeline).candidates(pipeline))
    pins = pins_of(pipeline, files)
    candidate = _wanted(pipeline, found, wanted) if wanted else _newest(pipeline, found)
    if candidate is None:
        return [], [f"{pipeline.name}: no candidate has passed its check"]
    if not pins:
        return [], [f"{pipeline.name}: no pool names its image; write it once, such as {candidate.reference}"]
    by_reference = {each.reference: each for each in found}
    outdated = [pin for pin in pins if _is_behind(by_reference.get(pin.reference), candidate, exact=bool(wanted))]
    changes = []
    for path in dict.fromkeys(pin.file.path for pin in outdated):
        changes += _write(pipeline, path, [pin for pin in outdated if pin.file.path == path], candidate)
    after = [read(file.path) for file in files]
    texts = [] if outdated else [f"{pipeline.name}: no pool names an older image than the newest candidate that passed"]
    return changes, texts + notes(pipeline, found, pins_of(pipeline, after))


def _is_behind(current: Candidate | None, candidate: Candidate, *, exact: bool) -> bool:
    """Return True if the pin must change. An image that is no candidate, such as a deleted one, is replaced."""
    if current is None or exact:
        return current != candidate
    return current.created < candidate.created


def _write(pipeline: Pipeline, path: Path, pins: Sequence[PoolPin], candidate: Candidate) -> list[Change]:
    edits = [
        Pin(pin.pool, ".".join(pin.keys), pin.reference, BEHIND, edits={pin.keys: candidate.reference}) for pin in pins
    ]
    written = edit.write(path, edits)
    return [
        Change(
            str(path),
            each.pool,
            each.what,
            pipeline.name,
            each.in_use,
            candidate.reference,
            candidate.made_from,
            each in written,
        )
        for each in edits
    ]


def _newest(pipeline: Pipeline, found: Iterable[Candidate]) -> Candidate | None:
    return next((each for each in found if each.check == PASSED and each.name not in pipeline.skipped), None)


def _wanted(pipeline: Pipeline, found: Sequence[Candidate], wanted: str) -> Candidate:
    """Return the candidate whose name begins with the text.

    Raises:
        InputError: There is no such candidate, or it may not be promoted.
    """
    where = f"gpu-ci images promote {pipeline.name}"
    fits = [each for each in found if each.name.startswith(wanted)] if len(wanted) >= _LEAST_NAME else []
    if len(fits) != 1:
        raise InputError(
            f"{where}: no single candidate begins with {wanted}",
            expected=f"at least {_LEAST_NAME} characters of the name of a candidate",
            hint="gpu-ci images candidates",
        )
    [candidate] = fits
    if candidate.check != PASSED:
        raise InputError(
            f"{where}: the check of {candidate.name} is {candidate.check}",
            expected="a candidate that passed its check",
            hint="gpu-ci images candidates",
        )
    if candidate.name in pipeline.skipped:
        raise InputError(f"{where}: {candidate.name} is excluded", hint=f"remove it from skip of {pipeline.spec.path}")
    return candidate


def _chosen(found: Sequence[Pipeline], names: Sequence[str]) -> list[Pipeline]:
    """Return the pipelines with these names, or all of them.

    Raises:
        InputError: A pipeline does not exist.
    """
    known = list(dict.fromkeys(each.name for each in found))
    for name in names:
        if name not in known:
            raise InputError(
                f"gpu-ci images promote: no image pipeline {name}",
                expected=f"one of {', '.join(known)}" if known else f"a pipeline under {IMAGES}",
                hint=f"--file {name}"
                if Path(name).exists()
                else did_you_mean(name, known) or "gpu-ci images candidates",
            )
    return [each for each in found if not names or each.name in names]


def _show(changes: Sequence[Change], texts: Sequence[str]) -> None:
    for each in changes:
        action = "is now" if each.written else "was not changed; write it by hand:"
        click.echo(f"{each.file}: {each.pool}.{each.field} {action} {each.after} ({each.made_from})")
    for text in texts:
        print_text(text, 2)
    if not changes and not texts:
        click.echo("no image pipeline")


_LEAST_NAME = 12
