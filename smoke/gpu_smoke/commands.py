"""The table of `gpu-smoke` commands. A command's module is loaded on use and has `main(argv) -> int`."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

from .errors import usage_error


class Command(NamedTuple):
    """The module of a command, and its description for --help."""

    module: str
    text: str


COMMANDS = {
    "run": Command("run", "check the GPUs of this machine (default)"),
    "diagnose": Command("diagnose.command", "find out why a GPU cannot be used, and what to run next"),
}


def main(argv: Sequence[str]) -> int:
    """Run the command that the first word names, or the check if it starts with an option."""
    named = COMMANDS.get(argv[0]) if argv else None
    if not named and argv and not argv[0].startswith("-"):
        raise _unknown(argv[0])
    command, rest = (named, argv[1:]) if named else (COMMANDS["run"], argv)
    code: int = import_module(f".{command.module}", __package__).main(rest)
    return code


def _unknown(word: str) -> Exception:
    """Return the error for a first word that is not a command. The check itself takes options only."""
    near = difflib.get_close_matches(word, COMMANDS, 1)
    return usage_error(word, "no such command", word, near[0] if near else ", ".join(COMMANDS))


def listed() -> str:
    """Return the list of commands for --help."""
    return "\n".join(f"  {name:<9} {command.text}" for name, command in COMMANDS.items())
