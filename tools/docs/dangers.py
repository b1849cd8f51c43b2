"""Writes the page docs/reference/preview-dangers.md from the tables of the danger rules."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_preview.report.danger_rule import RULES
from gpu_preview.report.danger_rules.data_loss import HOLDS
from gpu_preview.report.danger_rules.jobs import CHARTS, JOB_RESOURCES


def page() -> Iterator[str]:
    yield "# What a preview warns of"
    yield ""
    yield "Generated from [danger_rules](../../preview/gpu_preview/report/danger_rules) by `make docs`."
    yield "A [preview](../guides/previews.md) reports these findings. They alone do not fail the preview."
    yield "A report always lists every danger."
    yield ""
    yield "| rule | severity | when | what to do | source |"
    yield "|---|---|---|---|---|"
    for rule in RULES:
        yield f"| `{rule.name}` | {rule.severity} | {rule.description} | {rule.hint} | {rule.source} |"
    yield ""
    yield "A resource that the engine leaves in the cloud (`retainOnDelete`) interrupts no job and loses no data."
    yield "A danger that existed before the change is not reported again."
    yield ""
    yield "## Resources that run jobs"
    yield ""
    yield "| type | deleted or replaced | changed | source |"
    yield "|---|---|---|---|"
    for entry in JOB_RESOURCES:
        types = ", ".join(f"`{type_}`" for type_ in entry.types)
        properties = ", ".join(f"`{name}`" for name in entry.machine_properties)
        on_update = f"{properties}: {entry.on_update}" if properties else ""
        yield f"| {types} | {entry.on_delete} | {on_update} | {entry.source} |"
    for chart, entry in CHARTS.items():
        yield f"| Helm release of `{chart}` | {entry.on_delete} | | {entry.source} |"
    yield ""
    yield "A node pool on GKE is not reported for a change of its machines if its upgrades are autoscaled blue-green"
    yield "ones, which wait for jobs. It is also reported if it loses a zone."
    yield "A managed instance group is also reported if it shrinks, or if it gets another template while"
    yield "`updatePolicy.type` is `PROACTIVE`."
    yield ""
    yield "## Resources that hold data"
    yield ""
    yield "| type | lost data | note |"
    yield "|---|---|---|"
    for type_, holds in HOLDS.items():
        unless = (
            f"without `{holds.empty_first}`, the cloud deletes it only if it is empty" if holds.empty_first else "",
            f"no finding if `{holds.kept_if}` is set" if holds.kept_if else "",
            "no finding if it is replaced, because the program has the value" if holds.from_program else "",
        )
        yield f"| `{type_}` | {holds.lost_data} | {'; '.join(filter(None, unless))} |"
    yield ""
