"""`gpu-ci quota`: prints the quotas that the pools of stack files need, next to the limits of gpu-ci:quotas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click
from gpu_catalog import quota
from gpu_catalog.limits import Limit
from gpu_catalog.quota import Finding, Need

from gpu_ci.cli import options
from gpu_ci.cli.output import print_table
from gpu_ci.cli.stack_files import StackFile, for_each_file, problems_found
from gpu_ci.stack import quotas


@click.command("quota")
@click.argument("files", metavar="[FILE...]", nargs=-1, type=click.Path())
@options.as_json
def command(files: tuple[str, ...], as_json: bool) -> None:
    """Show the quotas that the pools need, and the limits that are too small.

    A pool needs quota for all its machines. On Compute Engine it also needs quota for the machine of the smoke check,
    because all may run at the same time.

    Limits come from gpu-ci:quotas of the stack file. `gpu-ci doctor` reads the limits of the account instead.

    A limit that lacks only the machine of the smoke check is a warning: run `pulumi up` while fewer jobs run.

    The exit code is 1 if a limit is too small, or if a region of a ladder has a limit of 0.

    \b
    Examples:
      gpu-ci quota
      gpu-ci quota Pulumi.prod.yaml --json
    """
    for_each_file(files, compared, show, document, as_json, lambda result: result[1].is_short)


@dataclass(frozen=True)
class Compared:
    """The needs of the pools of a file, the given limits, and the differences."""

    needed: list[Need]
    given: Mapping[quota.Key, Limit]
    findings: tuple[Finding, ...]

    @property
    def is_short(self) -> bool:
        """True if a limit is certainly too small, or is 0."""
        return any(each.given is not None and (each.certain or each.given.limit == 0) for each in self.findings)


def compared(file: StackFile) -> tuple[StackFile, Compared]:
    """Compare the needs of a file's pools with the limits in the file."""
    file.refuse_mistakes()
    if wrong := file.problems_of_limits:
        raise problems_found(file, wrong)
    demands, ladders = quotas.demands(file.pools), quotas.ladder_demands(file.pools)
    given = file.quotas.given
    needed = quota.needs(demands)
    for demand in ladders:
        needed = {**quota.needs([demand]), **needed}
    found = quotas.findings(demands, given, ladders)
    return file, Compared([needed[key] for key in sorted(needed)], given, found)


def show(file: StackFile, compared: Compared) -> None:
    given, findings = compared.given, compared.findings
    rows = [
        (each.region, each.name, f"{each.amount:g} {each.unit}", limit_text(given.get((each.region, each.metric))),
         ", ".join(f"{pool} {amount:g}" for pool, amount in each.pools))
        for each in compared.needed
    ]  # fmt: skip
    click.echo(f"{file.name}\n")
    print_table(["region", "quota", "needed", "limit", "for"], rows, right="needed|limit")
    for finding in findings:
        if finding.is_short:
            click.echo(f"{finding.need.name} ({finding.need.region}): {finding.text}")
            click.echo(f"  got: {finding.got}\n  expected: {finding.expected}\n  hint: {finding.hint(file.project)}")
    if without := [name for name, args in file.pools if (demand := args.demand(name)) and not quota.needs([demand])]:
        click.echo(f"{', '.join(without)}: the vendor publishes no quotas")
    if unknown := sum(not finding.is_short for finding in findings):
        are = "s are" if unknown > 1 else " is"
        click.echo(f"{unknown} limit{are} unknown; hint: set {quotas.QUOTAS}, or run gpu-ci doctor")


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
        "problems": [
            {**finding.to_json(), "hint": finding.hint(file.project)} for finding in findings if finding.is_short
        ],
        "unknown": [{"region": each.need.region, "metric": each.need.metric} for each in findings if not each.is_short],
    }
