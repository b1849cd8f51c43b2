"""Prints a report on a terminal, as Markdown for GitHub, or as JSON. Names come from workflows, so they are escaped."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any, NamedTuple

import click
from gpu_common.visible import visible
from pydantic.alias_generators import to_camel

from gpu_ci.cli.cost.report import Report, Row
from gpu_ci.cli.output import print_table, print_text
from gpu_ci.machine_records import Parts

_LONGEST_NAME, _BAR = 60, 40
_UNKNOWN = "unknown"


class Section(NamedTuple):
    """A table of a report with the lines below it."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    names: int = 1
    """The number of columns with names, which are the first ones. All others are numbers."""


def terminal(report: Report) -> None:
    for section in _sections(report):
        click.echo(f"{section.title}\n")
        if section.rows:
            print_table(section.headings, section.rows, right="|".join(section.headings[section.names :]))
            click.echo("")
        for note in section.notes:
            print_text(note, 2)
        if section.notes:
            click.echo("")
    if report.by_period:
        click.echo(f"{_chart_title(report)}\n")
        most = max(report.by_period.values()) or 1.0
        bars = [
            (_label(report, begin), _usd(usd), "█" * round(_BAR * usd / most))
            for begin, usd in report.by_period.items()
        ]
        print_table([report.period, "USD", ""], bars, right="USD")
    for warning in report.warnings:
        print_text(f"warning: {visible(warning)}", 2)


def markdown(report: Report) -> str:
    """Return the report as GitHub's Markdown. GitHub draws the chart."""
    lines = []
    for at, section in enumerate(_sections(report)):
        lines += [f"{'##' if at else '#'} {section.title}", ""]
        if section.rows:
            lines.append(_line(section.headings))
            lines.append(_line("---" if at < section.names else "---:" for at in range(len(section.headings))))
            lines += [
                _line(_code(cell) if at < section.names else cell for at, cell in enumerate(row))
                for row in section.rows
            ]
            lines.append("")
        lines += [line for note in section.notes for line in (note, "")]
    if report.by_period:
        labels = json.dumps([_label(report, begin) for begin in report.by_period])
        values = ", ".join(f"{usd:.2f}" for usd in report.by_period.values())
        lines += [f"## {_chart_title(report)}", "", "```mermaid", "xychart-beta", f"    x-axis {labels}"]
        lines += ['    y-axis "USD"', f"    bar [{values}]", "```", ""]
    lines += [f"> [!WARNING]\n> {_code(warning)}\n" for warning in report.warnings]
    return "\n".join(lines).rstrip() + "\n"


def _line(cells: Any) -> str:
    return f"| {' | '.join(cells)} |"


def _code(text: str) -> str:
    """Return a text as code, so that nothing in it is Markdown, a mention or the end of a cell."""
    return f"`{text.replace('`', chr(39)).replace('|', '/')}`" if text else ""


def _sections(report: Report) -> Iterator[Section]:
    yield _costs(report)
    if report.baselines:
        rows = [(each.name, _usd(each.usd), _saving(each.saving(report.usd))) for each in report.baselines]
        cost = (
            "the cost of all machines" if report.shared is None else "the bill before promotions, with what is shared"
        )
        note = f"Each line compares with {_usd(report.usd)} USD, {cost}. Baselines have no disks, network or manager."
        yield Section("The same jobs otherwise", ["baseline", "USD", "paid less"], rows, [note])
    if found := report.forecast:
        error = f"at most {found.error:.0%} off in simulated months" if found.error else "uncertain before day 7"
        spent = f"{found.month}: {_usd(found.spent_usd)} USD until yesterday"
        yield Section("Forecast", [], [], [f"{spent}, about {_usd(found.usd)} USD at its end ({error})."])
    if report.budgets:
        of_teams = [
            (
                name,
                on_budget if budget else "-",
                _usd(spent),
                _usd(budget) if budget else "-",
                f"{spent / budget:.0%}" if budget else "-",
            )
            for name, (spent, budget, on_budget) in report.budgets.items()
        ]
        yield Section("Budgets of this month", ["team", "on budget", "USD", "budget", "spent"], of_teams, names=2)


def _costs(report: Report) -> Section:
    named = [([visible(name, _LONGEST_NAME) for name in names], row) for names, row in report.rows.items()]
    blank = [""] * (len(report.by) - 1)
    rows = [_row(names, row) for names, row in [*named, (["all machines", *blank], report.total)]]
    width = len(rows[0])
    more = [(f"shared: {visible(name, _LONGEST_NAME)}", usd) for name, usd in (report.shared or {}).items()]
    if report.shared is not None:
        more += [("promotions", report.promotions), ("all", report.usd + report.promotions)]
    for name, usd in more:
        rows.append([name, *blank, *[""] * (width - len(report.by) - 2), _usd(usd), ""])
    headings = [*report.by, "jobs", "median wait", "95 % wait", "GPU use", *Parts._fields, "USD", "change"]
    notes = [] if report.shared is not None else ["Without a bill: prices of the catalog, and no disks or shared cost."]
    return Section(f"Cost of {report.window}, compared with {report.before}", headings, rows, notes, len(report.by))


def _row(names: Sequence[str], row: Row) -> list[str]:
    known = f" ({row.measured_sec / row.job_sec:.0%} known)" if 0 < row.measured_sec < 0.995 * row.job_sec else ""
    use = "" if not row.jobs else _UNKNOWN if row.gpu_use is None else f"{row.gpu_use:.0%}{known}"
    change = f"{row.usd / row.usd_before - 1:+.0%}" if row.usd_before else "new" if row.usd else ""
    waits = [_duration(row.wait_sec(share)) for share in (0.5, 0.95)]
    return [*names, f"{row.jobs:,}", *waits, use, *map(_usd, row.parts), _usd(row.usd), change]


def _chart_title(report: Report) -> str:
    return f"USD of machines by {report.period}"


def _label(report: Report, begin: date) -> str:
    return f"{begin:%Y-%m}" if report.period == "month" else str(begin)


def _usd(usd: float | None) -> str:
    return _UNKNOWN if usd is None else f"{usd:,.2f}"


def _saving(saving: float | None) -> str:
    return _UNKNOWN if saving is None else f"{saving:.0%}"


def _duration(sec: float | None) -> str:
    return "" if sec is None else f"{sec:.0f} s" if sec < 600 else f"{sec / 60:.0f} min"


def document(report: Report) -> dict[str, Any]:
    """Return the report as JSON. Times are seconds, and shares are 0 to 1."""
    paid = report.usd
    return {
        "from": str(report.window.first),
        "until": str(report.window.end),
        "before": {"from": str(report.before.first), "until": str(report.before.end)},
        "rows": [dict(zip(report.by, names, strict=True)) | _numbers(row) for names, row in report.rows.items()],
        "total": _numbers(report.total),
        "sharedUsd": report.shared,
        "promotionsUsd": report.promotions,
        "usd": paid,
        f"usdBy{report.period.capitalize()}": {str(begin): usd for begin, usd in report.by_period.items()},
        "baselines": [{"name": each.name, "usd": each.usd, "saving": each.saving(paid)} for each in report.baselines],
        "forecast": {to_camel(name): value for name, value in report.forecast._asdict().items()}
        if report.forecast
        else None,
        "budgets": {
            name: {"spentUsd": spent, "usdPerMonth": budget, "onBudget": on_budget}
            for name, (spent, budget, on_budget) in report.budgets.items()
        },
        "warnings": list(report.warnings),
    }


def _numbers(row: Row) -> dict[str, Any]:
    return {
        "jobs": row.jobs,
        "waitSec": {"median": row.wait_sec(0.5), "p95": row.wait_sec(0.95)},
        "gpuUse": row.gpu_use,
        "gpuUseKnown": row.measured_sec / row.job_sec if row.job_sec else None,
        **{f"{name}Usd": usd for name, usd in zip(Parts._fields, row.parts, strict=True)},
        "usd": row.usd,
        "usdBefore": row.usd_before,
    }
