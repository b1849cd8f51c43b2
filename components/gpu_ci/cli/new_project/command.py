"""`gpu-ci new-project`: write a new Python project with tests on CPUs and on the GPUs of a pool.

The folder `files` is a template that copier can render too. Its copier.yml has the questions.
"""

from __future__ import annotations

import importlib.metadata
import keyword
import re
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import click
import yaml

from gpu_ci import extras
from gpu_ci.cli import new_files
from gpu_ci.errors import Problem

TEMPLATE = files(__package__) / "files"
# Modules that the project imports. A package with one of these names would hide the module.
_IMPORTED = {"coverage", "docs", "gpu_smoke", "numpy", "pytest", "pytest_gpu_ci", "tests", "torch"}


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

    Without --write, the command prints the files and writes nothing. It sends no request, and needs no credentials.

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
    answers["version"] = importlib.metadata.version("gpu-ci")
    values = _with_defaults(answers)
    if wrong := problems(values):
        raise new_files.mistakes({"gpu-ci new-project": wrong})
    found = new_files.render(TEMPLATE / "project", values, ".jinja")
    states = new_files.states(folder, found)
    new_files.offer(folder, found, states, lambda: _next_steps(folder, values), write=write, as_json=as_json)


@cache
def _questions() -> dict[str, Mapping[str, Any]]:
    """Return the questions of copier.yml."""
    document = yaml.safe_load((TEMPLATE / "copier.yml").read_text(encoding="utf-8"))
    return {name: settings for name, settings in document.items() if not name.startswith("_")}


def _with_defaults(answers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answers, with the defaults of the other questions."""
    values = dict(answers)
    for name, settings in _questions().items():
        if name not in values:
            text = new_files.environment().from_string(str(settings["default"])).render(values)
            values[name] = yaml.safe_load(text) if settings["type"] == "yaml" else text
    return values


def problems(values: Mapping[str, Any]) -> list[Problem]:
    """Return every mistake in the answers. The path of a problem is the option."""
    found = []
    for name, settings in _questions().items():
        given, choices = values[name], settings.get("choices")
        expected = new_files.environment().from_string(settings.get("validator", "")).render(values)
        if choices and given not in choices:
            expected = f"one of {', '.join(choices)}"
        if expected:
            got = ", ".join(map(repr, given)) if isinstance(given, tuple | list) else repr(given)
            found.append(Problem("--label" if name == "labels" else f"--{name}", "is not accepted", got, expected))
    if keyword.iskeyword(values["module"]) or values["module"] in sys.stdlib_module_names | _IMPORTED:
        text = f"would name the package {values['module']}, which hides a module or word of Python"
        found.append(Problem("--name", text, repr(values["name"]), hint=f"such as --name {values['name']}-kernels"))
    return found


def _next_steps(folder: Path, values: Mapping[str, Any]) -> Sequence[str]:
    """Return what is left to do, in order."""
    local = values["package"].startswith("file:")
    replaced = (
        f"replace {values['package']} in pyproject.toml with {new_files.ADDRESS}   (GitHub cannot read this folder)"
    )
    return [
        *([] if (folder / ".git").exists() else ["git init --initial-branch main"]),
        "uv lock   (writes uv.lock, which the workflows and images need)",
        "uv run pytest   (downloads 3 GB for torch; without a GPU, the GPU tests are skipped)",
        *([replaced, "uv lock"] if local else []),
        'git add . && git commit --message "Start the project"',
        "uv run pre-commit install   (from now on, git refuses commits on main)",
    ]
