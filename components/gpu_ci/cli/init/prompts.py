"""Prompts for the missing options of `gpu-ci init`. A wrong answer is asked for again, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from gpu_ci.cli.init import options
from gpu_ci.errors import Problem


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_PROMPTS: Sequence[tuple[str, str, Callable[[str], Any]]] = (
    ("cluster", "Name of the EKS cluster", str.strip),
    ("subnets", "Private subnets of the cluster, as ZONE=ID, separated by spaces", _words),
    ("location", "Region of the GKE cluster, or its zone if it is zonal", str.strip),
    ("runner_image", "Image of the runners, with its digest", str.strip),
    ("organization", "GitHub organization", str.strip),
    ("repositories", "Repositories that can use the pools, separated by spaces", _words),
    ("project", "Google Cloud project id", str.strip),
)


def ask(folder: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options, after prompts for those that are missing."""
    answers = dict(given)

    def prompt(name: str, text: str, read: Callable[[str], Any], default: str | None = None) -> None:
        if answers[name]:
            return

        def checked(answer: str) -> Any:
            value = read(answer)
            _refuse_mistakes(folder, answers, name, value)
            return value

        answers[name] = click.prompt(text, default=default, show_default=bool(default), value_proc=checked)

    prompt("pools", "Pool, as NAME=MACHINE_TYPE:MARKET", lambda text: (text.strip(),), options.DEFAULT_POOL)
    if "gce-runners" in options.kinds(answers):
        prompt("gke_cluster", "Name of the GKE cluster (empty: VMs of Compute Engine)", str.strip, "")
    for name, text, read in _PROMPTS:
        if name in options.needed(answers):
            prompt(name, text, read)
        elif name == "organization":
            prompt(name, f"{text} (empty: no job can reach the pools)", read, "")
    return answers


def _refuse_mistakes(folder: Path, answers: Mapping[str, Any], name: str, value: Any) -> None:
    """Raise BadParameter, after which click asks again, if an answer adds a mistake to the options.

    Open questions get valid answers, so that a new mistake comes from this answer.
    """
    example = (options.DEFAULT_POOL,) if name == "pools" else options.OPTIONS[name].example
    known = _mistakes(folder, {**answers, name: example})
    if wrong := [problem for problem in _mistakes(folder, {**answers, name: value}) if problem not in known]:
        raise click.BadParameter("\n".join(_reason(problem) for problem in wrong))


def _mistakes(folder: Path, answers: Mapping[str, Any]) -> list[Problem]:
    needed = options.needed(answers)
    examples = {name: options.OPTIONS[name].example for name in needed if not answers[name]}
    _, of_options, of_file = options.checked(folder, {**answers, **examples})
    return of_options + of_file


def _reason(problem: Problem) -> str:
    got = f"{problem.got}: " if problem.got else ""
    return f"{got}{problem.reason}"
