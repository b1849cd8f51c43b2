"""`gpu-ci images candidates` and `promote`: the images that pipelines built, and the pools that use them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from gpu_ci.cli import edit, options
from gpu_ci.cli.images.pipelines import (
    PASSED,
    Candidate,
    Pipeline,
    PoolPin,
    candidates_of,
    kind_of,
    pins_of,
    pipelines,
)
from gpu_ci.cli.output import InputError, print_error, print_json, print_table, print_text
from gpu_ci.cli.stack_files import StackFile, files_of, for_each_file, read, readable
from gpu_ci.errors import did_you_mean
from gpu_ci.stack.images import IMAGES
from gpu_ci.stack.pools import POOLS

_SHORT = 24
"""Longer digests are cut off in tables: 17 hexadecimal digits stay."""


@click.command("candidates")
@click.argument("files", metavar="[FILE...]", nargs=-1, type=click.Path())
@options.as_json
def candidates(files: tuple[str, ...], as_json: bool) -> None:
    """List the images of the pipelines under gpu-ci:images, with source, check, age, and the pools that use them.

    Without an argument, the command reads every Pulumi.<stack>.yaml in this folder. The images are read from the cloud
    with the credentials of this computer. `gpu-ci images promote` writes a candidate into the pools.

    The check is `passed`, `failed`, or `missing`: it did not pass, or has not ended.

    If a cloud does not list the images of a pipeline, the others are still listed, and the exit code is 2.

    \b
    Examples:
      gpu-ci images candidates
      gpu-ci images candidates Pulumi.prod.yaml --json
    """

    everywhere = readable(files_of(files))

    def compute(file: StackFile) -> tuple[StackFile, list[dict[str, Any]]]:
        found = [_with_candidates(each, everywhere) for each in pipelines(file)]
        return file, sorted(found, key=lambda each: "error" in each)

    def code_of(answer: Any) -> int:
        return 2 if any("error" in each for each in answer[1]) else 0

    for_each_file(files, compute, _show, lambda file, found: {"file": file.name, "pipelines": found}, as_json, code_of)


def _with_candidates(pipeline: Pipeline, files: Sequence[StackFile]) -> dict[str, Any]:
    """Return a pipeline with its candidates as JSON, or with the error if a cloud did not list them."""
    own = {"name": pipeline.name, "kind": pipeline.spec.kind}
    try:
        found, pins = candidates_of(pipeline), pins_of(pipeline, files)
    except InputError as error:
        return own | error.document
    candidates = [
        {
            "name": each.name,
            "reference": each.reference,
            "madeFrom": each.made_from,
            "check": each.check,
            "created": each.created.isoformat(),
            "skipped": each.name in pipeline.skipped,
            "pools": [pin.place for pin in pins if pin.reference == each.reference],
        }
        for each in found
    ]
    return own | {"candidates": candidates, "notes": _notes(pipeline, found, pins)}


def _show(file: StackFile, found: list[dict[str, Any]]) -> None:
    """Print a table of the candidates, then the notes, then the errors."""
    click.echo(f"{file.name}\n")
    cells = [
        (
            pipeline["name"],
            _short(each["name"]),
            _short(each["madeFrom"]),
            f"{each['check']}, skipped" if each["skipped"] else each["check"],
            _age(each["created"]),
            ", ".join(each["pools"]),
        )
        for pipeline in found
        for each in pipeline.get("candidates", ())
    ]
    if cells:
        print_table(["pipeline", "candidate", "made from", "check", "age", "pools"], cells)
    if not found:
        click.echo("no image pipeline")
    for text in [text for pipeline in found for text in pipeline.get("notes", ())]:
        print_text(f"\n{text}", 2)
    for pipeline in found:
        for problem in pipeline.get("error", {}).get("problems", ()):
            print_error(InputError(**problem))


def _notes(pipeline: Pipeline, found: Sequence[Candidate], pins: Sequence[PoolPin]) -> list[str]:
    """Return a text for each pin whose image is not in the list, or may be deleted, and for missing images and pins."""
    known, kind = {each.reference for each in found}, kind_of(pipeline)
    texts = [] if found else [f"{pipeline.name}: no build has pushed an image yet"]
    if found and not pins:
        usable = (each for each in found if each.check == PASSED and each.name not in pipeline.skipped)
        example = next((f"; write it once, such as {each.reference}" for each in usable), "")
        texts.append(f"{pipeline.name}: no pool names its image{example}")
    for pin in pins:
        if pin.reference not in known:
            texts.append(f"{pin.place} names {pin.reference}, which is no image of {pipeline.name}")
        elif hint := kind.keep_hint(pipeline, pin):
            texts.append(f"{pin.place} names an image that the clean-up of {pipeline.name} may delete; hint: {hint}")
    return texts


def _short(text: str) -> str:
    """Shorten a digest or a commit. Names of host images differ only at their end, so they stay whole."""
    return text[:_SHORT] if re.match("sha256:|commit ", text) else text


def _age(created: str) -> str:
    """Return the age in days, or in hours on the first day."""
    age = datetime.now(UTC) - datetime.fromisoformat(created)
    return f"{age.days} d" if age.days else f"{age.seconds // 3600} h"


@click.command("promote")
@click.argument("names", metavar="[NAME...]", nargs=-1)
@click.option("--file", "files", multiple=True, type=click.Path(), metavar="FILE",
              help="A stack file. Repeatable; by default every Pulumi.<stack>.yaml of this folder.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")
def promote(names: tuple[str, ...], files: tuple[str, ...], as_json: bool) -> None:
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
    """
    read_files = [read(path) for path in files_of(files)]
    chosen = _chosen([each for file in read_files for each in pipelines(file)], names)
    changes: list[dict[str, Any]] = []
    texts: list[str] = []
    errors: list[InputError] = []
    for pipeline in chosen:
        try:
            own, notes = _promote(pipeline, read_files)
            changes += own
            texts += notes
        except InputError as failure:
            errors.append(failure)
    none_answered = bool(errors) and len(errors) == len(chosen)
    if as_json:
        problems = [problem for error in errors for problem in error.problems]
        print_json({"changes": changes, "notes": texts, "problems": problems})
    elif not none_answered:
        for each in changes:
            action = "is now" if each["written"] else "was not changed; write it by hand:"
            click.echo(f"{each['file']}: {each['pool']}.{each['field']} {action} {each['after']} ({each['made_from']})")
        for text in texts or ([] if changes else ["no image pipeline"]):
            print_text(text, 2)
    for error in errors:
        print_error(error)
    if errors or not all(each["written"] for each in changes):
        click.get_current_context().exit(2 if none_answered else 1)


def _promote(pipeline: Pipeline, files: Sequence[StackFile]) -> tuple[list[dict[str, Any]], list[str]]:
    """Write the candidate into the files. Return the changed fields, and notes on what was left."""
    found = candidates_of(pipeline)
    pins = pins_of(pipeline, files)
    passed = (each for each in found if each.check == PASSED and each.name not in pipeline.skipped)
    candidate = next(passed, None)
    if candidate is None:
        return [], [f"{pipeline.name}: no candidate has passed its check"]
    # An image that is no candidate, such as a deleted one, is replaced.
    newer = {each.reference for each in found if each.created >= candidate.created}
    outdated = [pin for pin in pins if pin.reference not in newer]
    changes = []
    for path in dict.fromkeys(pin.file.path for pin in outdated):
        own = [pin for pin in outdated if pin.file.path == path]
        written = edit.write(path, dict.fromkeys([(POOLS, pin.pool, *pin.keys) for pin in own], candidate.reference))
        changes += [
            {
                "file": str(path), "pool": pin.pool, "field": ".".join(pin.keys), "pipeline": pipeline.name,
                "before": pin.reference, "after": candidate.reference, "made_from": candidate.made_from,
                "written": (POOLS, pin.pool, *pin.keys) in written,
            }
            for pin in own
        ]  # fmt: skip
    after = [read(file.path) for file in files]
    newest = f"{pipeline.name}: no pool names an older image than the newest candidate that passed"
    texts = [newest] if pins and not outdated else []
    return changes, texts + _notes(pipeline, found, pins_of(pipeline, after))


def _chosen(found: Sequence[Pipeline], names: Sequence[str]) -> list[Pipeline]:
    """Return the pipelines with these names, or all of them. Raise InputError if a pipeline does not exist."""
    known = list(dict.fromkeys(each.name for each in found))
    if unknown := [name for name in names if name not in known]:
        name = unknown[0]
        raise InputError(
            f"gpu-ci images promote: no image pipeline {name}",
            expected=f"one of {', '.join(known)}" if known else f"a pipeline under {IMAGES}",
            hint=f"--file {name}" if Path(name).exists() else did_you_mean(name, known) or "gpu-ci images candidates",
        )
    return [each for each in found if not names or each.name in names]
