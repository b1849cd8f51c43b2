"""`gpu-ci check MACHINE`: check with the solver of the catalog that one machine type works with the given options."""

from __future__ import annotations

import re
from typing import Any

import click
import gpu_catalog
from gpu_catalog import solver
from gpu_catalog.driver_rules import PREFERRED_BRANCH
from gpu_catalog.setup import driver_sources_for

from gpu_ci.cli.output import InputError, print_json


def run(machine: str, choices: dict[str, Any], as_json: bool) -> None:
    """Print the result. Exits with 1 if the machine does not work with the options."""
    if "python" in choices:
        choices["python"] = _python(choices["python"])
    if "zone" in choices:
        choices["zone"] = choices["zone"].lower()
    try:
        found = solver.check(machine.lower(), **choices)
    except gpu_catalog.DoesNotFit as error:
        problem = {"choice": "machine", "problem": str(error), "source": "", "fix": None}
        answer(machine, [problem], [], [], as_json)
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
    if not problems and "driver_source" not in choices and "driver_branch" in choices:
        problems = _of_every_source(about, choices["driver_branch"])
    answer(about.key, problems, list(found.unknown), list(about.notes), as_json)


def _of_every_source(machine: gpu_catalog.Machine, branch: int) -> list[dict[str, Any]]:
    """Return a problem if no driver source of the machine is known to have this branch."""
    sources = driver_sources_for(machine)
    listed = sorted({each for source in sources for each in source.branches or ()})
    if branch in listed:
        return []
    has = ", ".join(map(str, listed))
    text = f"no driver source for {machine.key} is known to have branch {branch}: they have {has}"
    fix = {"driver_branch": PREFERRED_BRANCH} if PREFERRED_BRANCH in listed else None
    return [{"choice": "driver_branch", "problem": text, "source": "", "fix": fix}]


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


def _python(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)\.(\d+)(?:\.\d+)?", text)
    if not found:
        raise InputError("gpu-ci check: --python: is no version of Python", got=repr(text), expected="such as 3.12")
    requested, (oldest, newest) = (int(found[1]), int(found[2])), solver.pythons()
    if not oldest <= requested <= newest:
        known = f"{to_json(oldest)} to {to_json(newest)}"
        raise InputError("gpu-ci check: --python: no torch is known to be for it", got=text, expected=known)
    return requested
