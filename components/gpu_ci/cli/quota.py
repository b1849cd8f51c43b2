"""`gpu-ci quota`: prints the quotas that the pools of stack files need, next to the limits of the account."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from gpu_catalog import limits, quota
from gpu_catalog.limits import Limit
from gpu_catalog.quota import Finding, Need

from gpu_ci.cli import options
from gpu_ci.cli.each_file import for_each_file
from gpu_ci.cli.output import InputError, print_table
from gpu_ci.cli.stack_files import StackFile, problems_found
from gpu_ci.stack import quotas


@click.command("quota")
@click.argument("files", metavar="[FILE...]", nargs=-1, type=click.Path())
@click.option("--limits", "answers", multiple=True, type=click.Path(), help="A JSON file with limits. Repeatable.")
@click.option("--region", type=options.REGION, help="The region of a --limits file without one (AWS).")
@options.as_json
def command(files: tuple[str, ...], answers: tuple[str, ...], region: str | None, as_json: bool) -> None:
    """Show the quotas that the pools need, and the limits that are too small.

    A pool needs quota for all its machines and for the machine of the smoke check, because all may run at the same
    time.

    Limits come from gpu-ci:quotas of the stack file and from --limits. If both have a limit, --limits counts. The file
    of --limits is the output of one of these:

    \b
      gcloud compute regions describe REGION --format json
      gcloud compute project-info describe --format json
      aws service-quotas list-service-quotas --service-code ec2
      the Cloud Quotas API

    The exit code is 1 if a limit is too small.

    \b
    Examples:
      gpu-ci quota
      gpu-ci quota Pulumi.prod.yaml --limits us-central1.json --limits project.json
      gpu-ci quota Pulumi.prod.yaml --limits ec2.json --region us-east-1 --json
    """
    if region and not answers:
        raise InputError(
            "gpu-ci quota: --region requires --limits",
            hint=f"add --limits ec2.json, or leave --region {region} out",
        )
    given = {answer: read(Path(answer), region or "") for answer in answers}
    for_each_file(files, lambda file: compared(file, given), show, document, as_json, lambda result: result[1].is_short)


@dataclass(frozen=True)
class Compared:
    """The needs of the pools of a file, the given limits, and the differences."""

    needed: list[Need]
    given: Mapping[quota.Key, Limit]
    findings: tuple[Finding, ...]
    answers: Mapping[str, limits.Limits]
    """The limits of each --limits file, by path."""

    @property
    def is_short(self) -> bool:
        """True if a limit is certainly too small."""
        return any(finding.is_short and finding.certain for finding in self.findings)

    def limits_from(self, answer: str) -> int:
        """Return the number of needed limits that a --limits file has."""
        return sum((each.region, each.metric) in self.answers[answer] for each in self.needed)


def compared(file: StackFile, answers: Mapping[str, limits.Limits]) -> tuple[StackFile, Compared]:
    """Compare the needs of a file's pools with the limits in the file and the limits of --limits.

    If both have a limit, --limits counts.
    """
    file.refuse_mistakes()
    demands = quotas.demands(file.pools)
    in_file, wrong = quotas.check(file.value(quotas.QUOTAS), (), file.project)
    if wrong:
        raise problems_found(file, wrong)
    given = dict(in_file.given)
    for answer in answers.values():
        given |= answer
    needed = quota.needs(demands)
    return file, Compared(list(needed.values()), given, quota.compare(needed, given), answers)


def show(file: StackFile, compared: Compared) -> None:
    given, findings = compared.given, compared.findings
    rows = [
        (each.region, each.name, f"{each.amount:g} {each.unit}", limit_text(given.get((each.region, each.metric))),
         ", ".join(f"{pool} {amount:g}" for pool, amount in each.pools))
        for each in compared.needed
    ]  # fmt: skip
    click.echo(f"{file.name}\n")
    print_table(["region", "quota", "needed", "limit", "for"], rows, right="needed|limit")
    for answer, limits_in_file in compared.answers.items():
        places = sorted({place for place, _ in limits_in_file})
        of = f", all of {', '.join(places[:3])}{' and others' if len(places) > 3 else ''}" if limits_in_file else ""
        click.echo(
            f"{answer}: has {compared.limits_from(answer)} of the {len(rows)} needed limits; "
            f"limits in total: {len(limits_in_file)}{of}"
        )
    for finding in findings:
        if finding.is_short:
            word = "is" if finding.certain else "may be"
            click.echo(f"{finding.need.name} ({finding.need.region}): {word} {finding.text.removeprefix('is ')}")
            click.echo(f"  got: {finding.got}\n  expected: {finding.expected}\n  hint: {finding.hint(file.project)}")
    if unknown := sum(not finding.is_short for finding in findings):
        click.echo(
            f"{unknown} limit{'s are' if unknown > 1 else ' is'} unknown; hint: set {quotas.QUOTAS}, or use --limits"
        )


def limit_text(limit: Limit | None) -> str:
    if limit is None:
        return "unknown"
    return f"{limit.limit:g}" + ("" if limit.usage is None else f" ({limit.usage:g} in use)")


def document(file: StackFile, compared: Compared) -> dict[str, Any]:
    findings = compared.findings

    def limit(need: Need) -> float | None:
        known = compared.given.get((need.region, need.metric))
        return None if known is None or known.limit == float("inf") else known.limit

    return {
        "file": file.name,
        "needs": [
            {**need.to_json(), "limit": limit(need), "console": quota.console_link(need, file.project)}
            for need in compared.needed
        ],
        "answers": [
            {"file": answer, "limits": len(limits_in_file), "needed": compared.limits_from(answer)}
            for answer, limits_in_file in compared.answers.items()
        ],
        "problems": [
            {**finding.to_json(), "hint": finding.hint(file.project)} for finding in findings if finding.is_short
        ],
        "unknown": [{"region": each.need.region, "metric": each.need.metric} for each in findings if not each.is_short],
    }


def read(path: Path, region: str) -> limits.Limits:
    """Return the limits of a file with an answer of Google or AWS."""
    try:
        answer = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read", got=error.strerror or str(error)) from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not text", expected="JSON in UTF-8") from None
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path}:{error.lineno}: is not JSON: {error.msg}", hint="gcloud writes it with --format json"
        ) from None
    try:
        if isinstance(answer, list):  # for a list, gcloud prints only the items
            answer = {"items": answer}
        return limits.from_answer(answer, region)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise InputError(
            f"{path}: is not an answer about quotas", got=str(error), hint="gpu-ci quota --help lists the formats"
        ) from None
