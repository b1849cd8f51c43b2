"""Compares the files of `init` or `new-project` with those of the folder, then writes and reports them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import yaml

from gpu_ci.cli.init import additions
from gpu_ci.cli.init.mistakes import mistakes
from gpu_ci.cli.new_files import create, show, show_next_steps
from gpu_ci.cli.output import print_json, print_table
from gpu_ci.errors import Problem


@dataclass(frozen=True)
class State:
    """A file and its path in the folder. `diff` is the change that an existing file needs."""

    is_new: bool = False
    is_same: bool = False
    diff: str = ""

    def result(self, write: bool) -> str:
        """Return the result for the user. `write` is True if new files are written."""
        if self.is_new:
            return "written" if write else "would be written"
        if self.diff:
            return "kept: needs the change below"
        return "exists, unchanged" if self.is_same else "kept: exists with other content"


def states(folder: Path, files: Mapping[str, str], stack_file: str = "") -> dict[str, State]:
    """Return the state of each file. Raise InputError with every reason why the files cannot be written.

    Args:
        folder: The folder.
        files: The text of each file, by path in the folder.
        stack_file: The path of a file that must not exist.
    """
    found: dict[str, State] = {}
    wrong: dict[str, Problem] = {}  # each reason once, such as a folder for several files
    for path, text in files.items():
        try:
            found[path] = _state(folder, path, text, path == stack_file)
        except _RefusedError as refused:
            wrong[refused.place] = refused.problem
    if wrong:
        raise mistakes({place: [problem] for place, problem in wrong.items()})
    return found


def offer(
    folder: Path,
    files: Mapping[str, str],
    states: Mapping[str, State],
    steps: Callable[[], Sequence[str]],
    *,
    title: str,
    write: bool,
    as_json: bool,
) -> None:
    """Write the new files if `write` is True. Print them, the changes that existing files need, and the next steps.

    Args:
        folder: The folder of the files.
        files: The text of each file, by path in the folder.
        states: The state of each file before anything is written.
        steps: Returns what the user has to do in the folder. It is called after the files were written.
        title: The line above the changes that existing files need.
        write: True to write the files.
        as_json: True to print everything as JSON.
    """
    if write:
        for path, text in files.items():
            if states[path].is_new:
                create(folder / path, text)
    changes = {path: state.diff for path, state in states.items() if state.diff}
    enter = [] if folder.resolve() == Path.cwd() else [f"cd {folder}"]
    change = [f"change {' and '.join(changes)} as printed above"] if changes else []
    everything = [*enter, *change, *steps()]
    if as_json:
        print_json({"written": write, "files": files, "changes": changes, "next": everything})
        return
    if not write:
        show(files)
    print_table(["file", "result"], [(path, states[path].result(write)) for path in files])
    if changes:
        click.echo(f"\n{title}:\n")
        click.echo("".join(changes.values()), nl=False)
    show_next_steps(everything, write, "--write")


class _RefusedError(Exception):
    def __init__(self, place: Path, text: str, **details: str) -> None:
        self.place, self.problem = str(place), Problem("", text, **details)


def _state(folder: Path, path: str, text: str, is_stack_file: bool) -> State:
    place = folder / path
    if place.is_symlink() and not place.exists():
        raise _RefusedError(place, "is a symbolic link to a missing file", hint="remove the link")
    if place.is_dir():
        raise _RefusedError(place, "is a folder", expected="a file, or nothing", hint="choose another folder")
    if not place.exists():
        _refuse_unwritable(place.parent)
        return State(is_new=True)
    if is_stack_file:
        raise _RefusedError(
            place,
            "exists, and init never changes a file",
            expected="a stack without a file",
            hint="give another --stack, or edit the file: gpu-ci check reports its mistakes",
        )
    try:
        own = place.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise _RefusedError(place, "is not text", got=f"the byte {error.start + 1} is not UTF-8") from None
    except OSError as error:
        raise _RefusedError(place, "cannot be read", got=error.strerror or str(error)) from None
    if own == text:
        return State(is_same=True)
    extend = additions.ADDITIONS.get(path)
    if not extend:
        return State()
    try:
        if path == "Pulumi.yaml":
            _refuse_other_language(place, own)
        return State(diff=additions.diff(path, own, extend(own, text)))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = f"line {mark.line + 1}: {getattr(error, 'problem', '')}" if mark else "a character is not allowed"
        raise _RefusedError(place, "is not valid YAML", got=reason, hint="correct the file, or move it away") from None


def _refuse_other_language(place: Path, text: str) -> None:
    """Raise _RefusedError for a Pulumi project whose program is not Python."""
    project = yaml.safe_load(text)
    runtime = project.get("runtime") if isinstance(project, dict) else None
    name = runtime.get("name") if isinstance(runtime, dict) else runtime
    if name != "python":
        raise _RefusedError(
            place,
            "is not the project of a Python program",
            got=f"runtime: {name}" if isinstance(name, str) else "no runtime",
            expected="runtime: python",
            hint="choose another folder",
        )


def _refuse_unwritable(folder: Path) -> None:
    """Raise _RefusedError if a file cannot be created in a folder, which may be missing."""
    while not folder.exists() and not folder.is_symlink():
        folder = folder.parent
    if not folder.exists():
        raise _RefusedError(folder, "is a symbolic link to a missing folder", hint="remove the link")
    if not folder.is_dir():
        raise _RefusedError(folder, "is a file", expected="a folder", hint="choose another folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _RefusedError(folder, "the folder is not writable", hint=f"ls -ld {folder}")
