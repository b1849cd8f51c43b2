"""`gpu-ci new-project`: write a new Python project with tests on CPUs and on the GPUs of a pool."""

from __future__ import annotations

import importlib.metadata
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from gpu_ci import extras
from gpu_ci.cli.init import existing
from gpu_ci.cli.init.mistakes import mistakes
from gpu_ci.cli.new_project import template


@click.command("new-project")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--name", default="", help="The name of the project. By default: the folder's name.")
@click.option("--description", default="", help="What the project is, in one line.")
@click.option(
    "--label",
    "labels",
    multiple=True,
    help="A label of the pool, as in runs-on. Repeatable. By default: self-hosted, gpu and l4.",
)
@click.option("--python", default="", metavar="VERSION", help="The version of Python. By default: 3.12.")
@click.option(
    "--package", default="", help="Where uv finds gpu-ci. By default: where this gpu-ci came from.", metavar="ADDRESS"
)
@click.option("--write", is_flag=True, help="Write the files. Without it, only print them.")
@click.option("--json", "as_json", is_flag=True, help="Print the files and the next steps as JSON.")
def command(folder: Path, write: bool, as_json: bool, **given: Any) -> None:
    """Write a new Python project with GPU code: package, tests, images and workflows. No existing file is changed.

    Without --write, the command prints the files and writes nothing. On a terminal it prompts for missing options. It
    sends no request, and needs no credentials.

    The tests with a GPU run on a pool that exists already: --label names its labels. A pool of kind gce-runners has the
    labels self-hosted, gpu and its name. A pool of kind eks-runners has one label, its name.

    \b
    Examples:
      gpu-ci new-project ../gpu-kernels
      gpu-ci new-project ../gpu-kernels --label self-hosted --label gpu --label t4 --write
      gpu-ci new-project ../gpu-kernels --label a10g --python 3.13 \\
        --package git+https://github.com/OWNER/gpu-ci@COMMIT --write
    """
    answers = {question: value for question, value in given.items() if value}
    answers.setdefault("name", re.sub("[^a-z0-9]+", "-", folder.resolve().name.lower()).strip("-"))
    answers.setdefault("package", extras.source())
    if wrong := template.problems(answers):
        raise mistakes({"gpu-ci new-project": wrong})
    answers["version"] = importlib.metadata.version("gpu-ci")
    files = template.render(answers, prompt=sys.stdin.isatty() and not as_json)
    states = existing.states(folder, files)
    title = "The project needs these changes of existing files, which new-project does not change"
    existing.offer(
        folder, files, states, lambda: _next_steps(folder, answers), title=title, write=write, as_json=as_json
    )


def _next_steps(folder: Path, answers: Mapping[str, Any]) -> Sequence[str]:
    """Return what is left to do, in order."""
    local = answers["package"].startswith("file:")
    address = "git+https://github.com/OWNER/gpu-ci@COMMIT"
    replaced = f"replace {answers['package']} in pyproject.toml with {address}   (GitHub cannot read this folder)"
    return [
        *([] if (folder / ".git").exists() else ["git init --initial-branch main"]),
        "uv lock   (writes uv.lock, which the workflows and images need)",
        "uv run pytest   (downloads 3 GB for torch; without a GPU, the GPU tests are skipped)",
        *([replaced, "uv lock"] if local else []),
        'git add . && git commit --message "Start the project"',
        "uv run pre-commit install   (from now on, git refuses commits on main)",
    ]
