"""Parses the command, the stack and the folder of a Pulumi command line. Pulumi parses everything else."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

# Global flags of the CLI that take a value (`pulumi --help`, v3.259.0).
VALUED = frozenset({
    "--color", "-C", "--cwd", "--memprofilerate", "--otel-traces", "--profiling", "--tracing", "-v", "--verbose",
})  # fmt: skip

# One-letter flags without a value. They can precede other flags in one word: `-ys staging`.
SWITCHES = "eQyfjrdh"

ALIASES = {
    "update": "up", "pre": "preview", "down": "destroy", "dn": "destroy", "delete": "destroy",
}  # fmt: skip

# Commands that work on an existing stack and have a flag for its name.
NEEDS_STACK = frozenset({
    "up", "preview", "refresh", "destroy", "import", "config", "watch", "stack", "state", "cancel", "logs", "about",
})  # fmt: skip

# Commands that can change the emulated cloud state or the stack's state, also when they fail or are killed.
CHANGES = frozenset({"up", "refresh", "destroy", "import", "watch", "state", "cancel"})
REMOVES = ("rm", "remove", "delete")
STACK_CHANGES = frozenset({"import", "rename", *REMOVES})

# Commands that start providers, which read sandbox.yaml.
STARTS_PROVIDERS = frozenset({"up", "preview", "refresh", "destroy", "import", "watch"})

# Commands that run the program, and the flag that makes other commands run it.
RUNS_PROGRAM = frozenset({"up", "preview", "import", "watch"})
RUN_PROGRAM = "--run-program"
POLICY_PACK = "--policy-pack"

KEEPS_FILE = "--preserve-config"


@dataclass(frozen=True)
class CommandLine:
    """The parts of one command line that the sandbox needs."""

    name: str = ""
    first: int = -1
    second: int = -1
    """The index of the first word after the name, such as the `rm` of `stack rm`."""
    rest: tuple[str, ...] = ()
    stack: str | None = None
    cwd: str | None = None
    wants_help: bool = False
    run_program: bool = False
    policy_packs: tuple[str, ...] = ()

    @property
    def changes_something(self) -> bool:
        if self.wants_help:
            return False
        return self.name in CHANGES or (self.name == "stack" and self.rest[:1] != () and self.rest[0] in STACK_CHANGES)

    @property
    def starts_providers(self) -> bool:
        return self.name in STARTS_PROVIDERS and not self.wants_help

    @property
    def runs_program(self) -> bool:
        return (self.name in RUNS_PROGRAM or self.run_program) and not self.wants_help

    @property
    def generates_sdk(self) -> bool:
        """True for the commands that call the code generator of a language host."""
        if self.wants_help:
            return False
        return self.name == "install" or (self.name == "package" and self.rest[:1] in (("add",), ("gen-sdk",)))

    @property
    def removes_stack(self) -> bool:
        return self.name == "stack" and self.rest[:1] != () and self.rest[0] in REMOVES and not self.wants_help

    @property
    def stack_to_make(self) -> str | None:
        """The stack that must exist before this command runs."""
        if self.wants_help or self.name not in NEEDS_STACK:
            return None
        if self.name == "stack" and self.rest:
            if self.rest[0] == "select":
                return self.stack or (self.rest[1] if len(self.rest) > 1 else None)
            if self.rest[0] in ("init", "new", "create", "setup", "ls", "list", *REMOVES):
                return None
        return self.stack


def parse(arguments: Sequence[str]) -> CommandLine:
    name, first, second, stack, cwd, wants_help = "", -1, -1, None, None, False
    rest: list[str] = []
    packs: list[str] = []
    index = 0
    while index < len(arguments):
        word, following = arguments[index], arguments[index + 1] if index + 1 < len(arguments) else None
        index += 1
        if word == "--":
            break
        if word in ("-h", "--help"):
            wants_help = True
        elif word in ("-s", "--stack") or re.fullmatch(f"-[{SWITCHES}]+s", word):
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
        elif word == POLICY_PACK and following is not None:
            packs, index = [*packs, following], index + 1
        elif word.startswith(f"{POLICY_PACK}="):
            packs.append(word.removeprefix(f"{POLICY_PACK}="))
        elif word in VALUED:
            index += 1
        elif not word.startswith("-") or word == "-":
            if name:
                second = second if rest else index - 1
                rest.append(word)
            else:
                name, first = ALIASES.get(word, word), index - 1
    # The engine reads these too: every flag has a variable of that form.
    chosen = stack or os.environ.get("PULUMI_OPTION_STACK") or os.environ.get("PULUMI_STACK")
    run_program = any(word in (RUN_PROGRAM, f"{RUN_PROGRAM}=true") for word in arguments)
    return CommandLine(name, first, second, tuple(rest), chosen or None, cwd, wants_help, run_program, tuple(packs))


def keeping_file(arguments: Sequence[str], command: CommandLine) -> list[str]:
    """Return the arguments for pulumi. `stack rm` gets a flag that keeps the stack's file, which real deployments use.

    A flag of the user, such as `--preserve-config=false`, stays as it is.
    """
    flags = arguments[: arguments.index("--")] if "--" in arguments else arguments
    chosen = any(word == KEEPS_FILE or word.startswith(f"{KEEPS_FILE}=") for word in flags)
    if chosen or not command.removes_stack:
        return list(arguments)
    return [*arguments[: command.second + 1], KEEPS_FILE, *arguments[command.second + 1 :]]
