"""What is said to a person while the check runs, and at its end."""

from __future__ import annotations

import os
import re
import sys
from typing import TextIO

# A runner of GitHub (actions/runner@079cdb1: src/Runner.Common/ActionCommand.cs) takes a line as a command that begins
# with `::`, after spaces too, and one that has `##[name]` anywhere.
_COMMAND = re.compile(r"((?:^|\r)\s*):(?=:)|##(?=\[)", re.MULTILINE)


def say(text: str) -> None:
    """Tell a person; no word of it is a command to a runner that reads along."""
    put(sys.stderr, escape_commands(text.rstrip("\n")) + "\n")


def escape_commands(text: str) -> str:
    """The text for a log that a runner reads: the same to a person, and no command to the runner."""
    return _COMMAND.sub(lambda found: f"{found[0]} ", text)


def put(stream: TextIO, text: str) -> OSError | None:
    """Write, and outlive a reader that has gone: the verdict is the exit code. Returns why not all could be written."""
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:  # what is left in the buffer must go somewhere, or Python leaves with 120
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return None if isinstance(error, BrokenPipeError) else error
    return None
