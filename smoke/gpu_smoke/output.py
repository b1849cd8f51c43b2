"""Output to a person during the check and at its end, and errors of a command line in one form."""

from __future__ import annotations

import os
import re
import sys
from typing import TextIO

# GitHub's runner (actions/runner@079cdb1: src/Runner.Common/ActionCommand.cs) executes a line as a command if it begins
# with `::`, also after spaces, or has `##[name]` anywhere.
_COMMAND = re.compile(r"((?:^|\r)\s*):(?=:)|##(?=\[)", re.MULTILINE)

# Letters and marks that draw nothing, although str.isprintable() accepts them. They are the rest of
# Default_Ignorable_Code_Point in Unicode's DerivedCoreProperties.txt, and the blank of Braille.
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")


def say(text: str) -> None:
    """Print a text to standard error, with workflow commands of GitHub escaped."""
    put(sys.stderr, escape_commands(text.rstrip("\n")) + "\n")


def escape_commands(text: str) -> str:
    """Escape workflow commands in a text for a log of the GitHub runner. The text stays readable."""
    return _COMMAND.sub(lambda found: f"{found[0]} ", text)


def put(stream: TextIO, text: str) -> OSError | None:
    """Write a text. A closed pipe is no error, because the verdict is the exit code. Returns any other error."""
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:  # Python writes the rest of the buffer at its exit, and would exit with 120
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return None if isinstance(error, BrokenPipeError) else error
    return None


class UsageError(Exception):
    """The command line is wrong. The message is for the user."""


def usage_error(subject: str, problem: str, got: str, expected: str, command: str = "gpu-smoke") -> UsageError:
    """Return an error in the form that every error of this project has."""
    return UsageError(f"{command}: {subject}: {problem}\n{details(got, expected)}\n  hint: {command} --help")


def unwritable(subject: str, path: str, error: Exception, command: str = "gpu-smoke") -> UsageError:
    """Return the error for an output path that cannot be written."""
    problem = f"cannot be written ({getattr(error, 'strerror', None) or error})"
    return usage_error(subject, problem, path, "a file in an existing folder that you can write to", command)


def details(got: str, expected: str) -> str:
    """Return the lines after the first one."""
    return f"  got: {got!r}\n  expected: {expected}"


def printable(text: str) -> str:
    """Replace each character that draws nothing, or changes its neighbours, with a space."""
    if not text.isascii():
        text = _BLANK.sub(" ", text)
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)
