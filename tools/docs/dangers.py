"""The page docs/reference/preview-dangers.md: what a preview warns of, from the tables of the rules."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_preview.report.danger_rule import RULES
from gpu_preview.report.danger_rules.data_loss import HOLDS
from gpu_preview.report.danger_rules.jobs import CHARTS, RUNS


def page() -> Iterator[str]:
    yield "# What a preview warns of"
    yield ""
    yield "Generated from [danger_rules](../../preview/gpu_preview/report/danger_rules) by `make docs`."
    yield "None of these fails a preview by itself, and a danger is never left out of a report."
    yield ""
    yield "| rule | | when | what to do | source |"
    yield "|---|---|---|---|---|"
    for rule in RULES:
        yield f"| `{rule.name}` | {rule.severity} | {rule.what} | {rule.hint} | {rule.source} |"
    yield ""
    yield "A resource that the engine leaves in the cloud (`retainOnDelete`) interrupts and loses nothing. What was as"
    yield "dangerous before the change is not told again."
    yield ""
    yield "## What runs jobs"
    yield ""
    yield "| type | deleted or replaced | changed | source |"
    yield "|---|---|---|---|"
    for runs in RUNS:
        types = ", ".join(f"`{type_}`" for type_ in runs.types)
        rolls = f"{', '.join(f'`{name}`' for name in runs.rolls)}: {runs.rolled}" if runs.rolls else ""
        yield f"| {types} | {runs.ends} | {rolls} | {runs.source} |"
    for chart, runs in CHARTS.items():
        yield f"| Helm release of `{chart}` | {runs.ends} | | {runs.source} |"
    yield ""
    yield "A managed instance group is told too where it shrinks, and where it gets another template while"
    yield "`updatePolicy.type` is `PROACTIVE`."
    yield ""
    yield "## What holds data"
    yield ""
    yield "| type | what is gone | note |"
    yield "|---|---|---|"
    for type_, holds in HOLDS.items():
        unless = (
            f"without `{holds.empty_first}` it must be empty" if holds.empty_first else "",
            f"not if `{holds.kept_if}` is set" if holds.kept_if else "",
            "not if it is replaced: the program has it" if holds.from_program else "",
        )
        yield f"| `{type_}` | {holds.what} | {'; '.join(filter(None, unless))} |"
    yield ""
