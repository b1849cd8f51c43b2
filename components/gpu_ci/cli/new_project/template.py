"""The template of `gpu-ci new-project`: the validators of its questions, and its files.

The template is the folder `files`, which copier renders without the network. Its copier.yml has the questions.
"""

from __future__ import annotations

import keyword
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import copier
import yaml
from copier.errors import CopierAnswersInterrupt
from jinja2.sandbox import SandboxedEnvironment

from gpu_ci.errors import Problem

TEMPLATE = Path(__file__).parent / "files"
OPTIONS = {
    "name": "--name",
    "description": "--description",
    "labels": "--label",
    "python": "--python",
    "package": "--package",
}
"""The option of `gpu-ci new-project` for each question."""
# Modules that the project imports. A package with one of these names would hide the module.
_IMPORTED = {"coverage", "docs", "gpu_smoke", "numpy", "pytest", "pytest_gpu_ci", "tests", "torch"}


def problems(answers: Mapping[str, Any]) -> list[Problem]:
    """Return every mistake in the answers. The path of a problem is the option.

    copier reports the first mistake only, so the validators of copier.yml are also evaluated here.
    """
    environment = SandboxedEnvironment()
    # The one filter of copier that the validators use.
    environment.filters["regex_search"] = lambda text, pattern: re.search(pattern, text)
    found = []
    for question, settings in yaml.safe_load((TEMPLATE / "copier.yml").read_text(encoding="utf-8")).items():
        if question not in OPTIONS or question not in answers:
            continue
        given, choices = answers[question], settings.get("choices")
        expected = environment.from_string(settings.get("validator", "")).render(answers)
        if choices and given not in choices:
            expected = f"one of {', '.join(choices)}"
        if expected:
            got = ", ".join(map(repr, given)) if isinstance(given, tuple | list) else repr(given)
            found.append(Problem(OPTIONS[question], "is not accepted", got, expected))
    module = answers["name"].replace("-", "_")
    if keyword.iskeyword(module) or module in sys.stdlib_module_names | _IMPORTED:
        text = f"would name the package {module}, which hides a module or word of Python"
        found.append(Problem("--name", text, repr(answers["name"]), hint=f"such as --name {answers['name']}-kernels"))
    return found


def render(answers: Mapping[str, Any], prompt: bool) -> dict[str, str]:
    """Return the text of each file, by path.

    Args:
        answers: The answers by question, without mistakes.
        prompt: True to prompt for the other questions on the terminal. Otherwise they have their defaults.
    """
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "project"
        try:
            # The user's own defaults for copier could change the files, so they are not read.
            copier.run_copy(
                str(TEMPLATE), folder, dict(answers), settings=copier.Settings(), defaults=not prompt, quiet=True
            )
        except CopierAnswersInterrupt:
            raise click.Abort from None
        paths = sorted(path for path in folder.rglob("*") if path.is_file())
        return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in paths}
