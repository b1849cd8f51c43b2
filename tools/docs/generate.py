"""Writes the generated files of docs/ (`make docs`): pools, components, policies, checks, schemas."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click
from gpu_ci.cli.commands import gpu_ci
from gpu_ci.program.keys import Keys
from gpu_ci.stack.schema import as_json, stack_schema
from pulumi_sandbox.cli.own_commands import commands as pulumi_sandbox

from tools.docs import components, stack_file, tables
from tools.docs.tables import DOCS

PROGRAMS = {"gpu-ci": gpu_ci, "pulumi-sandbox": pulumi_sandbox}
_INTRODUCTION = """\
# Commands

Generated from the commands by `make docs`. `--help` of a command describes its options, and prints examples. With
`--json`, a command prints one JSON document.

| command | what it does |
|---|---|"""


def commands_page() -> str:
    """Return the text of the page."""
    rows = [
        f"| `{name}` | {_first_sentence(command)} |"
        for program, group in PROGRAMS.items()
        for name, command in _commands(program, group)
    ]
    return "\n".join([_INTRODUCTION, *rows, ""])


def _first_sentence(command: click.Command) -> str:
    paragraph = inspect.cleandoc(command.help or "").partition("\n\n")[0]
    return re.split(r"(?<=\.)\s", paragraph)[0].replace("\n", " ").replace("<", "&lt;")


def _commands(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """Yield the name and the command of each command below a group."""
    if not isinstance(command, click.Group):
        yield name, command
        return
    context = click.Context(command)
    for each in command.list_commands(context):
        found = command.get_command(context, each)
        if found is not None and not found.hidden:
            yield from _commands(f"{name} {each}", found)


def pages() -> dict[str, str]:
    """Return the text of every generated file, by its path below docs/."""
    schema = stack_schema(Keys, Keys.KEYS)
    return {
        **components.pages(),
        "pulumi-stack.schema.json": as_json(schema),
        "reference/stack-file.md": stack_file.page(schema),
        "reference/commands.md": commands_page(),
        "reference/gpu-smoke-receipt.md": "\n".join(tables.smoke_receipt()),
        "guides/policies.md": tables.policies(),
        "operate/get-alerts.md": tables.alerts(),
        "guides/judge-a-canary.md": tables.canary_power(),
        "reference/runner-ends.md": "\n".join(tables.runner_ends()),
        "reference/gpu-build-step.md": tables.gpu_build_step(),
        "reference/preview-dangers.md": "\n".join(tables.preview_dangers()),
        "reference/gpu-floors.md": "\n".join(tables.gpu_floors()),
        "../smoke/gpu_smoke/data/gpu_table.py": "\n".join(tables.gpu_table()),
        "preview-report.schema.json": tables.preview_report(),
        "machine-record.schema.json": tables.machine_record(),
    }


if __name__ == "__main__":
    for file, text in pages().items():
        (DOCS / file).write_text(text, encoding="utf-8")
