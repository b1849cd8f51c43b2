"""Runs one command for several stack files. An error in one file does not stop the others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from gpu_ci.cli.output import Failure, print_error, print_json
from gpu_ci.cli.stack_files import StackFile, files_of, read

Answer = tuple[Any, ...]
"""A stack file and the results of the command for it."""


def ask_each(
    names: tuple[str, ...],
    ask: Callable[[StackFile], Answer],
    show: Callable[..., None],
    document: Callable[..., Any],
    as_json: bool,
    is_bad: Callable[[Answer], bool] = lambda _: False,
) -> None:
    """Call `ask` for the given files, or for every stack file of this folder, and print the results in order.

    The exit code is 2 if a file is not a stack file, and 1 if a file has problems or `is_bad` returns True for a
    result.
    """
    answers = [(path, _answer(path, ask)) for path in files_of(names)]
    if as_json:
        print_json([_document(path, each, document) for path, each in answers])
    codes = [0]
    for index, (_, each) in enumerate(answers):
        if isinstance(each, Failure):
            codes.append(each.exit_code)
            print_error(each)
            continue
        codes.append(int(is_bad(each)))
        if not as_json:
            if index:
                click.echo("")
            show(*each)
    if code := max(codes):
        click.get_current_context().exit(code)


def _answer(path: Path, ask: Callable[[StackFile], Answer]) -> Answer | Failure:
    try:
        return ask(read(path))
    except Failure as failure:
        return failure


def _document(path: Path, answer: Answer | Failure, document: Callable[..., Any]) -> Any:
    return {"file": str(path), **answer.document} if isinstance(answer, Failure) else document(*answer)
