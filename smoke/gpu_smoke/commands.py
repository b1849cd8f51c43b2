"""The commands of `gpu-smoke`: a row each. Its module is loaded when it is asked for, and has `main(argv) -> int`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple


class Command(NamedTuple):
    """Where a command is, and what it does in a few words."""

    module: str
    text: str


COMMANDS = {
    "run": Command("run", "check the GPUs of this machine; also without the word"),
    "report": Command("reports.convert", "write the other forms of a receipt"),
    "check": Command("solver.command", "whether a GPU, a driver and a torch go together; needs none of them"),
    "diagnose": Command("diagnose.command", "why a GPU cannot be used here, and what to run next"),
    "record": Command("record", "add what GPUs reached to a file of your own measurements, for --specs"),
}


def main(argv: Sequence[str]) -> int:
    """Run the command that the first word names, or else the check."""
    named = COMMANDS.get(argv[0]) if argv else None
    command, rest = (named, argv[1:]) if named else (COMMANDS["run"], argv)
    code: int = import_module(f".{command.module}", __package__).main(rest)
    return code


def listed() -> str:
    """For --help."""
    return "\n".join(f"  {name:<9} {command.text}" for name, command in COMMANDS.items())
