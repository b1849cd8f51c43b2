"""`gpu-ci check MACHINE`: check with the solver of the catalog that one machine type works with the given options."""

from __future__ import annotations

import re
from typing import Any

import click
import gpu_catalog
from gpu_catalog import solver, staleness
from gpu_catalog.driver_rules import PREFERRED_BRANCH
from gpu_catalog.setup import driver_sources_for

from gpu_ci.cli import clock
from gpu_ci.cli.output import InputError, print_json


def run(machine: str, choices: dict[str, Any], as_json: bool) -> None:
    """Print the result. Exits with 1 if the machine does not work with the options."""
    if "python" in choices:
        choices["python"] = _python(choices["python"])
    if "zone" in choices:
        choices["zone"] = choices["zone"].lower()
    old = _runner(choices.pop("runner", ""))
    try:
        found = solver.check(machine.lower(), **choices)
    except gpu_catalog.DoesNotFit as error:
        problem = {"choice": "machine", "problem": str(error), "source": "", "fix": None}
        answer(machine, [problem], [], old, as_json)
        return
    except gpu_catalog.UnknownName as error:
        hint = error.hint or "gpu-ci catalog lists machines; a stack file's name ends in .yaml"
        raise InputError(f"gpu-ci check: unknown {error.kind} {error.name!r}", hint=hint) from None
    except ValueError as error:
        raise InputError(f"gpu-ci check: {error}") from None
    problems: list[dict[str, Any]] = []
    if isinstance(found, solver.Refused):
        problems = [
            {
                "choice": problem.choice,
                "problem": problem.text,
                "source": problem.source,
                "fix": {key: to_json(value) for key, value in problem.fix.items()} if problem.fix else None,
            }
            for problem in found.problems
        ]
    about = found.setup.machine
    old += _driver_sources(about, choices, problems)
    answer(about.key, problems, list(found.unknown), [*about.notes, *old], as_json)


def _driver_sources(machine: gpu_catalog.Machine, choices: dict[str, Any], problems: list[dict[str, Any]]) -> list[str]:
    """Check a driver branch that was chosen without a driver source.

    Return a note that names the driver sources with this branch. If no source is known to have the branch, add a
    problem to `problems`.
    """
    branch = choices.get("driver_branch")
    if branch is None or "driver_source" in choices:
        return []
    sources = driver_sources_for(machine)
    unlisted = [each.name for each in sources if each.branches is None]
    also = f"; no list of the branches of {', '.join(unlisted)} was found" if unlisted else ""
    if having := [each.name for each in sources if branch in (each.branches or ())]:
        if problems or len(having) + len(unlisted) == len(sources):
            return []
        return [f"driver branch {branch} comes with the driver source {' or '.join(having)}{also}"]
    if not any(problem["choice"] == "driver_branch" for problem in problems):
        listed = sorted({each for source in sources for each in source.branches or ()})
        has = ", ".join(map(str, listed))
        text = f"no driver source for {machine.key} is known to have branch {branch}: they have {has}"
        fix = {"driver_branch": PREFERRED_BRANCH} if PREFERRED_BRANCH in listed and not problems else None
        problems.append({"choice": "driver_branch", "problem": f"{text}{also}", "source": "", "fix": fix})
    return []


def answer(machine: str, problems: list[dict[str, Any]], unknown: list[str], notes: list[str], as_json: bool) -> None:
    """Print the result as text or as JSON."""
    if as_json:
        print_json(
            {"machine": machine, "works": not problems, "problems": problems, "unknown": unknown, "notes": notes}
        )
    else:
        for each in problems:
            click.echo(f"{machine}: {each['choice']}: {each['problem']}")
            if each["source"]:
                click.echo(f"  source: {each['source']}")
            if each["fix"]:
                click.echo(f"  hint: {options_text(each['fix'])}")
        if not problems:
            click.echo(f"{machine}: {'probably works' if unknown else 'no problem found'}")
        for text in unknown:
            click.echo(f"unverified: {text}")
        for text in notes:
            click.echo(f"note: {text}")
    if problems:
        click.get_current_context().exit(1)


def options_text(fix: dict[str, Any]) -> str:
    """Return a fix as options of this command, such as `--driver-branch 580 works`."""
    options = {name: f"--{name.replace('_', '-')}" for name in fix}
    out = " and ".join(options[name] for name, value in fix.items() if value is None)
    other = " ".join(
        str(value) if name == "machine" else f"{options[name]} {value}"
        for name, value in fix.items()
        if value is not None
    )
    return "; ".join(text for text in (f"leave {out} out" if out else "", f"{other} works" if other else "") if text)


def to_json(value: Any) -> Any:
    """Return a choice as JSON: a machine type by its name, a Python version as text such as 3.12."""
    if isinstance(value, gpu_catalog.Machine):
        return value.key.partition("/")[2]
    return ".".join(map(str, value)) if isinstance(value, tuple) else value


def _runner(version: str) -> list[str]:
    """Return notes on the age of a runner version. They are not problems of the machine."""
    if not version:
        return []
    try:
        return [str(old) for old in staleness.runner(version, clock.today())]
    except ValueError as error:
        raise InputError(f"gpu-ci check: --runner: {error}", expected="such as 2.337.0") from None


def _python(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)\.(\d+)(?:\.\d+)?", text)
    if not found:
        raise InputError("gpu-ci check: --python: is no version of Python", got=repr(text), expected="such as 3.12")
    requested, (oldest, newest) = (int(found[1]), int(found[2])), solver.pythons()
    if not oldest <= requested <= newest:
        known = f"{to_json(oldest)} to {to_json(newest)}"
        raise InputError("gpu-ci check: --python: no torch is known to be for it", got=text, expected=known)
    return requested
