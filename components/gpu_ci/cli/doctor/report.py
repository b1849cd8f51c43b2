"""The result of `gpu-ci doctor`: as JSON, on a terminal, and as a page that users attach to an issue."""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Any

import click
from gpu_common.secret_patterns import redact

from gpu_ci.cli.doctor.steps import Answer
from gpu_ci.cli.output import print_table

# Users may attach the page to an issue, so account numbers (AWS, 12 digits) and e-mail addresses are removed.
_ACCOUNT = re.compile(r"(?<![0-9A-Za-z])\d{12}(?![0-9A-Za-z])")
# The domain is optional, because the search is then fast on long texts. A match without a domain is not an address.
_EMAIL = re.compile(r"[\w.+-]+(@[\w-]+(?:\.[\w-]+)+)?")


def document(name: str, answers: Sequence[Answer]) -> dict[str, Any]:
    """Return the result as JSON. Nothing that looks like a secret remains."""
    results = {answer.finding.status for answer in answers}
    return {
        "file": name,
        "works": "fail" not in results and "pass" in results,
        "steps": [
            {
                "name": answer.step.name,
                "status": answer.finding.status,
                "got": redact(answer.finding.got),
                "expected": answer.step.expected,
                "fix": [redact(line) for line in _fix(answer)],
            }
            for answer in answers
        ],
    }


def _fix(answer: Answer) -> Sequence[str]:
    """Return what to do about a step: its own commands or, for a failure without any, its hint."""
    return answer.finding.fix or ((f"# {answer.step.hint}",) if answer.finding.status == "fail" else ())


def show(report: dict[str, Any]) -> None:
    """Print a table of the steps; then got, expected and fix of those that did not pass.

    If several steps could not run for the same reason, the reason is printed once.
    """
    steps = report["steps"]
    first: dict[str, str] = {}
    for step in steps:
        if step["status"] == "unknown":
            first.setdefault(step["got"], step["name"])
    repeated = {step["name"] for step in steps if first.get(step["got"], step["name"]) != step["name"]}
    print_table(
        ["step", "result", "found"],
        [
            (step["name"], step["status"], f"for the same reason as {first[step['got']]}")
            if step["name"] in repeated
            else (step["name"], step["status"], step["got"])
            for step in steps
        ],
    )
    for step in steps:
        if step["fix"] and step["name"] not in repeated:
            click.echo(f"\n{step['name']}\n  got: {step['got']}\n  expected: {step['expected']}")
            for line in step["fix"]:  # not folded, so that it can be copied
                click.echo(f"  fix: {line}")
    counts = {status: sum(step["status"] == status for step in steps) for status in ("pass", "fail", "unknown")}
    click.echo(f"\n{report['file']}: " + ", ".join(f"{number} {status}" for status, number in counts.items()))


def page(name: str, answers: Sequence[Answer]) -> str:
    """Return the results as Markdown, with the answers of the services.

    Secrets, account numbers and e-mail addresses are removed.
    """
    return "\n".join(_lines(_clean(name), answers))


def _lines(name: str, answers: Sequence[Answer]) -> Iterator[str]:
    yield f"# gpu-ci doctor {name}"
    yield ""
    yield f"gpu-ci {version('gpu-ci')}, Python {platform.python_version()}."
    yield "Secrets, account numbers and e-mail addresses are removed; read the file before you attach it."
    yield ""
    yield "| step | status | got | expected |"
    yield "|---|---|---|---|"
    for answer in answers:
        cells = (answer.step.name, answer.finding.status, answer.finding.got, answer.step.expected)
        yield f"| {' | '.join(_cell(_clean(cell)) for cell in cells)} |"
    for answer in answers:
        if (details := _clean(answer.finding.details)) is not None:
            text = details if isinstance(details, str) else json.dumps(details, indent=2)
            fence = "`" * max(3, *(len(ticks) + 1 for ticks in re.findall("`+", text)), 3)
            yield f"\n<details><summary>{answer.step.name}</summary>\n\n{fence}\n{text}\n{fence}\n\n</details>"
    yield ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        text = _ACCOUNT.sub("[account]", redact(value))
        return _EMAIL.sub(lambda found: "[address]" if found[1] else found[0], text)
    if isinstance(value, dict):
        return {_clean(key): _clean(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(each) for each in value]
    return value
