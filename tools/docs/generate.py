"""Writes the generated files of docs/ (`make docs`): pools, components, policies, checks, schemas."""

from __future__ import annotations

import inspect
import textwrap
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

Generated from the help of the commands by `make docs`. Every command has `--help`, which also prints examples. With
`--json`, a command prints one JSON document. An option that several commands share is described at the first one."""
# In the help of a command, click does not fold the paragraph after this line.
_NOT_FOLDED = "\b\n"


def commands_page() -> str:
    """Return the text of the page."""
    lines = [_INTRODUCTION]
    first: dict[tuple[str, str], str] = {}
    for program, group in PROGRAMS.items():
        for name, command in _commands(program, group):
            lines += ["", f"## {name}", "", *_section(name, command, first)]
    return "\n".join([*lines, ""])


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


def _section(name: str, command: click.Command, first: dict[tuple[str, str], str]) -> Iterator[str]:
    """Yield the section of a command. `first` has the command that describes an option, by the option's help."""
    text, *blocks = inspect.cleandoc(command.help or "").split(_NOT_FOLDED)
    if arguments := [each for each in command.collect_usage_pieces(click.Context(command)) if each != "[OPTIONS]"]:
        yield from (f"`{name} [OPTIONS] {' '.join(arguments)}`", "")
    yield text.strip().replace("<", "&lt;")
    for block in blocks:
        lines, _, rest = block.partition("\n\n")
        title, _, content = lines.partition("\n")
        if not title.endswith(":"):
            title, content = "", lines
        if title != "Examples:":
            yield from ("", title, "") if title else ("",)
            yield from ("```", textwrap.dedent(content).strip("\n"), "```")
        if rest.strip():
            yield from ("", rest.strip().replace("<", "&lt;"))
    options = [
        each
        for each in command.params
        if isinstance(each, click.Option) and not each.hidden and each.opts != ["--json"]
    ]
    records = [record for option in options if (record := option.get_help_record(click.Context(command)))]
    same: dict[str, list[str]] = {}
    lines = []
    for flags, help_text in records:
        if (other := first.setdefault((flags, help_text), name)) != name:
            same.setdefault(other, []).append(f"`{flags.partition(' ')[0]}`")
        else:
            lines.append(f"- `{flags}`: {help_text.replace('<', '&lt;')}")
    lines += [f"- as for [{other}](#{other.replace(' ', '-')}): {', '.join(flags)}" for other, flags in same.items()]
    yield from ["", *lines] if lines else []


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
