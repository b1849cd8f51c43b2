"""The commands that only `pulumi-sandbox` has: env, engine, job, serve and world."""

from __future__ import annotations

import json
import shlex
import sys
from importlib import import_module

import click

from pulumi_sandbox import plugins
from pulumi_sandbox.engine import locate
from pulumi_sandbox.engine.model import HOST, VERSION
from pulumi_sandbox.workspace import Workspace

# The commands that load the providers and the database, so they are imported on first use: name -> module.
LAZY = {"job": "job_commands", "serve": "serve", "world": "world_commands"}


class LazyGroup(click.Group):
    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name in LAZY:
            module = import_module(f"pulumi_sandbox.cli.{LAZY[name]}")
            command: click.Command = getattr(module, name)
            return command
        return super().get_command(context, name)

    def list_commands(self, context: click.Context) -> list[str]:
        return sorted([*LAZY, *super().list_commands(context)])


def say(text: str) -> None:
    click.echo(f"pulumi-sandbox: {text}", err=True)


@click.group(cls=LazyGroup)
def commands() -> None:
    """The sandbox's own commands."""


@commands.command()
def env() -> None:
    """Print the environment of the sandbox, so that plain `pulumi` works in it: eval "$(pulumi-sandbox env)"."""
    workspace = Workspace.find()
    locate.ensure(say)
    plugins.install(workspace)
    for name, value in workspace.environment().items():
        click.echo(f"export {name}={shlex.quote(value)}")
    for name in workspace.variables_to_unset():
        click.echo(f"unset {name}")


@commands.command(name="engine")
@click.option("--quiet", is_flag=True, help="Only install it; print nothing if it is installed.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def engine_command(quiet: bool, as_json: bool) -> None:
    """Install the Pulumi CLI if it is missing, and print its source."""
    printed: list[str] = []

    def report(text: str) -> None:
        printed.append(text)
        say(text)

    engine = locate.ensure(report)
    if quiet:
        return
    providers = {name: plugins.sdk_version(name) for name in plugins.PROVIDERS}
    if as_json:
        facts = {"version": engine.version, "way": engine.source, "executable": str(engine.executable),
                 "shim": locate.is_shim(engine.executable), "files": [str(file) for file in engine.files],
                 "folder": str(locate.home()), "notes": [str(file) for file in locate.record_files()],
                 "python": sys.executable, "providers": providers}  # fmt: skip
        click.echo(json.dumps(facts, indent=2))
        return
    click.echo(f"Pulumi CLI   {engine.version} (at least {VERSION} is needed)")
    click.echo(f"came from    {locate.SOURCE_TITLES[engine.source]}")
    click.echo(f"executable   {engine.executable}")
    host = f"Pulumi's own, {engine.folder / HOST}"
    click.echo(f"Python host  {host if engine.has_official_host else 'pulumi_sandbox, ' + sys.executable}")
    for name, version in providers.items():
        click.echo(f"provider     {name} {version or '(the package pulumi-' + name + ' is not installed)'}")
    if engine.warning and engine.warning not in printed:
        click.echo(f"warning: {engine.warning}")


def run(arguments: list[str]) -> int:
    """Run one of these commands."""
    for argument in arguments:  # An argument can hold any bytes. Only valid text can be stored and printed.
        if (escaped := argument.encode("utf-8", "backslashreplace").decode()) != argument:
            sys.stderr.write(f"pulumi-sandbox: {escaped}: is not Unicode text\n  expected: arguments in UTF-8\n")
            return 2
    try:
        # In non-standalone mode, click returns the code of an Exit instead of raising it.
        code = commands.main(args=arguments, prog_name="pulumi-sandbox", standalone_mode=False)
    except click.exceptions.Exit as exit_request:
        return exit_request.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort as error:
        raise KeyboardInterrupt from error  # The name that click uses; the caller prints the message for the user.
    return code if isinstance(code, int) else 0
