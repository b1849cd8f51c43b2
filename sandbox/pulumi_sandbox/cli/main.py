"""The command `pulumi-sandbox`: the real Pulumi CLI with offline providers instead of clouds."""

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
from pulumi_sandbox.engine.model import Engine, EngineError
from pulumi_sandbox.workspace import PLACEHOLDER, TOKENS, NoProjectError, Workspace
from pulumi_sandbox.world.file import WRITABLE_FOLDER_HINT, WorldError, database_error, open_file

HELP = """\
pulumi-sandbox - the real Pulumi CLI with emulated clouds, on this computer only

Use it like `pulumi`: it passes on every command and flag. Only `config set` and the like change a stack file.
The engine, your program and your stack files are the real ones. The providers of aws, gcp, github and kubernetes are
offline. They refuse what the vendor would refuse, and store resources in a local file, so refresh, import, drift and
destroy work.

  pulumi-sandbox up --stack staging          deploy a stack; an existing stack file is enough
  pulumi-sandbox preview --diff -s staging   show what would change
  pulumi-sandbox destroy --stack staging     delete the stack's resources
  pulumi-sandbox up --help                   pulumi's own help for a command

Commands of its own:
  env      print the environment for plain `pulumi`:  eval "$(pulumi-sandbox env)"
  world    list, show and change the emulated resources, and plant faults
  job      queue, list, show and cancel jobs of GitHub Actions
  serve    serve Compute Engine and GitHub, and run inserted VMs, until Ctrl-C
  engine   install the Pulumi CLI, and print its source

All files are in .sandbox/ next to Pulumi.yaml, or in $PULUMI_SANDBOX_DIR. The engine gets a copy of the stack file.
Placeholders replace the secrets that neither the passphrase "sandbox" nor PULUMI_CONFIG_PASSPHRASE decrypts. The
program does not see variables with credentials of real accounts.
"""


def say(text: str) -> None:
    print(f"pulumi-sandbox: {text}", file=sys.stderr, flush=True)  # noqa: T201 - this is a command line


def main(argv: Sequence[str] | None = None) -> None:
    sys.exit(run(list(sys.argv[1:] if argv is None else argv)))


def run(argv: list[str]) -> int:
    command = arguments.parse(argv)
    try:
        if is_sandbox_command(argv, command):
            from pulumi_sandbox.cli import own_commands

            return own_commands.run(argv)
        if not command.name and (not argv or command.wants_help):
            sys.stdout.write(HELP)
            return 0
        return run_pulumi(argv, command)
    except (NoProjectError, WorldError, EngineError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except sqlite3.DatabaseError as error:
        sys.stderr.write(f"{database_error(error, workspace_of(command).world)}\n")
        return 1
    except BrokenPipeError:  # The reader of our output has ended, so no message can reach it.
        raise
    except OSError as error:
        sys.stderr.write(f"{write_error_text(error, workspace_of(command).root)}\n")
        return 1
    except KeyboardInterrupt:
        say("stopped; the same command continues from the current state")
        return 130


def is_sandbox_command(argv: list[str], command: arguments.CommandLine) -> bool:
    """Return True for a command that only pulumi-sandbox has. `env` with a subcommand (`env ls`) is Pulumi's own."""
    if argv[:1] != [command.name]:
        return False
    has_subcommand = len(argv) > 1 and not argv[1].startswith("-")
    return command.name in ("engine", "job", "serve", "world") or (command.name == "env" and not has_subcommand)


def run_pulumi(argv: list[str], command: arguments.CommandLine) -> int:
    workspace = workspace_of(command)
    if command.refusal:
        sys.stderr.write(f"pulumi-sandbox: {command.refusal}\n")
        return 1
    if command.may_write_any_stack_file:
        from pulumi_sandbox import stacks

        for file in workspace.project.glob("Pulumi.?*.*"):
            stacks.check_writable(file, command.name)
    if (command.changes_something or command.name == "preview") and workspace.world.is_file():
        # Report a world (the emulated cloud state) that cannot be read before the CLI starts.
        open_file(workspace.world).close()
    if command.starts_providers and (sandbox_yaml_problem := settings_problem(workspace)):
        sys.stderr.write(f"{sandbox_yaml_problem}\n")
        return 1
    engine = locate.ensure(say)
    environment = workspace.child_environment()
    if command.name and command.name != "version":
        plugins.install(workspace)
    if command.runs_program:
        environment |= {name: PLACEHOLDER for name in TOKENS if name in os.environ}
    if engine.has_official_host and command.runs_program:
        from pulumi_sandbox.language_host import official

        packs = [Path(command.cwd or ".", pack) for pack in command.policy_packs]
        if problem := official.prepare(workspace, environment, packs):
            sys.stderr.write(f"{problem}\n")
            return 1
    stack = command.stack_to_create
    pulumi_arguments = argv
    if command.name in arguments.STACK_COMMANDS and not command.wants_help:
        from pulumi_sandbox import stacks

        if stacks.write_project_copy(workspace):
            named = command.named_stack
            if named is None and command.needs_stack:
                named = selected_stack(workspace, engine, command, environment)
                if named is None:
                    return 255  # the engine has reported the reason
            pulumi_arguments = with_stack_file(workspace, argv, command, named, environment)
        if stack is not None:
            stacks.create_if_missing(workspace, engine, stack, environment, say)
    if command.removes_stack and arguments.PRESERVE_CONFIG not in command.flags:
        say(f"stack {command.subcommand} keeps the stack's file; {arguments.PRESERVE_CONFIG}=false deletes it too")
        pulumi_arguments = arguments.with_flag(pulumi_arguments, arguments.PRESERVE_CONFIG)
    if command.name == "stack" and command.subcommand == "rename":
        say("stack rename keeps the stack's file; rename the file too")
    code = passthrough.run(engine.executable, pulumi_arguments, environment)
    if not code and command.selects_new_stack and "--no-select" not in command.flags:
        select_as_in_copy(workspace, engine, command, environment)
    if command.name == "destroy" and not code and command.changes_something:
        say("`pulumi-sandbox stack rm` removes the stack and keeps its file, which `pulumi stack rm` would delete")
    if code and stack is not None:
        stacks.print_likely_cause(workspace, stack, say)
    if code and command.runs_program:
        from pulumi_sandbox.language_host import official

        for sdk in official.missing_providers(workspace, environment):
            say(
                f"the sandbox has no provider for {sdk.partition(' ')[0]}, whose SDK is installed\n"
                f"  hint: if the program uses it: pulumi-sandbox plugin install resource {sdk} (needs the internet)"
            )
    if code and command.changes_something:
        print_faults(workspace)
    return code


def selected_stack(
    workspace: Workspace, engine: Engine, command: arguments.CommandLine, environment: dict[str, str]
) -> str | None:
    """Return the selected stack. On a terminal, the engine prompts for one if there is none."""
    from pulumi_sandbox import stacks

    cwd, own = ("--cwd", command.cwd or "."), ("--cwd", str(workspace.stack_files))
    if (found := stacks.selected(engine, environment, *cwd)) is not None:
        return found
    flags = ("--non-interactive",) if "--non-interactive" in command.flags else ()
    if passthrough.run(engine.executable, ["stack", "select", *own, *flags], environment):
        return None
    select_as_in_copy(workspace, engine, command, environment)
    return stacks.selected(engine, environment, *cwd)


def select_as_in_copy(
    workspace: Workspace, engine: Engine, command: arguments.CommandLine, environment: dict[str, str]
) -> None:
    """Select the stack that a command in the folder of copies has selected."""
    from pulumi_sandbox import stacks

    variables = {name: value for name, value in environment.items() if name != "PULUMI_STACK"}
    if stack := stacks.selected(engine, variables, "--cwd", str(workspace.stack_files)):
        stacks.run_engine(engine, variables, "stack", "select", stack, "--cwd", command.cwd or ".")


def with_stack_file(
    workspace: Workspace,
    argv: list[str],
    command: arguments.CommandLine,
    stack: str | None,
    environment: dict[str, str],
) -> list[str]:
    """Return arguments with which the engine changes a copy of the stack file, and set the passphrase of the copy."""
    from pulumi_sandbox import stacks

    if stack is not None:
        named = command.config_file and Path(command.cwd or ".", command.config_file)
        file = named or stacks.stack_file(workspace, stack)
        if command.changes_stack_file:
            stacks.check_writable(file, f"config {command.subcommand}")
        path, copy = stacks.copy_for_engine(workspace, stack, file)
        environment[stacks.PASSPHRASE] = copy.passphrase
        if command.name in arguments.CONFIG_FILE_COMMANDS and not command.changes_stack_file:
            if copy.placeholders and command.runs_program:
                say(f"placeholders replace secrets of {file.name}, which {copy.encrypted_by} encrypts: "
                    f"{', '.join(copy.placeholders)}")  # fmt: skip
            return arguments.with_flag(argv, f"{arguments.CONFIG_FILE_FLAG}={path}")
    if not command.may_write_without_flag:
        return argv
    if stack is not None:
        environment["PULUMI_STACK"] = stack
    return arguments.with_flag(argv, f"--cwd={workspace.stack_files}")


def settings_problem(workspace: Workspace) -> str:
    """Return the problem of sandbox.yaml, or an empty text.

    A provider would refuse the file too. If a lookup starts that provider, the SDK prints a traceback with the error.
    """
    if not workspace.settings_file.is_file():
        return ""
    from pulumi_sandbox.providers import sandbox_file

    try:
        sandbox_file.read(workspace.settings_file)
    except sandbox_file.SettingsError as error:
        return str(error)
    return ""


# Codes of errors for an open file. Such an error names no path, so the message names the sandbox's folder.
WRITE_ERROR_CODES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)


def write_error_text(error: OSError, root: Path) -> str:
    """Report a file or folder that cannot be written, such as a read-only folder or a full disk."""
    path = error.filename or (root if error.errno in WRITE_ERROR_CODES else "pulumi-sandbox")
    in_sandbox_folder = Path(str(path)).is_relative_to(root)
    return f"{path}: {error.strerror or error}" + (f"\n  hint: {WRITABLE_FOLDER_HINT}" if in_sandbox_folder else "")


def workspace_of(command: arguments.CommandLine) -> Workspace:
    """Return the project's sandbox. Commands that need no project (version, new, plugin) get one in the user's home."""
    try:
        return Workspace.find(Path(command.cwd) if command.cwd else None)
    except NoProjectError:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return Workspace(caches / "pulumi-sandbox" / "no-project", Path(command.cwd or ".").absolute())


def print_faults(workspace: Workspace) -> None:
    """Print the faults that are still planted after a failure."""
    if not workspace.world.is_file():
        return
    from pulumi_sandbox.world.store import World

    world = World(workspace.world)
    planted = [fault.kind for fault in world.faults()]
    world.close()
    if planted:
        say(
            f"faults are still planted: {', '.join(planted)}\n"
            "  hint: pulumi-sandbox world faults lists them, world mend --all removes them"
        )


if __name__ == "__main__":
    main()
