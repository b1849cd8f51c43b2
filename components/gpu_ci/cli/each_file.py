"""Runs a command for several stack files. An error in one file does not stop the command for the other files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from gpu_ci.cli.output import Failure, print_error, print_json
from gpu_ci.cli.stack_files import files_of, read

Answer = tuple[Any, ...]
"""A file and the results of the command for it."""


def for_each_file(
    names: tuple[str, ...],
    compute: Callable[[Any], Answer],
    show: Callable[..., None],
    document: Callable[..., Any],
    as_json: bool,
    code_of: Callable[[Answer], int] = lambda _: 0,
) -> None:
    """Call `compute` for each given file, and print the results in order. Without names, use all files of this folder.

    The exit code is 2 if a file is not a stack file. It is 1 if a file has problems. `code_of` can return a
    higher one.

    Args:
        names: The paths of stack files.
        compute: A function that returns the result for a file.
        show: A function that prints a result as text.
        document: A function that returns a result for the JSON output.
        as_json: True to print JSON.
        code_of: A function that returns the exit code for a result.
    """
    answers = [(path, _answer(path, compute)) for path in files_of(names)]
    if as_json:
        print_json([_document(path, each, document) for path, each in answers])
    codes = [0]
    for index, (_, each) in enumerate(answers):
        if isinstance(each, Failure):
            codes.append(each.exit_code)
            print_error(each)
            continue
        codes.append(int(code_of(each)))
        if not as_json:
            if index:
                click.echo("")
            show(*each)
    if code := max(codes):
        click.get_current_context().exit(code)


def _answer(path: Path, compute: Callable[[Any], Answer]) -> Answer | Failure:
    try:
        return compute(read(path))
    except Failure as failure:
        return failure


def _document(path: Path, answer: Answer | Failure, document: Callable[..., Any]) -> Any:
    return {"file": str(path), **answer.document} if isinstance(answer, Failure) else document(*answer)
