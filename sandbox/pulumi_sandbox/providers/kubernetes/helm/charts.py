"""Look up the known Helm charts, and check the values of a release against them.

The checks of values have the messages of the charts: actions/actions-runner-controller@9bb16ae,
charts/gha-runner-scale-set/templates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.providers.sdk.shape_check import did_you_mean
from pulumi_sandbox.providers.values import Unknown

CONTROLLER, SCALE_SET, PLUGIN = "gha-runner-scale-set-controller", "gha-runner-scale-set", "nvidia-device-plugin"
KUEUE = "kueue"
# helm.sh/helm v3, pkg/chartutil/validate_name.go; templates/_helpers.tpl.
RELEASE_NAME_MOST, SCALE_SET_NAME_MOST = 53, 45
VALUE_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,), "integer": (int,), "boolean": (bool,), "list": (list,), "map": (dict,),
    "any": (str, int, float, bool, list, dict),
}  # fmt: skip


@dataclass(frozen=True)
class Chart:
    """A chart: its name, its version and its default values."""

    name: str
    version: str
    values: Mapping[str, Any]


@cache
def charts() -> dict[str, Chart]:
    text = files("pulumi_sandbox").joinpath("fixtures", "charts.yaml").read_text(encoding="utf-8")
    return {name: Chart(name, **fields) for name, fields in yaml.safe_load(text).items()}


def chart_of(inputs: Mapping[str, Any]) -> Chart | None:
    """Return the known chart with the last element of the given name.

    The name may be `oci://ghcr.io/.../gha-runner-scale-set`, with or without a digest, a folder, or a chart in a
    repository.
    """
    name = inputs.get("chart")
    return charts().get(name.partition("@")[0].rstrip("/").rpartition("/")[2]) if isinstance(name, str) else None


def version(chart: Chart, inputs: Mapping[str, Any]) -> str:
    """Return the version of a chart. Without one, Helm installs the newest; the sandbox takes the known version."""
    chosen = inputs.get("version")
    return chosen.removeprefix("v") if isinstance(chosen, str) and chosen else chart.version


def check(chart: Chart, inputs: Mapping[str, Any]) -> Iterable[Problem]:
    """Yield the values that the chart never reads, the values of a wrong type, and those that the chart refuses."""
    release, values = inputs.get("name"), inputs.get("values")
    if isinstance(release, str) and len(release) > RELEASE_NAME_MOST:
        yield Problem("name", f"invalid release name: the length must not be longer than {RELEASE_NAME_MOST}")
    if not isinstance(values, Mapping):
        return
    if version(chart, inputs) == chart.version:
        yield from _check(chart, "values", chart.values, values)
    name = values.get("runnerScaleSetName") or release
    if chart.name == SCALE_SET and isinstance(name, str) and len(name) > SCALE_SET_NAME_MOST:
        path = "values.runnerScaleSetName" if values.get("runnerScaleSetName") else "name"
        yield Problem(path, f"Name must have up to {SCALE_SET_NAME_MOST} characters")


def _check(chart: Chart, path: str, forms: Mapping[str, Any], values: Mapping[str, Any]) -> Iterator[Problem]:
    for name, value in values.items():
        value_path, form = f"{path}.{name}", forms.get(name)
        if form is None:
            similar = did_you_mean(name, forms)
            yield Problem(
                value_path,
                f"the chart {chart.name} {chart.version} does not read this value",
                f"did you mean '{similar}'?" if similar else f"the chart reads {', '.join(forms)}",
            )
        elif value is None or isinstance(value, Unknown):
            continue
        elif isinstance(form, Mapping) and isinstance(value, Mapping):
            yield from _check(chart, value_path, form, value)
        elif isinstance(form, Mapping) or not any(_has_type(value, one) for one in form.split("|")):
            # The message has no value: it may be a token that is not marked as secret.
            expected = "map" if isinstance(form, Mapping) else form.replace("|", " or ")
            text = f"wrong type for the chart {chart.name} {chart.version}\n  expected: {expected}"
            yield Problem(value_path, text)


def _has_type(value: Any, form: str) -> bool:
    if isinstance(value, bool):
        return form in ("boolean", "any")
    if form == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, VALUE_TYPES[form])
