"""Prompts for the missing options of `gpu-ci init`. A wrong answer is asked for again, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from gpu_ci.cli.init import choices
from gpu_ci.errors import Problem


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_ON_CLUSTERS: Sequence[tuple[str, str, Callable[[str], Any]]] = (
    ("cluster", "Name of the EKS cluster", str.strip),
    ("subnets", "Private subnets of the cluster, as ZONE=ID, separated by spaces", _words),
    ("location", "Region of the GKE cluster, or its zone if it is zonal", str.strip),
    ("runner_image", "Image of the runners, with its digest", str.strip),
)
"""The options for pools on clusters, in the order of their prompts."""


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
    if "gce-runners" in _kinds(answers):
        prompt("gke_cluster", "Name of the GKE cluster (empty: VMs of Compute Engine)", default="")
    kinds = _kinds(answers)
    needed = choices.needed(kinds, answers["organization"])
    for name, text, read in _ON_CLUSTERS:
        if needed[name]:
            prompt(name, text, read)
    no_jobs = "" if needed["organization"] else " (empty: no job can reach the pools)"
    prompt("organization", f"GitHub organization{no_jobs}", default=None if needed["organization"] else "")
    if answers["organization"]:
        prompt("repositories", "Repositories that can use the pools, separated by spaces", _words)
    if kinds or answers["organization"]:
        prompt("project", "Google Cloud project id")
    return answers


def _kinds(answers: Mapping[str, Any]) -> set[str]:
    return choices.kinds_of(answers["pools"], bool(answers["gke_cluster"]))


def _refuse_mistakes(folder: Path, answers: Mapping[str, Any], name: str, value: Any) -> None:
    """Raise BadParameter, after which click asks again, if an answer is wrong. Open questions get valid answers."""
    given = {**answers, name: value}
    needed = choices.needed(_kinds(given), given["organization"])
    examples = {
        key: example for key, example in choices.EXAMPLES.items() if key not in choices.FOR_CLUSTERS or needed[key]
    }
    filled = {**given, **{key: example for key, example in examples.items() if not given[key] and key != name}}
    options = {choices.OPTIONS[name], *(("--region", "--location") if name == "pools" else ())}
    wrong = [problem for problem in choices.problems(folder, filled) if problem.path in options]
    if wrong:
        raise click.BadParameter("\n".join(_reason(problem) for problem in wrong))


def _reason(problem: Problem) -> str:
    got = f"{problem.got}: " if problem.got else ""
    return f"{got}{problem.reason}"
