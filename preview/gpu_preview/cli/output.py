"""Prints and writes reports, on a terminal or in a step of GitHub Actions.

The GitHub Actions runner executes workflow commands in the output, so untrusted text is escaped.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from gpu_ci.cli.output import InputError, note
from gpu_common.visible import visible_lines

from ..model import Report

# The limit of a job summary (docs.github.com, "Workflow commands for GitHub Actions", "Step isolation and limits").
_SUMMARY_BYTES = 1024 * 1024
_MESSAGE_CHARACTERS = 20_000
_COMMAND = re.compile(r"^([ \t]*)::", re.MULTILINE)


def progress(command: str) -> Callable[[str], None]:
    """Return a function that prints progress to stderr, with the seconds since this call."""
    began = time.monotonic()
    return lambda text: note(without_commands(f"{command}: {time.monotonic() - began:5.1f} s  {text}"))


def without_commands(text: str) -> str:
    """Remove escape codes and workflow commands from a message that contains untrusted text.

    The runner matches `::` at the beginning of a line, and `##[` anywhere (actions/runner,
    src/Runner.Common/ActionCommand.cs, TryParseV2 and TryParse).
    """
    return _COMMAND.sub(r"\1: :", visible_lines(text, _MESSAGE_CHARACTERS)).replace("##[", "# #[")


def publish(report: Report, text: str, *, as_json: bool, summarize: bool) -> None:
    """Print the report as JSON or Markdown. With `summarize`, add it to the job summary in GitHub Actions."""
    if as_json:
        click.echo(to_json(report), nl=False)
    else:
        show(text)
    if not summarize:
        return
    if (file := os.environ.get("GITHUB_STEP_SUMMARY")) and len(text.encode()) < _SUMMARY_BYTES:
        with Path(file).open("a", encoding="utf-8") as page:
            page.write(text + "\n")


def prepare(folder: Path) -> None:
    """Create the output folder, and check that it is writable before the preview starts."""
    with _writable(folder), tempfile.TemporaryFile(dir=folder):
        pass


def write(folder: Path, report: Report, text: str) -> None:
    """Write the report as Markdown and JSON into a folder, which is created if it does not exist."""
    files = {"report.md": text, "report.json": to_json(report)}
    # The files are renamed when all are written, so no incomplete report exists. The draft names are random, so that
    # an attacker cannot put a symbolic link there.
    drafts = {name: folder / f".{name}.{secrets.token_hex(16)}" for name in files}
    with _writable(folder):
        try:
            for name, content in files.items():
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
                with os.fdopen(os.open(drafts[name], flags, 0o666), "w", encoding="utf-8", errors="replace") as file:
                    file.write(content)
            for name, draft in drafts.items():
                draft.replace(folder / name)
        finally:
            for draft in drafts.values():
                draft.unlink(missing_ok=True)


@contextmanager
def _writable(folder: Path) -> Iterator[None]:
    """Create the folder. InputError if it, or a file in it, cannot be written."""
    try:
        _refuse_links(folder)
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        got = error.strerror or str(error)
        raise InputError(f"{error.filename or folder}: cannot be written", got=got) from None


def _refuse_links(folder: Path) -> None:
    """Raise InputError for a folder below a symbolic link in the checkout: a commit can point that link anywhere."""
    here = Path.cwd()
    root = next((each for each in (here, *here.parents) if (each / ".git").exists()), None)
    whole = folder.absolute()
    for each in (whole, *whole.parents):
        if root and each.is_symlink() and Path(os.path.realpath(each.parent)).is_relative_to(root):
            raise InputError(
                f"{folder}: is below a symbolic link in the checkout, which a commit may have added",
                got=f"{each} is a symbolic link",
                expected="a path without symbolic links, or a folder outside of the checkout",
            )


def to_json(report: Report) -> str:
    """Return the report as JSON in the form of its schema, without text that the runner takes as a command."""
    text = json.dumps(report.model_dump(mode="json", by_alias=True), indent=2, ensure_ascii=False)
    return text.replace("##[", "#\\u0023[") + "\n"


def show(text: str) -> None:
    """Print untrusted text. In GitHub Actions, disable workflow commands while the text is printed."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        click.echo(text)
        return
    token = secrets.token_hex(16)
    click.echo(f"::stop-commands::{token}\n{text}\n::{token}::")
