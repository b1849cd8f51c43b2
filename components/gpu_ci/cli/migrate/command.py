"""`gpu-ci migrate`: draft a stack file from the Terraform state of other runners."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import click

from gpu_ci.cli import options
from gpu_ci.cli.check import stacks
from gpu_ci.cli.migrate import terraform
from gpu_ci.cli.migrate.draft import Draft
from gpu_ci.cli.migrate.left import left
from gpu_ci.cli.migrate.recognize import draft_of
from gpu_ci.cli.new_files import PULUMI_NAME, create, show, show_next_steps
from gpu_ci.cli.output import InputError, print_json, print_table
from gpu_ci.cli.stack_files import parse
from gpu_ci.errors import report

IMPORTS = "import.json"


@click.command("migrate")
@click.argument("state", type=click.Path(path_type=Path))
@click.option("--stack", default="dev", show_default=True, help="The stack's name, as in Pulumi.<stack>.yaml.")
@click.option("--organization", default="", help="The GitHub organization. By default: that of the state.")
@click.option("--project", default="", help="The Google Cloud project. By default: that of the state.")
@click.option(
    "--write",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Write the files into this folder. Without it, only print them.",
)
@options.as_json
def command(state: Path, stack: str, organization: str, project: str, write: Path | None, as_json: bool) -> None:
    """Draft a stack file from the Terraform state of other runners.

    With --write, the command also writes the program of `gpu-ci init`, except for files that exist.

    STATE is the output of `terraform show -json` or `tofu show -json`. The command recognizes
    terraform-aws-github-runner, Google's gh-runner-mig-vm and gh-runner-gke, scale sets of Helm, and managed instance
    groups. It sends no request, changes no existing file, and reads no value that the state marks as sensitive.

    \b
    Examples:
      gpu-ci migrate state.json
      gpu-ci migrate state.json --stack prod --organization acme --write pools
    """
    if not PULUMI_NAME.fullmatch(stack):
        raise InputError(f"gpu-ci migrate: --stack {stack!r} is not a name that Pulumi accepts", hint="such as prod")
    found = terraform.read(state)
    draft = draft_of(found, stack, organization, project)
    if not draft.pools:
        raise InputError(
            f"{state}: has no runners that this command recognizes",
            expected="an instance group, a scale set of Helm, or a module of docs/guides/migrate.md",
            hint="gpu-ci init writes a stack file without a state",
        )
    remaining = left(found.resources, draft)
    files = {draft.stack_file: draft.text(), IMPORTS: json.dumps(draft.imports(), indent=2) + "\n"}
    file = parse(Path(draft.stack_file), files[draft.stack_file])
    problems = stacks.problems(file)
    folder = write or Path()
    program = draft.program(folder.resolve().name)
    if write:
        _write(write, files, program)
    if as_json:
        print_json(
            {
                "written": write is not None,
                "files": files,
                "pools": [{"name": each.name, "was": each.address, "skipped": each.skipped} for each in draft.pools],
                "left": [asdict(each) for each in remaining],
                "problems": [{key: value for key, value in asdict(each).items() if value} for each in problems],
            }
        )
        return
    if not write:
        show(files)
    print_table(
        ["pool", "replaces", "result"], [(each.name, each.address, each.skipped or each.kind) for each in draft.pools]
    )
    click.echo()
    print_table(
        ["stays in Terraform", "number", "what takes its place", "delete when"],
        [(each.type, str(len(each.addresses)), each.replaced_by, each.delete_when) for each in remaining],
    )
    if problems:
        click.echo(f"\nLeft to write in {draft.stack_file}:\n{report(draft.stack_file, problems, file.line_of)}")
    show_next_steps(_next_steps(draft), write is not None, "--write FOLDER")


def _write(folder: Path, files: Mapping[str, str], program: Mapping[str, str]) -> None:
    """Write the files, or nothing if one of them exists. A file of the program that exists is kept."""
    if existing := [folder / name for name in files if (folder / name).exists()]:
        raise InputError(
            f"{existing[0]}: exists, and migrate never changes a file",
            expected="a folder without the files, or another --stack",
            hint="move the file away",
        )
    new = {name: text for name, text in program.items() if not (folder / name).exists()}
    for name, text in {**files, **new}.items():
        create(folder / name, text)


def _next_steps(draft: Draft) -> list[str]:
    """Return what is left to do, in order."""
    adopt = (
        f"pulumi import --file {IMPORTS} --stack {draft.stack} --generate-code=false --protect=false"
        "   (needs GITHUB_TOKEN)"
    )
    forget = f"terraform state rm '{draft.group.address if draft.group else ''}'   (Pulumi owns it now)"
    group = f"the runner group {draft.group.name} is left out, and " if draft.group else ""
    no_owner = f"run gpu-ci migrate again with --organization   (without it, {group}no job can reach the pools)"
    return [
        *([] if draft.organization else [no_owner]),
        f"gpu-ci check {draft.stack_file}",
        *([adopt, forget] if draft.group and draft.imports()["resources"] else []),
        f"pulumi preview --stack {draft.stack}   (no resource may be replaced or deleted)",
        "Follow the order in docs/guides/migrate.md: move the jobs, drain, delete.",
    ]
