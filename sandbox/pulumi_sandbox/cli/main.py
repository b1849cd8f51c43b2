"""The command `pulumi-sandbox`: the real Pulumi CLI, with offline providers in the place of clouds."""

from __future__ import annotations

import errno
import os
import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path

from pulumi_sandbox import passthrough, plugins
from pulumi_sandbox.cli import arguments
from pulumi_sandbox.engine import locate
from pulumi_sandbox.engine.model import EngineError
from pulumi_sandbox.workspace import NoProjectError, Workspace
from pulumi_sandbox.world.file import ELSEWHERE, WorldError, open_file, unreadable

HELP = """\
pulumi-sandbox - the real Pulumi CLI on this machine alone, with offline providers in the place of clouds

Use it as you use `pulumi`: every command and flag is passed on unchanged; `stack rm` alone is told to keep the
stack's file. The engine, your program and your stack files are the real ones; only the providers of aws, gcp, github
and kubernetes are offline. They refuse what the vendor would refuse, and keep what was made in a local world, so that
refresh, import, drift and destroy are true.

  pulumi-sandbox up --stack staging          bring a stack up; a stack that has a file is made on the way
  pulumi-sandbox preview --diff -s staging   what would change
  pulumi-sandbox destroy --stack staging     take it down again
  pulumi-sandbox up --help                   pulumi's own help for a command

Commands of its own:
  env      print the environment, so that plain `pulumi` works:  eval "$(pulumi-sandbox env)"
  world    list, show, edit and break what exists in the sandbox
  job      queue, list, show and cancel jobs of GitHub Actions
  serve    serve Compute Engine and GitHub, and run the VMs that are inserted there, until Ctrl-C
  engine   get the engine, and tell where it came from

Everything is kept in .sandbox/ beside Pulumi.yaml (or in $PULUMI_SANDBOX_DIR). Stack files are encrypted with the
passphrase "sandbox" unless PULUMI_CONFIG_PASSPHRASE or PULUMI_CONFIG_PASSPHRASE_FILE is set. Variables that would open
a real cloud account are hidden from the program.
"""


def say(text: str) -> None:
    print(f"pulumi-sandbox: {text}", file=sys.stderr, flush=True)  # noqa: T201 - this is a command line


def main(argv: Sequence[str] | None = None) -> None:
    sys.exit(run(list(sys.argv[1:] if argv is None else argv)))


def run(given: list[str]) -> int:
    command = arguments.parse(given)
    try:
        if is_own(given, command):
            from pulumi_sandbox.cli import own_commands

            return own_commands.run(given, run)
        if not command.name and (not given or command.wants_help):
            sys.stdout.write(HELP)
            return 0
        return pulumi(given, command)
    except (NoProjectError, WorldError, EngineError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except sqlite3.DatabaseError as error:
        sys.stderr.write(f"{unreadable(error, workspace_of(command).world)}\n")
        return 1
    except BrokenPipeError:  # whoever read our output has gone, and needs no message
        raise
    except OSError as error:
        sys.stderr.write(f"{unusable(error, workspace_of(command).root)}\n")
        return 1
    except KeyboardInterrupt:
        say("stopped; the same command goes on from what is there")
        return 130


def is_own(given: list[str], command: arguments.CommandLine) -> bool:
    """`env` with a word after it (`env ls`, `env open` ...) is Pulumi's command of that name."""
    if command.first != 0:
        return False
    with_word = len(given) > 1 and not given[1].startswith("-")
    return command.name in ("engine", "job", "serve", "world") or (command.name == "env" and not with_word)


def pulumi(given: list[str], command: arguments.CommandLine) -> int:
    workspace = workspace_of(command)
    if (command.changes_something or command.name == "preview") and workspace.world.is_file():
        open_file(workspace.world).close()  # one that cannot be read is told before anything is done
    if command.starts_providers and (wrong := settings_mistake(workspace)):
        sys.stderr.write(f"{wrong}\n")
        return 1
    found = locate.ensure(say)
    environment = workspace.apply()
    if command.name and command.name != "version":
        plugins.install(workspace)
    if found.has_official_host and command.runs_program:
        from pulumi_sandbox.language_host import official

        packs = [Path(command.cwd or ".", pack) for pack in command.policy_packs]
        if problem := official.prepare(workspace, environment, packs):
            sys.stderr.write(f"{problem}\n")
            return 1
    stack = command.stack_to_make
    if stack is not None:
        from pulumi_sandbox import stacks

        stacks.make(workspace, found, stack, environment, say)
    passed = arguments.keeping_file(given, command)
    if passed != given:
        say(f"stack {command.rest[0]} keeps the stack's file; {arguments.KEEPS_FILE}=false deletes it too")
    code = passthrough.run(found.executable, passed, environment)
    if code and stack is not None:
        stacks.explain(workspace, found, stack, environment, say)
    if command.changes_something:
        print_orphans(workspace)
        if code:
            print_faults(workspace)
    return code


def settings_mistake(workspace: Workspace) -> str:
    """What is wrong with sandbox.yaml; empty for nothing.

    A provider would refuse it too, but where a lookup starts it, the SDK shows its words below a traceback.
    """
    if not workspace.settings_file.is_file():
        return ""
    from pulumi_sandbox.providers import sandbox_file

    try:
        sandbox_file.read(workspace.settings_file)
    except sandbox_file.SettingsError as wrong:
        return str(wrong)
    return ""


# What the system says of a folder that takes no more; writing into an open file, it names none.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)


def unusable(error: OSError, root: Path) -> str:
    """A file or a folder that the system refuses, such as one that is read-only or full."""
    file = error.filename or (root if error.errno in FULL else "pulumi-sandbox")
    inside = Path(str(file)).is_relative_to(root)
    return f"{file}: {error.strerror or error}" + (f"\n  hint: {ELSEWHERE}" if inside else "")


def workspace_of(command: arguments.CommandLine) -> Workspace:
    """The project's sandbox; commands that need no project (version, new, plugin ...) get one of the user's own."""
    try:
        return Workspace.find(Path(command.cwd) if command.cwd else None)
    except NoProjectError:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return Workspace(caches / "pulumi-sandbox" / "no-project", Path(command.cwd or ".").absolute())


def print_orphans(workspace: Workspace) -> None:
    """What the world and the stacks do not agree on, each with the command that puts it right."""
    if not workspace.world.is_file():
        return
    from pulumi_sandbox.world import orphans

    found = orphans.find(workspace)
    if found:
        say("the world and the stacks do not agree on these, each with the command that puts it right")
        for orphan in found:
            sys.stderr.write("".join(f"  {line}\n" for line in str(orphan).splitlines()))


def print_faults(workspace: Workspace) -> None:
    """After a failure: the faults that are still planted, and will strike again."""
    if not workspace.world.is_file():
        return
    from pulumi_sandbox.world.store import World

    world = World(workspace.world)
    left = [fault.kind for fault in world.faults()]
    world.close()
    if left:
        say(f"faults are still planted: {', '.join(left)}\n  hint: pulumi-sandbox world faults shows them, world mend "
            "--all takes them away")  # fmt: skip


if __name__ == "__main__":
    main()
