"""`gpu-ci cost report`: shows what machines cost, from their records and from the bill.

Names come from workflows, so they are escaped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from typing import NamedTuple

import click
from gpu_common.visible import visible

from gpu_ci.cli import clock, options
from gpu_ci.cli.cost import inputs
from gpu_ci.cli.cost.bill import divide
from gpu_ci.cli.cost.report import BY, Report, compute
from gpu_ci.cli.cost.window import Period, Window, begin_of, since, windows
from gpu_ci.cli.mistakes import Mistakes
from gpu_ci.cli.output import print_json, print_table, print_text
from gpu_ci.machine_records import Parts

_LONGEST_NAME, _BAR = 60, 40
_UNKNOWN = "unknown"


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
    names = tuple(dict.fromkeys((by if by is not None else "team,repository" if stack else "repository").split(",")))
    for name in names:
        if name not in BY:
            expected = f"one or more of {', '.join(BY)}"
            mistakes.add(where, "--by", "is not a column", repr(name), expected, f"--by {BY[1]}")
    if "team" in names and not stack:
        mistakes.add(where, "--by", "needs the teams", "no --stack", "a stack file with gpu-ci:teams", "--stack FILE")
    if as_markdown and as_json:
        mistakes.add(where, "--markdown", "is not possible with --json", "both", "one of them", "remove one of the two")
    if bill == "-" and "-" in records:
        mistakes.add(where, "--bill", "is read from standard input, as RECORDS", "-", "a file", "--bill bill.json")
    day = since(first, where, mistakes) if first is not None else None
    found = inputs.read_records(list(dict.fromkeys(records)), mistakes)
    rows = inputs.read_bill(bill, mistakes) if bill is not None else None
    teams = inputs.read_teams(stack, mistakes) if stack is not None else {}
    mistakes.refuse()
    divided = divide(rows, found) if rows is not None else None
    report = compute(found, windows(period, day), names, period, teams, divided)
    if as_json:
        print_json(report)
    elif as_markdown:
        click.echo(_markdown(report), nl=False)
    else:
        _terminal(report)


class _Section(NamedTuple):
    """A table of a report with the lines below it."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    names: int = 1
    """The number of columns with names, which are the first ones. All others are numbers."""


def _terminal(report: Report) -> None:
    for section in _sections(report):
        click.echo(f"{section.title}\n")
        if section.rows:
            print_table(section.headings, section.rows, right="|".join(section.headings[section.names :]))
            click.echo("")
        for note in section.notes:
            print_text(note, 2)
        if section.notes:
            click.echo("")
    if bars := _bars(report):
        click.echo(f"{_chart_title(report)}\n")
        most = max(bars.values()) or 1.0
        lines = [(label, _usd(usd), "█" * round(_BAR * usd / most)) for label, usd in bars.items()]
        print_table([report["period"], "USD", ""], lines, right="USD")
    for warning in report["warnings"]:
        print_text(f"warning: {visible(warning)}", 2)


def _markdown(report: Report) -> str:
    """Return the report as GitHub's Markdown. GitHub draws the chart."""
    lines = []
    for at, section in enumerate(_sections(report)):
        lines += [f"{'##' if at else '#'} {section.title}", ""]
        if section.rows:
            names, numbers = section.names, len(section.headings) - section.names
            lines += [_line(section.headings), _line(["---"] * names + ["---:"] * numbers)]
            lines += [_line([*map(_code, row[:names]), *row[names:]]) for row in section.rows]
            lines.append("")
        lines += [line for note in section.notes for line in (note, "")]
    if bars := _bars(report):
        values = ", ".join(f"{usd:.2f}" for usd in bars.values())
        chart = ["xychart-beta", f"    x-axis {json.dumps(list(bars))}", '    y-axis "USD"', f"    bar [{values}]"]
        lines += [f"## {_chart_title(report)}", "", "```mermaid", *chart, "```", ""]
    lines += [f"> [!WARNING]\n> {_code(visible(warning))}\n" for warning in report["warnings"]]
    return "\n".join(lines).rstrip() + "\n"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _code(text: str) -> str:
    """Return a text as code, so that nothing in it is Markdown, a mention or the end of a cell."""
    return f"`{text.replace('`', chr(39)).replace('|', '/')}`" if text else ""


def _sections(report: Report) -> Iterator[_Section]:
    yield _costs(report)
    if compared := report["baselines"]:
        rows = [(visible(each["name"]), _usd(each["usd"]), _share(each["saving"])) for each in compared]
        has_bill = report["sharedUsd"] is not None
        cost = "the bill before promotions, with what is shared" if has_bill else "the cost of all machines"
        notes = [
            f"Each line compares with {_usd(report['usd'])} USD, {cost}. Baselines have no disks, network or manager."
        ]
        yield _Section("The same jobs otherwise", ["baseline", "USD", "paid less"], rows, notes)
    if found := report["forecast"]:
        error = f"at most {found['error']:.0%} off in simulated months" if found["error"] else "uncertain before day 7"
        spent = f"{found['month']}: {_usd(found['spentUsd'])} USD until yesterday"
        shared = " With what is shared." if report["sharedUsd"] is not None else ""
        yield _Section("Forecast", [], [], [f"{spent}, about {_usd(found['usd'])} USD at its end ({error}).{shared}"])
    if report["budgets"]:
        teams = [_team(name, *each.values()) for name, each in report["budgets"].items()]
        yield _Section("Budgets of this month", ["team", "on budget", "USD", "budget", "spent"], teams, names=2)


def _team(name: str, spent: float, budget: float | None, on_budget: str) -> list[str]:
    if budget is None:
        return [name, "-", _usd(spent), "-", "-"]
    return [name, on_budget, _usd(spent), _usd(budget), _share(spent / budget)]


def _costs(report: Report) -> _Section:
    by, shared = report["by"], report["sharedUsd"]
    blank = [""] * (len(by) - 1)
    rows = [_row([visible(row[name], _LONGEST_NAME) for name in by], row) for row in report["rows"]]
    rows.append(_row(["all machines", *blank], report["total"]))
    headings = [*by, "jobs", "median wait", "95 % wait", "GPU use", *Parts._fields, "USD", "before", "change"]
    notes = ["Without a bill: prices of the catalog, and no disks or shared cost."]
    if shared is not None:
        notes, promotions = [], report["promotionsUsd"]
        more = {f"shared: {visible(name, _LONGEST_NAME)}": usd for name, usd in shared.items()}
        for name, usd in {**more, "promotions": promotions, "all": report["usd"] + promotions}.items():
            rows.append([name, *[""] * (headings.index("USD") - 1), _usd(usd), "", ""])
    title = f"Cost of {_days(report)}, compared with {_days(report['before'])}"
    return _Section(title, headings, rows, notes, len(by))


def _days(report: Report) -> str:
    return str(Window(*(date.fromisoformat(report[name]) for name in ("from", "until"))))


def _row(names: Sequence[str], row: Report) -> list[str]:
    use, known, usd, before = row["gpuUse"], row["gpuUseKnown"], row["usd"], row["usdBefore"]
    part = f" ({known:.0%} known)" if known and known < 0.995 else ""
    waits = [_duration(row["waitSec"][name]) for name in ("median", "p95")]
    parts = [_usd(row[f"{name}Usd"]) for name in Parts._fields]
    change = f"{usd / before - 1:+.0%}" if before else "new" if usd else ""
    jobs = [f"{row['jobs']:,}", *waits, f"{_share(use)}{part}" if row["jobs"] else ""]
    return [*names, *jobs, *parts, _usd(usd), _usd(before), change]


def _chart_title(report: Report) -> str:
    return f"USD of machines by {report['period']}"


def _bars(report: Report) -> dict[str, float]:
    """Return the amount of each bar of the chart by its label. The running week or month is marked."""
    period = report["period"]
    running = str(begin_of(period, clock.today()))
    amounts: dict[str, float] = report[f"usdBy{period.capitalize()}"]
    return {
        f"{begin[:7] if period == 'month' else begin}{' so far' if begin == running else ''}": usd
        for begin, usd in amounts.items()
    }


def _usd(usd: float | None) -> str:
    return _UNKNOWN if usd is None else f"{usd:,.2f}"


def _share(share: float | None) -> str:
    return _UNKNOWN if share is None else f"{share:.0%}"


def _duration(sec: float | None) -> str:
    return "" if sec is None else f"{sec:.0f} s" if sec < 600 else f"{sec / 60:.0f} min"
