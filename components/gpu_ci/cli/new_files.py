"""Compares the new files of `gpu-ci init` or `new-project` with a folder, then writes and prints them.

An existing file is never changed, because the user may have edited it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import yaml

from gpu_ci.cli.output import InputError, print_json, print_table
from gpu_ci.errors import Problem, report

# Pulumi's rule for the names of projects and stacks (pulumi/pulumi sdk/go/common/tokens/names.go, NameRegexp).
PULUMI_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")


def mistakes(problems: Mapping[str, Sequence[Problem]]) -> InputError:
    """Return one error for problems by subject: a file, or the command for its options."""
    error = InputError("\n".join(report(subject, each) for subject, each in problems.items()) + "\nnothing was written")
    error.problems = [
        {
            **{name: value for name, value in asdict(each).items() if value and name != "path"},
            "text": ": ".join(filter(None, (subject, each.path, each.text))),
        }
        for subject, found in problems.items()
        for each in found
    ]
    return error


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


def states(
    folder: Path, files: Mapping[str, str], changes: Callable[[str, str, str], str], stack_file: str = ""
) -> dict[str, State]:
    """Return the state of each file. Raise InputError with every reason why the files cannot be written.

    Args:
        folder: The folder.
        files: The text of each file, by path in the folder.
        changes: Returns the change that an existing file needs, from its path, its text and the new text.
        stack_file: The path of a file that must not exist.
    """
    found: dict[str, State] = {}
    wrong: dict[str, list[Problem]] = {}  # each reason once, such as a folder for several files
    for path, text in files.items():
        place = folder / path
        try:
            if place.exists() or place.is_symlink():
                own = _text_of(place, path == stack_file)
                found[path] = State(is_same=True) if own == text else State(diff=changes(path, own, text))
            elif file := next((each for each in place.parents if each.is_file()), None):
                wrong[str(file)] = [Problem("", "is a file", expected="a folder", hint="choose another folder")]
            else:
                found[path] = State(is_new=True)
        except RefusedError as refused:
            wrong[str(place)] = [refused.problem]
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            reason = f"line {mark.line + 1}: {getattr(error, 'problem', '')}" if mark else "a character is not allowed"
            hint = "correct the file, or move it away"
            wrong[str(place)] = [Problem("", "is not valid YAML", got=reason, hint=hint)]
    if wrong:
        raise mistakes(wrong)
    return found


class RefusedError(Exception):
    """An existing file prevents that files are written."""

    def __init__(self, text: str, **details: str) -> None:
        self.problem = Problem("", text, **details)


def _text_of(place: Path, is_stack_file: bool) -> str:
    """Return the text of an existing file. Raise RefusedError if it is no file, or may not exist."""
    if not place.exists():
        raise RefusedError("is a symbolic link to a missing file", hint="remove the link")
    if place.is_dir():
        raise RefusedError("is a folder", expected="a file, or nothing", hint="choose another folder")
    if is_stack_file:
        raise RefusedError(
            "exists, and init never changes a file",
            expected="a stack without a file",
            hint="give another --stack, or edit the file: gpu-ci check reports its mistakes",
        )
    try:
        return place.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise RefusedError("is not text", got=f"the byte {error.start + 1} is not UTF-8") from None
    except OSError as error:
        raise RefusedError("cannot be read", got=error.strerror or str(error)) from None


def offer(
    folder: Path,
    files: Mapping[str, str],
    states: Mapping[str, State],
    steps: Callable[[], Sequence[str]],
    *,
    write: bool,
    as_json: bool,
) -> None:
    """Write the new files if `write` is True. Print them, the changes that existing files need, and the next steps.

    Args:
        folder: The folder of the files.
        files: The text of each file, by path in the folder.
        states: The state of each file before anything is written.
        steps: Returns what the user has to do in the folder. It is called after the files were written.
        write: True to write the files.
        as_json: True to print everything as JSON.
    """
    if write:
        for path, text in files.items():
            if states[path].is_new:
                _create(folder / path, text)
    changes = {path: state.diff for path, state in states.items() if state.diff}
    enter = [] if folder.resolve() == Path.cwd() else [f"cd {folder}"]
    change = [f"change {' and '.join(changes)} as printed above"] if changes else []
    everything = [*enter, *change, *steps()]
    if as_json:
        print_json({"written": write, "files": files, "changes": changes, "next": everything})
        return
    for path, text in () if write else files.items():
        indented = "".join(f"  {line}".rstrip() + "\n" for line in text.splitlines())
        click.echo(f"{click.style(path, bold=True)}\n{indented}")
    print_table(["file", "result"], [(path, states[path].result(write)) for path in files])
    if changes:
        click.echo("\nExisting files, which are never changed, need these changes:\n")
        click.echo("".join(changes.values()), nl=False)
    click.echo("\nNext:" if write else "\nNothing was written. Run the command again with --write. Then:")
    for number, step in enumerate(everything, 1):
        click.echo(f"  {number}. {step}")


def _create(path: Path, text: str) -> None:
    """Write a file that does not exist, and its folder. Raise InputError if this fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise InputError(f"{path}: cannot be written", got=error.strerror or str(error)) from None
