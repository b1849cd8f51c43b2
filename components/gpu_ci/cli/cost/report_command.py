"""`gpu-ci cost report`: shows what machines cost, from their records and from the bill."""

from __future__ import annotations

import click

from gpu_ci.cli import options
from gpu_ci.cli.cost import inputs
from gpu_ci.cli.cost.bill import divide
from gpu_ci.cli.cost.mistakes import Mistakes
from gpu_ci.cli.cost.report import BY, compute
from gpu_ci.cli.cost.show import document, markdown, terminal
from gpu_ci.cli.cost.window import Period, since, windows
from gpu_ci.cli.output import print_json


@click.command("report")
@click.argument("records", metavar="RECORDS...", nargs=-1, required=True)
@click.option("--by", metavar="NAMES", help=f"One or more of {','.join(BY)}, with commas between them.")
@click.option("--since", "first", metavar="TIME", help="Report on the machines since then: 4w, 30d or a date.")
@click.option(
    "--period",
    type=click.Choice(["week", "month"]),
    default="week",
    help="The bars of the chart. Without --since, report on the last whole week (the default) or month.",
)
@click.option("--stack", metavar="FILE", help="A stack file with gpu-ci:teams.")
@click.option("--bill", metavar="ROWS.json", help="The result of `gpu-ci cost query google`.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown for GitHub.")
@options.as_json
def command(
    records: tuple[str, ...], by: str | None, first: str | None, period: Period, stack: str | None, bill: str | None,
    as_markdown: bool, as_json: bool,
) -> None:  # fmt: skip
    """Show what was paid for the jobs of each team, repository, workflow or pool, and what they waited for.

    RECORDS are files of machine records; - is standard input. A record that is there twice counts once. A machine
    counts on the day on which it was deleted. Days are those of UTC, and today does not count yet.

    Job is the time of jobs. Overhead is the rest of the time in which a machine with a job was on. Lost is the time of
    jobs on machines that the supplier took back. Idle is all other time of machines, which no team pays. The report is
    compared with as many days before.

    Without --bill, amounts are prices of the catalog. By default, rows are by team and repository with --stack, and
    otherwise by repository.

    \b
    Examples:
      gpu-ci cost report records.jsonl
      gpu-ci cost report records.jsonl --since 4w --by pool
      gpu-ci cost report records.jsonl --stack Pulumi.prod.yaml --bill bill.json --markdown
    """
    mistakes, where = Mistakes(), click.get_current_context().command_path
    names = tuple(dict.fromkeys((by or ("team,repository" if stack else "repository")).split(",")))
    for name in names:
        if name not in BY:
            mistakes.add(
                where, "--by", "is not a column", repr(name), f"one or more of {', '.join(BY)}", f"--by {BY[1]}"
            )
    if "team" in names and not stack:
        mistakes.add(where, "--by", "needs the teams", "no --stack", "a stack file with gpu-ci:teams", "--stack FILE")
    if as_markdown and as_json:
        mistakes.add(where, "--markdown", "is not possible with --json", "both", "one of them", "remove one of the two")
    day = since(first, where, mistakes) if first is not None else None
    found = inputs.read_records(list(dict.fromkeys(records)), mistakes)
    rows = inputs.read_bill(bill, mistakes) if bill else None
    teams = inputs.read_teams(stack, mistakes) if stack else {}
    mistakes.refuse()
    divided = divide(rows, found) if rows is not None else None
    report = compute(found, windows(period, day), names, period, teams, divided)
    if as_json:
        print_json(document(report))
    elif as_markdown:
        click.echo(markdown(report), nl=False)
    else:
        terminal(report)
