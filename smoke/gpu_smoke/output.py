"""Output to a person, during the check and at its end."""

from __future__ import annotations

import os
import re
import sys
from typing import TextIO

# GitHub's runner (actions/runner@079cdb1: src/Runner.Common/ActionCommand.cs) executes a line as a command if it begins
# with `::`, also after spaces, or has `##[name]` anywhere.
_COMMAND = re.compile(r"((?:^|\r)\s*):(?=:)|##(?=\[)", re.MULTILINE)


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
