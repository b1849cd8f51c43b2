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

    @property
    def changes_something(self) -> bool:
        if self.wants_help:
            return False
        return self.name in CHANGING_COMMANDS or (
            self.name == "stack" and self.operands[:1] != () and self.operands[0] in CHANGING_STACK_SUBCOMMANDS
        )

    @property
    def starts_providers(self) -> bool:
        return self.name in PROVIDER_COMMANDS and not self.wants_help

    @property
    def runs_program(self) -> bool:
        return (self.name in PROGRAM_COMMANDS or self.run_program) and not self.wants_help

    @property
    def generates_sdk(self) -> bool:
        """True for the commands that call the code generator of a language host."""
        if self.wants_help:
            return False
        return self.name == "install" or (self.name == "package" and self.operands[:1] in (("add",), ("gen-sdk",)))

    @property
    def removes_stack(self) -> bool:
        return (
            self.name == "stack"
            and self.operands[:1] != ()
            and self.operands[0] in REMOVE_SUBCOMMANDS
            and not self.wants_help
        )

    @property
    def stack_to_create(self) -> str | None:
        """The stack that must exist before this command runs."""
        if self.wants_help or self.name not in STACK_COMMANDS:
            return None
        if self.name == "stack" and self.operands:
            if self.operands[0] == "select":
                return self.stack or (self.operands[1] if len(self.operands) > 1 else None)
            if self.operands[0] in ("init", "new", "create", "setup", "ls", "list", *REMOVE_SUBCOMMANDS):
                return None
        return self.stack


def parse(arguments: Sequence[str]) -> CommandLine:
    """Parse the arguments of a Pulumi command. Flags that the sandbox does not need are skipped."""
    name, name_index, subcommand_index, stack, cwd, wants_help = "", -1, -1, None, None, False
    operands: list[str] = []
    policy_packs: list[str] = []
    index = 0
    while index < len(arguments):
        word, following = arguments[index], arguments[index + 1] if index + 1 < len(arguments) else None
        index += 1
        if word == "--":
            break
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
    )


def with_preserved_config(arguments: Sequence[str], command: CommandLine) -> list[str]:
    """Return the arguments for pulumi. `stack rm` gets a flag that keeps the stack's file, which real deployments use.

    A flag of the user, such as `--preserve-config=false`, stays as it is.
    """
    flags = arguments[: arguments.index("--")] if "--" in arguments else arguments
    user_decides = any(word == PRESERVE_CONFIG or word.startswith(f"{PRESERVE_CONFIG}=") for word in flags)
    if user_decides or not command.removes_stack:
        return list(arguments)
    return [*arguments[: command.subcommand_index + 1], PRESERVE_CONFIG, *arguments[command.subcommand_index + 1 :]]
