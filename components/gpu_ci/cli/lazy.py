"""A group of commands, each a module of its own that is imported when it is called."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

import click
from gpu_catalog.errors import closest


class Lazy(click.Group):
    """Knows its commands by module and one line of each, so that a list of them is fast.

    A module may be of another package, which its extra installs.
    """

    COMMANDS: Mapping[str, tuple[str, str]] = {}

    def list_commands(self, _: click.Context) -> list[str]:
        return list(self.COMMANDS)

    def get_command(self, _: click.Context, name: str) -> click.Command | None:
        if name not in self.COMMANDS:
            return None
        found: click.Command = importlib.import_module(self.COMMANDS[name][0]).command
        return found

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.COMMANDS:
            raise click.UsageError(f"no command {args[0]!r}\n  hint: {self.meant(args[0], context)}", context)
        return super().resolve_command(context, args)

    def meant(self, word: str, context: click.Context) -> str:
        """What was probably meant by a word that is no command."""
        near = closest(word, self.COMMANDS)
        return (
            f"did you mean {near}?"
            if near
            else f"the commands are {', '.join(self.COMMANDS)}; {context.command_path} --help"
        )

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, what) for name, (_, what) in self.COMMANDS.items()])
