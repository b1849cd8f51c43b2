"""Prompts for the missing options of `gpu-ci init`. A wrong answer is asked for again, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from gpu_ci.cli.init import choices
from gpu_ci.errors import Problem


def ask(folder: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options, after prompts for those that are missing."""
    answers = dict(given)

    def prompt(name: str, text: str, read: Callable[[str], Any] = str.strip, default: str | None = None) -> None:
        if answers[name]:
            return

        def checked(answer: str) -> Any:
            value = read(answer)
            _refuse_mistakes(folder, answers, name, value)
            return value

        answers[name] = click.prompt(text, default=default, show_default=bool(default), value_proc=checked)

    prompt("pools", "Pool, as NAME=MACHINE_TYPE:MARKET", lambda text: (text.strip(),), choices.DEFAULT_POOL)
    clouds = choices.clouds_of(answers["pools"])
    if "aws" in clouds:
        prompt("cluster", "Name of the EKS cluster")
        prompt("subnets", "Private subnets of the cluster, as ZONE=ID, separated by spaces", _words)
        prompt("runner_image", "Image of the runners, with its digest")
        prompt("organization", "GitHub organization")
    else:
        prompt("organization", "GitHub organization (empty: no job can reach the pools)", default="")
    if answers["organization"]:
        prompt("repositories", "Repositories that can use the pools, separated by spaces", _words)
    if clouds or answers["organization"]:
        prompt("project", "Google Cloud project id")
    return answers


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _refuse_mistakes(folder: Path, answers: Mapping[str, Any], name: str, value: Any) -> None:
    """Raise BadParameter, after which click asks again, if an answer is wrong. Open questions get valid answers."""
    pools = value if name == "pools" else answers["pools"]
    examples = {
        key: example
        for key, example in choices.EXAMPLES.items()
        if key not in choices.FOR_EKS or "aws" in choices.clouds_of(pools)
    }
    filled = {**answers, **{key: example for key, example in examples.items() if not answers[key]}, name: value}
    options = {choices.OPTIONS[name], *(("--region",) if name == "pools" else ())}
    wrong = [problem for problem in choices.problems(folder, filled) if problem.path in options]
    if wrong:
        raise click.BadParameter("\n".join(_reason(problem) for problem in wrong))


def _reason(problem: Problem) -> str:
    got = f"{problem.got}: " if problem.got else ""
    return f"{got}{problem.reason}"
