"""`gpu-ci images candidates`: lists the images that the pipelines of stack files have built."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import click

from gpu_ci.cli import options
from gpu_ci.cli.each_file import for_each_file
from gpu_ci.cli.images.pipelines import (
    PASSED,
    Candidate,
    Pipeline,
    PoolPin,
    kind_of,
    newest_first,
    pins_of,
    pipelines,
    readable,
)
from gpu_ci.cli.output import InputError, print_error, print_table, print_text
from gpu_ci.cli.stack_files import StackFile, files_of

_SHORT = 24
"""Longer names are cut off in tables. The digest of an image keeps 17 hexadecimal digits."""

Row = tuple[Pipeline, list[Candidate], list[PoolPin]]
Unread = tuple[Pipeline, InputError]
"""A pipeline whose images a cloud did not list, and its error."""


@click.command("candidates")
@click.argument("files", metavar="[FILE...]", nargs=-1, type=click.Path())
@options.as_json
def command(files: tuple[str, ...], as_json: bool) -> None:
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

    def compute(file: StackFile) -> tuple[StackFile, list[Row], list[Unread]]:
        everywhere = readable(files_of(files))
        rows: list[Row] = []
        unread: list[Unread] = []
        for each in pipelines(file):
            try:
                found = newest_first(kind_of(each).candidates(each))
                rows.append((each, found, pins_of(each, everywhere)))
            except InputError as error:
                unread.append((each, error))
        return file, rows, unread

    for_each_file(files, compute, show, document, as_json, code_of=lambda answer: 2 if answer[2] else 0)


def show(file: StackFile, rows: list[Row], unread: list[Unread]) -> None:
    """Print a table of the candidates, then a line for each pin that the list does not explain, then the errors."""
    click.echo(f"{file.name}\n")
    _show_rows(rows)
    if not rows and not unread:
        click.echo("no image pipeline")
    for _, error in unread:
        print_error(error)


def _show_rows(rows: list[Row]) -> None:
    if not rows:
        return
    print_table(
        ["pipeline", "candidate", "made from", "check", "age", "pools"],
        [
            (
                pipeline.name,
                _short(each.name),
                _short(each.made_from),
                f"{each.check}, skipped" if each.name in pipeline.skipped else each.check,
                _age(each),
                ", ".join(pin.pool for pin in pins if pin.reference == each.reference),
            )
            for pipeline, found, pins in rows
            for each in found
        ],
    )
    for pipeline, found, pins in rows:
        if not found:
            click.echo(f"{pipeline.name}: no build has pushed an image yet")
        elif not pins:
            click.echo("")
            example = next((f"; such as {each.reference}" for each in found if each.check == PASSED), "")
            print_text(f"{pipeline.name}: no pool names its image{example}", 2)
        for text in notes(pipeline, found, pins):
            click.echo("")
            print_text(text, 2)


def notes(pipeline: Pipeline, found: list[Candidate], pins: list[PoolPin]) -> list[str]:
    """Return a text for each pin whose image is not in the list, or may be deleted."""
    known = {each.reference for each in found}
    texts = []
    for pin in pins:
        if pin.reference not in known:
            texts.append(f"{pin.place} names {pin.reference}, which is no image of {pipeline.name}")
        elif not kind_of(pipeline).keeps(pipeline, pin):
            hint = kind_of(pipeline).keep_hint(pipeline, pin)
            texts.append(f"{pin.place} names an image that the clean-up of {pipeline.name} may delete; hint: {hint}")
    return texts


def document(file: StackFile, rows: list[Row], unread: list[Unread]) -> dict[str, Any]:
    return {
        "file": file.name,
        "pipelines": [
            {
                "name": pipeline.name,
                "kind": pipeline.spec.kind,
                "candidates": [
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
                ],
                "notes": notes(pipeline, found, pins),
            }
            for pipeline, found, pins in rows
        ]
        + [{"name": pipeline.name, "kind": pipeline.spec.kind, **error.document} for pipeline, error in unread],
    }


def _short(text: str) -> str:
    """Shorten a digest or a commit. Names of host images differ only at their end, so they stay whole."""
    return text[:_SHORT] if re.match("sha256:|commit ", text) else text


def _age(candidate: Candidate) -> str:
    """Return the age in days, or in hours on the first day."""
    age = datetime.now(UTC) - candidate.created
    return f"{age.days} d" if age.days else f"{age.seconds // 3600} h"
