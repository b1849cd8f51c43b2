"""Where a report is shown: on a terminal, and in a step of GitHub Actions, which obeys lines of a certain form."""

from __future__ import annotations

import json
import os
import re
import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import click
from gpu_ci.cli.output import InputError, note
from gpu_common.visible import visible_lines

from ..model import Report
from ..phrases import number
from ..report import html

# What a step's summary may hold (docs.github.com, "Workflow commands for GitHub Actions", "Step isolation and limits").
_SUMMARY_BYTES = 1024 * 1024
_MESSAGE_CHARACTERS = 20_000
_COMMAND = re.compile(r"^([ \t]*)::", re.MULTILINE)


def progress(command: str) -> Callable[[str], None]:
    """Tells of long work on the error output, each line with the seconds since this call."""
    began = time.monotonic()
    return lambda text: note(without_commands(f"{command}: {time.monotonic() - began:5.1f} s  {text}"))


def without_commands(text: str) -> str:
    """A message with words of the head's in it, of which neither a terminal nor the runner obeys any.

    The runner looks for `::` where a line begins, and for `##[` anywhere in it (actions/runner,
    src/Runner.Common/ActionCommand.cs, TryParseV2 and TryParse).
    """
    return _COMMAND.sub(r"\1: :", visible_lines(text, _MESSAGE_CHARACTERS)).replace("##[", "# #[")


def publish(report: Report, text: str, *, as_json: bool, annotations: Sequence[str] | None) -> None:
    """The end of a command: the report as JSON or as its Markdown; annotations, where they are asked for."""
    if as_json:
        click.echo(to_json(report), nl=False)
    else:
        show(text)
    if annotations is not None:
        annotate(annotations, text)


def prepare(folder: Path) -> None:
    """Make the folder, and try whether it takes a report, before there is one. InputError where not."""
    draft = folder / f".try.{secrets.token_hex(16)}"
    try:
        _refuse_links(folder)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            os.close(_made(draft))
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from None


def write(folder: Path, report: Report, text: str) -> None:
    """The report as Markdown, JSON and HTML into a folder, which is made. InputError where that cannot be."""
    files = {"report.md": text, "report.json": to_json(report), "report.html": html.render(report)}
    # Half a report is worse than none: each file gets its name when all of them are written. Nobody can foresee the
    # name of a draft, and put a link there to be written through.
    drafts = {name: folder / f".{name}.{secrets.token_hex(16)}" for name in files}
    try:
        _refuse_links(folder)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            for name, content in files.items():
                with os.fdopen(_made(drafts[name]), "w", encoding="utf-8", errors="replace") as file:
                    file.write(content)
            for name, draft in drafts.items():
                draft.replace(folder / name)
        finally:
            for draft in drafts.values():
                draft.unlink(missing_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from None


def _made(draft: Path) -> int:
    """A new file, to be written into; never one that is there, nor what a link leads to."""
    return os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)


def _unwritable(folder: Path, error: OSError) -> InputError:
    return InputError(f"{error.filename or folder}: cannot be written", got=error.strerror or str(error))


def _refuse_links(folder: Path) -> None:
    """InputError where a folder lies behind a link of the checkout: a commit may have put it there, to anywhere."""
    here = Path.cwd()
    root = next((each for each in (here, *here.parents) if (each / ".git").exists()), None)
    whole = folder.absolute()
    for each in (whole, *whole.parents):
        if root and each.is_symlink() and Path(os.path.realpath(each.parent)).is_relative_to(root):
            raise InputError(
                f"{folder}: is behind a link of the checkout, which a commit may have put there",
                got=f"{each} is a link",
                expected="a folder without links, or one outside of the checkout",
            )


def to_json(report: Report) -> str:
    """The report as its schema has it, with nothing that the runner would obey where it is printed."""
    text = json.dumps(report.model_dump(mode="json", by_alias=True), indent=2, ensure_ascii=False)
    return text.replace("##[", "#\\u0023[") + "\n"


def show(text: str) -> None:
    """Print it. In GitHub Actions no line of it is obeyed as a command, whoever wrote it."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        click.echo(text)
        return
    token = secrets.token_hex(16)
    click.echo(f"::stop-commands::{token}\n{text}\n::{token}::")


def annotate(lines: Sequence[str], summary: str) -> None:
    """Print annotations, for GitHub Actions alone, and put the report on the page of the run where there is one."""
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for line in lines:
            click.echo(line)
    elif lines:
        note(f"--annotate: this is no step of GitHub Actions; {number(len(lines), 'annotation')} left out")
    if (file := os.environ.get("GITHUB_STEP_SUMMARY")) and len(summary.encode()) < _SUMMARY_BYTES:
        with Path(file).open("a", encoding="utf-8") as page:
            page.write(summary + "\n")
