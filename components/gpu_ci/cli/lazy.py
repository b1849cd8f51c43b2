"""A click group whose commands are modules, each imported when it is called."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click
from gpu_catalog.errors import closest


class Lazy(click.Group):
    """A group that lists its commands without importing them, so that --help is fast."""

    def __init__(self, *args: Any, modules: Mapping[str, tuple[str, str]], **options: Any) -> None:
        """Create a group from the module and the help text of each command.

        MODULE:NAME names a command of a module with several ones. An extra of gpu-ci may install the module's package.
        """
        super().__init__(*args, **options)
        self.modules = modules

    def list_commands(self, _: click.Context) -> list[str]:
        return list(self.modules)

    def get_command(self, _: click.Context, name: str) -> click.Command | None:
        if name not in self.modules:
            return None
        [module, *attribute] = self.modules[name][0].split(":")
        found: click.Command = getattr(importlib.import_module(module), attribute[0] if attribute else "command")
        return found

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.modules:
            raise click.UsageError(f"no command {args[0]!r}\n  hint: {self.suggestion(args[0], context)}", context)
        return super().resolve_command(context, args)

    def suggestion(self, word: str, context: click.Context) -> str:
        """Return a hint for a name that is not a command: the closest command, or all of them."""
        near = closest(word, self.modules)
        return (
            f"did you mean {near}?"
            if near
            else f"the commands are {', '.join(self.modules)}; {context.command_path} --help"
        )

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_text) for name, (_, help_text) in self.modules.items()])
