"""Parses the command, the stack and the folder of a Pulumi command line. Pulumi parses everything else."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

CONFIG_FILE_FLAG = "--config-file"
# The flags with a value that the sandbox needs, and the global ones (`pulumi --help`, v3.259.0).
FLAGS_WITH_VALUE = frozenset({
    "--stack", "--cwd", CONFIG_FILE_FLAG, "--policy-pack",
    "--color", "--memprofilerate", "--otel-traces", "--profiling", "--tracing", "--verbose",
})  # fmt: skip
LONG_FLAGS = {"-s": "--stack", "-C": "--cwd", "-v": "--verbose", "-h": "--help", "-f": "--force"}

# A one-letter flag and its value, in one word. Others without a value can precede it: `-ys staging`.
SHORT_FLAG = re.compile(r"-[eQyfjrdh]*([^=])=?(.*)")

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

# Commands that run the program, and the flag with which other commands run it.
PROGRAM_COMMANDS = frozenset({"up", "preview", "import", "watch"})
RUN_PROGRAM_FLAG = "--run-program"

PRESERVE_CONFIG = "--preserve-config"

# Commands with a flag for the stack file, and those of its subcommands that do not change the file
# (pulumi/pulumi v3.259.0, cmd/pulumi).
CONFIG_FILE_COMMANDS = frozenset({"up", "preview", "refresh", "destroy", "import", "watch", "config", "logs"})
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

    words: tuple[str, ...] = ()
    """The words that are no flags, such as `stack`, `rm` and `staging`."""
    flags: Mapping[str, str] = field(default_factory=dict)
    """The last value of each flag, which is empty for a flag without a value."""
    policy_packs: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The command, such as `up` or `stack`, without aliases."""
        return ALIASES.get(self.words[0], self.words[0]) if self.words else ""

    @property
    def operands(self) -> tuple[str, ...]:
        return self.words[1:]

    @property
    def subcommand(self) -> str:
        return self.operands[0] if self.operands else ""

    @property
    def wants_help(self) -> bool:
        return "--help" in self.flags

    @property
    def cwd(self) -> str | None:
        return self.flags.get("--cwd")

    @property
    def stack(self) -> str | None:
        # The engine also reads these variables: every flag has a variable PULUMI_OPTION_<FLAG>.
        variables = (os.environ.get("PULUMI_OPTION_STACK"), os.environ.get("PULUMI_STACK"))
        return next(filter(None, (self.flags.get("--stack"), *variables)), None)

    @property
    def config_file(self) -> str | None:
        return self.flags.get(CONFIG_FILE_FLAG) or os.environ.get("PULUMI_OPTION_CONFIG_FILE") or None

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
        return not self.wants_help and (self.name == "do" or (self.name == "new" and "--force" in self.flags))

    @property
    def changes_something(self) -> bool:
        changes_stack = self.name == "stack" and self.subcommand in CHANGING_STACK_SUBCOMMANDS
        return not self.wants_help and (changes_stack or self.name in CHANGING_COMMANDS)

    @property
    def starts_providers(self) -> bool:
        return self.name in PROVIDER_COMMANDS and not self.wants_help

    @property
    def runs_program(self) -> bool:
        requested = self.flags.get(RUN_PROGRAM_FLAG) in ("", "true")
        return (self.name in PROGRAM_COMMANDS or requested) and not self.wants_help

    @property
    def removes_stack(self) -> bool:
        return self.name == "stack" and self.subcommand in REMOVE_SUBCOMMANDS and not self.wants_help

    @property
    def stack_to_create(self) -> str | None:
        """The stack that must exist before this command runs."""
        without = ("ls", "list", *CREATE_SUBCOMMANDS, *REMOVE_SUBCOMMANDS)
        if self.wants_help or self.name not in STACK_COMMANDS or (self.name == "stack" and self.subcommand in without):
            return None
        return self.named_stack


def parse(arguments: Sequence[str]) -> CommandLine:
    """Parse the arguments of a Pulumi command. Flags that the sandbox does not need have no value."""
    words: list[str] = []
    flags: dict[str, str] = {}
    policy_packs: list[str] = []
    rest = iter(arguments)
    for word in rest:
        if word == "--":
            break
        if not word.startswith("-") or word == "-":
            words.append(word)
            continue
        flag, has_value, value = word.partition("=")
        if short := SHORT_FLAG.fullmatch(word) if word[1] != "-" else None:
            flag, value = LONG_FLAGS.get(f"-{short[1]}", f"-{short[1]}"), short[2]
        if flag in FLAGS_WITH_VALUE and not (has_value or value):
            value = next(rest, "")
        flags[flag] = value
        if flag == "--policy-pack":
            policy_packs.append(value)
    return CommandLine(tuple(words), flags, tuple(policy_packs))


def with_flag(arguments: Sequence[str], flag: str) -> list[str]:
    """Return the arguments with a flag that overrides any earlier one."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return [*arguments[:end], flag, *arguments[end:]]
