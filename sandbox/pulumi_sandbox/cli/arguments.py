"""Parses the command, the stack and the folder of a Pulumi command line. Pulumi parses everything else."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

# Global flags of the CLI that take a value (`pulumi --help`, v3.259.0).
FLAGS_WITH_VALUE = frozenset({
    "--color", "-C", "--cwd", "--memprofilerate", "--otel-traces", "--profiling", "--tracing", "-v", "--verbose",
})  # fmt: skip

# One-letter flags without a value. They can precede other flags in one word: `-ys staging`.
SHORT_FLAGS_WITHOUT_VALUE = "eQyfjrdh"

ALIASES = {
    "update": "up", "pre": "preview", "down": "destroy", "dn": "destroy", "delete": "destroy",
}  # fmt: skip

# Commands that work on an existing stack and have a flag for its name.
STACK_COMMANDS = frozenset({
    "up", "preview", "refresh", "destroy", "import", "config", "watch", "stack", "state", "cancel", "logs", "about",
})  # fmt: skip

# Commands that can change the emulated cloud state or the stack's state, also when they fail or are killed.
CHANGING_COMMANDS = frozenset({"up", "refresh", "destroy", "import", "watch", "state", "cancel"})
REMOVE_SUBCOMMANDS = ("rm", "remove", "delete")
CHANGING_STACK_SUBCOMMANDS = frozenset({"import", "rename", *REMOVE_SUBCOMMANDS})

# Commands that start providers, which read sandbox.yaml.
PROVIDER_COMMANDS = frozenset({"up", "preview", "refresh", "destroy", "import", "watch"})

# Commands that run the program, and the flag that makes other commands run it.
PROGRAM_COMMANDS = frozenset({"up", "preview", "import", "watch"})
RUN_PROGRAM_FLAG = "--run-program"
POLICY_PACK_FLAG = "--policy-pack"

PRESERVE_CONFIG = "--preserve-config"

# Commands with a flag for the stack file, and those of its subcommands that do not change the file
# (pulumi/pulumi v3.259.0, cmd/pulumi).
CONFIG_FILE_COMMANDS = frozenset({"up", "preview", "refresh", "destroy", "import", "watch", "config", "logs"})
CONFIG_FILE_FLAG = "--config-file"
READING_CONFIG_SUBCOMMANDS = ((), ("get",))

# Commands without that flag that may write the stack file.
CREATE_SUBCOMMANDS = ("init", "new", "create", "setup")
OTHER_WRITERS = frozenset({("stack", "history"), ("stack", "hist"), ("state", "move"), ("state", "mv")})

# Commands that would change or delete a stack file: command, subcommand, flag, and what to do instead.
REFUSED = (
    ("destroy", "", "--remove", "pulumi-sandbox destroy, and then pulumi-sandbox stack rm"),
    ("stack", "", "--secrets-provider", "leave the flag out: the sandbox has its own passphrase"),
    ("stack", "", "--copy-config-from", "copy the file of the stack"),
    ("config", "cp", "", "copy the values from file to file"),
    ("config", "copy", "", "copy the values from file to file"),
    ("stack", "change-secrets-provider", "", "pulumi stack change-secrets-provider with the backend of the real stack"),
    ("stack", "migrate", "", "pulumi stack migrate with the backend of the real stack"),
)


@dataclass(frozen=True)
class CommandLine:
    """The parts of one command line that the sandbox needs."""

    name: str = ""
    """The command, such as `up` or `stack`, without aliases."""
    name_index: int = -1
    """The index of the name in the command line."""
    subcommand_index: int = -1
    """The index of the first word after the name, such as the `rm` of `stack rm`."""
    operands: tuple[str, ...] = ()
    """The words after the name that are no flags, such as `rm` and `staging`."""
    stack: str | None = None
    cwd: str | None = None
    wants_help: bool = False
    run_program: bool = False
    policy_packs: tuple[str, ...] = ()
    config_file: str | None = None
    flags: frozenset[str] = frozenset()
    """The names of all flags."""

    @property
    def subcommand(self) -> str:
        return self.operands[0] if self.operands else ""

    @property
    def refusal(self) -> str:
        """The reason why the sandbox does not run the command, or an empty text."""
        for name, subcommand, flag, hint in REFUSED if not self.wants_help else ():
            if name == self.name and subcommand in ("", self.subcommand) and (not flag or flag in self.flags):
                words = " ".join(word for word in (name, subcommand, flag) if word)
                return f"{words}: would change the stack file, which real deployments use\n  hint: {hint}"
        return ""

    @property
    def named_stack(self) -> str | None:
        """The stack that the command line or the environment names."""
        with_operand = ("select", *CREATE_SUBCOMMANDS, *REMOVE_SUBCOMMANDS)
        names = self.operands[1:] if self.name == "stack" and self.subcommand in with_operand else ()
        return next(iter(self.operands if self.name == "cancel" else names), self.stack)

    @property
    def needs_stack(self) -> bool:
        """True for the commands that prompt for a stack or fail if no stack is named and none is selected."""
        without = ("select", "unselect", "ls", "list", *CREATE_SUBCOMMANDS)
        return self.name != "about" and not (self.name == "stack" and self.subcommand in without)

    @property
    def changes_stack_file(self) -> bool:
        return self.name == "config" and self.operands[:1] not in READING_CONFIG_SUBCOMMANDS

    @property
    def selects_new_stack(self) -> bool:
        """True for the commands that may create or rename a stack, and that select it then."""
        prompts = self.subcommand == "select" and self.named_stack is None
        return self.name == "stack" and (
            prompts or "--create" in self.flags or self.subcommand in (*CREATE_SUBCOMMANDS, "rename")
        )

    @property
    def may_write_without_flag(self) -> bool:
        return self.selects_new_stack or (self.name, self.subcommand) in OTHER_WRITERS

    @property
    def may_write_any_stack_file(self) -> bool:
        """True for the commands that create a stack for an existing file, and have no flag for another file."""
        forced = self.name == "new" and bool({"--force", "-f"} & self.flags)
        return not self.wants_help and (self.name == "do" or forced)

    @property
    def changes_something(self) -> bool:
        if self.wants_help:
            return False
        return self.name in CHANGING_COMMANDS or (
            self.name == "stack" and self.subcommand in CHANGING_STACK_SUBCOMMANDS
        )

    @property
    def starts_providers(self) -> bool:
        return self.name in PROVIDER_COMMANDS and not self.wants_help

    @property
    def runs_program(self) -> bool:
        return (self.name in PROGRAM_COMMANDS or self.run_program) and not self.wants_help

    @property
    def removes_stack(self) -> bool:
        return self.name == "stack" and self.subcommand in REMOVE_SUBCOMMANDS and not self.wants_help

    @property
    def stack_to_create(self) -> str | None:
        """The stack that must exist before this command runs."""
        if self.wants_help or self.name not in STACK_COMMANDS:
            return None
        if self.name == "stack" and self.subcommand in ("ls", "list", *CREATE_SUBCOMMANDS, *REMOVE_SUBCOMMANDS):
            return None
        return self.named_stack


def parse(arguments: Sequence[str]) -> CommandLine:
    """Parse the arguments of a Pulumi command. Flags that the sandbox does not need are skipped."""
    name, name_index, subcommand_index, stack, cwd, wants_help = "", -1, -1, None, None, False
    operands: list[str] = []
    policy_packs: list[str] = []
    config_file: str | None = os.environ.get("PULUMI_OPTION_CONFIG_FILE") or None
    flags: set[str] = set()
    index = 0
    while index < len(arguments):
        word, following = arguments[index], arguments[index + 1] if index + 1 < len(arguments) else None
        index += 1
        if word == "--":
            break
        if word.startswith("-"):
            flags.add(word.partition("=")[0])
        if word in ("-h", "--help"):
            wants_help = True
        elif word in ("-s", "--stack") or re.fullmatch(f"-[{SHORT_FLAGS_WITHOUT_VALUE}]+s", word):
            stack, index = following, index + 1
        elif word.startswith("--stack="):
            stack = word.removeprefix("--stack=")
        elif re.match(r"-s.", word):
            stack = word[2:].removeprefix("=")
        elif word in ("-C", "--cwd"):
            cwd, index = following, index + 1
        elif word.startswith("--cwd="):
            cwd = word.removeprefix("--cwd=")
        elif re.match(r"-C.", word):
            cwd = word[2:].removeprefix("=")
        elif word == CONFIG_FILE_FLAG:
            config_file, index = following, index + 1
        elif word.startswith(f"{CONFIG_FILE_FLAG}="):
            config_file = word.removeprefix(f"{CONFIG_FILE_FLAG}=")
        elif word == POLICY_PACK_FLAG and following is not None:
            policy_packs, index = [*policy_packs, following], index + 1
        elif word.startswith(f"{POLICY_PACK_FLAG}="):
            policy_packs.append(word.removeprefix(f"{POLICY_PACK_FLAG}="))
        elif word in FLAGS_WITH_VALUE:
            index += 1
        elif not word.startswith("-") or word == "-":
            if name:
                subcommand_index = subcommand_index if operands else index - 1
                operands.append(word)
            else:
                name, name_index = ALIASES.get(word, word), index - 1
    # The engine also reads these variables: every flag has a variable PULUMI_OPTION_<FLAG>.
    selected_stack = stack or os.environ.get("PULUMI_OPTION_STACK") or os.environ.get("PULUMI_STACK")
    run_program = any(word in (RUN_PROGRAM_FLAG, f"{RUN_PROGRAM_FLAG}=true") for word in arguments)
    return CommandLine(
        name,
        name_index,
        subcommand_index,
        tuple(operands),
        selected_stack or None,
        cwd,
        wants_help,
        run_program,
        tuple(policy_packs),
        config_file,
        frozenset(flags),
    )


def with_flag(arguments: Sequence[str], flag: str) -> list[str]:
    """Return the arguments with a flag that overrides any earlier one."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return [*arguments[:end], flag, *arguments[end:]]


def with_preserved_config(arguments: Sequence[str], command: CommandLine) -> list[str]:
    """Return the arguments for pulumi. `stack rm` gets a flag that keeps the stack's file, which real deployments use.

    A flag of the user, such as `--preserve-config=false`, stays as it is.
    """
    if PRESERVE_CONFIG in command.flags or not command.removes_stack:
        return list(arguments)
    return [*arguments[: command.subcommand_index + 1], PRESERVE_CONFIG, *arguments[command.subcommand_index + 1 :]]
