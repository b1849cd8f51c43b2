"""What is said to a person while the check runs, and at its end."""

from __future__ import annotations

import os
import sys
from typing import TextIO

from .reports.workflow_commands import harmless


def say(text: str) -> None:
    """Tell a person; no word of it is a command to a runner that reads along."""
    put(sys.stderr, harmless(text.rstrip("\n")) + "\n")


def put(stream: TextIO, text: str) -> OSError | None:
    """Write, and outlive a reader that has gone: the verdict is the exit code. Returns why not all could be written."""
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:  # what is left in the buffer must go somewhere, or Python leaves with 120
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return None if isinstance(error, BrokenPipeError) else error
    return None
