"""Reads quota limits from a stack file or from an answer of an API of Google or AWS."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from . import data_files, queries
from .errors import closest
from .locations import closest_location

GLOBAL = "global"
"""The key for quotas of all regions together."""

_FAMILIES = "GPUS_PER_GPU_FAMILY"


@dataclass(frozen=True, slots=True)
class Limit:
    """The limit of a quota, and the current usage of the whole account."""

    limit: float
    usage: float | None = None


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake in the limits of a stack file."""

    path: tuple[str, ...]
    text: str
    got: str = ""
    expected: str = ""
    hint: str = ""


Limits = dict[tuple[str, str], Limit]
"""Limits by region (or `global`) and metric."""


def from_mapping(values: Any) -> tuple[Limits, list[Mistake]]:
    """Read limits from a map by region and metric, as in a stack file. Return the valid limits, and the mistakes.

    Newer quotas have one more level: GPUS_PER_GPU_FAMILY: {NVIDIA_H100: 8}.
    """
    found: Limits = {}
    mistakes: list[Mistake] = []
    if not isinstance(values, Mapping):
        return found, [Mistake((), "must be a map", _got(values), "limits by metric, for each region")]
    for location, metrics in values.items():
        if wrong := _location_problem(location):
            mistakes.append(wrong)
        elif not isinstance(metrics, Mapping):
            mistakes.append(Mistake((location,), "must be a map", _got(metrics), "limits by metric"))
        else:
            for path, metric, limit in _flat(metrics):
                if mistake := _limit_problem((location, *path), location, metric, limit):
                    mistakes.append(mistake)
                else:
                    found[location, metric] = Limit(float(limit))
    return found, mistakes


def from_answer(answer: Mapping[str, Any], region: str = "") -> Limits:
    """Read limits from an answer of an API. Raise ValueError if the answer is of none of these methods:

    - Google: regions.get, regions.list and projects.get of the Compute API, quotaInfos.list of the Cloud Quotas API.
    - AWS: list-service-quotas. Its answer does not contain the region, so `region` is required.
    """
    if "quotaInfos" in answer:
        return _from_cloud_quotas(answer["quotaInfos"])
    if "Quotas" in answer:
        if not region:
            raise ValueError("the answer of list-service-quotas does not name its region; give it")
        return {
            (region, row["QuotaCode"]): Limit(float(row["Value"])) for row in answer["Quotas"] if "QuotaCode" in row
        }
    if "quotas" in answer:
        return _from_compute(_location_of(answer, region), answer["quotas"])
    if "items" in answer:
        regions = [row for row in answer["items"] if "quotas" in row]
        return {key: limit for row in regions for key, limit in _from_compute(_location_of(row), row["quotas"]).items()}
    raise ValueError("the answer is not about quotas: it has no quotas, items, quotaInfos or Quotas")


def _location_of(answer: Mapping[str, Any], region: str = "") -> str:
    """Return the region of an answer's quotas, or GLOBAL for the answer of a project.

    The user may have reduced the answer to its quotas. The answer of a project is then recognized by its metrics. The
    answer of a region has lost the name of the region, which is an error without the argument `region`.
    """
    named = {row.get("metric") for row in answer["quotas"]}
    if answer.get("kind") == "compute#project" or named & {m for m in metrics() if row_of(m)["scope"] == GLOBAL}:
        return GLOBAL
    location = str(answer.get("name", region))
    if not location:
        raise ValueError(
            "the answer does not name its region; give it, or leave the name in: --format json(name,quotas)"
        )
    return location


def _from_compute(location: str, rows: list[Mapping[str, Any]]) -> Limits:
    return {(location, row["metric"]): Limit(float(row["limit"]), _usage(row)) for row in rows if "metric" in row}


def _usage(row: Mapping[str, Any]) -> float | None:
    return None if row.get("usage") is None else float(row["usage"])


def _from_cloud_quotas(infos: list[Mapping[str, Any]]) -> Limits:
    """Read limits from the Cloud Quotas API. A limit for one region overrides a limit for all regions."""
    named: Limits = {}
    elsewhere: Limits = {}
    for info in infos:
        for row in info.get("dimensionsInfos", ()):
            dimensions = row.get("dimensions", {})
            metric = _metric(info.get("quotaId", ""), dimensions.get("gpu_family", ""))
            value = row.get("details", {}).get("value")
            if not metric or value is None:
                continue
            limit = Limit(math.inf if int(value) < 0 else float(value))
            if "region" in dimensions:
                named[dimensions["region"], metric] = limit
            else:
                elsewhere |= {(location, metric): limit for location in row.get("applicableLocations", ())}
    return elsewhere | named


def path_of(region: str, metric: str) -> tuple[str, ...]:
    """Return the path of a limit in a stack file."""
    name, _, family = metric.removesuffix("}").partition("{gpu_family=")
    return (region, name, family) if family else (region, name)


def metrics() -> tuple[str, ...]:
    """Return every quota metric that a machine of the catalog uses."""
    return tuple(row["metric"] for row in data_files.rows("quotas"))


@cache
def row_of(metric: str) -> data_files.Json:
    return next(row for row in data_files.rows("quotas") if row["metric"] == metric)


def _metric(quota_id: str, gpu_family: str) -> str:
    rows = data_files.rows("quotas")
    return next((row["metric"] for row in rows if (row["quota_id"], row["gpu_family"]) == (quota_id, gpu_family)), "")


def _flat(metrics: Mapping[Any, Any]) -> Iterator[tuple[tuple[str, ...], str, Any]]:
    """Yield path, metric and limit. A quota with limits by GPU family yields one metric for each GPU family."""
    for metric, limit in metrics.items():
        if metric == _FAMILIES and isinstance(limit, Mapping):
            for family, each in limit.items():
                yield (metric, str(family)), f"{_FAMILIES}{{gpu_family={family}}}", each
        else:
            yield (str(metric),), str(metric), limit


def _location_problem(location: Any) -> Mistake | None:
    locations = (GLOBAL, *queries.regions())
    if location in locations:
        return None
    near = closest_location(str(location), locations)
    hint = f"did you mean {near}?" if near else f"such as us-central1, or {GLOBAL} for quotas of all regions together"
    return Mistake((str(location),), "is not a region with a GPU", repr(location), f"a region, or {GLOBAL}", hint)


def _limit_problem(path: tuple[str, ...], location: str, metric: str, limit: Any) -> Mistake | None:
    if metric == _FAMILIES:
        hint = f"such as {_FAMILIES}: {{NVIDIA_H100: 8}}"
        return Mistake(path, "must be a map", _got(limit), "limits by GPU family", hint)
    if metric not in metrics():
        spellings = {each.lower(): each for each in metrics()}
        near = spellings.get(closest(metric, spellings), "")
        hint = f"did you mean {near}?" if near else "the metrics are those of Google's Compute API, or AWS quota codes"
        expected = "a metric of a quota that machines with GPUs use"
        return Mistake(path, "is not a quota that a machine with a GPU uses", repr(metric), expected, hint)
    everywhere = row_of(metric)["scope"] == GLOBAL
    if everywhere != (location == GLOBAL):
        better = f"put it under {GLOBAL}" if everywhere else "put it under the region it is for"
        text = "is a quota of all regions together" if everywhere else "is a quota of each region"
        expected = f"under {GLOBAL}" if everywhere else "under a region"
        return Mistake(path, text, f"under {location}", expected, better)
    expected = "the limit that was granted, 0 or more"
    if isinstance(limit, bool) or not isinstance(limit, int | float) or not limit >= 0:
        got = repr(limit) if isinstance(limit, str) else _got(limit)
        return Mistake(path, "must be a number", got, expected, _number_hint(path[-1], metric, limit))
    if isinstance(limit, int) and limit > sys.float_info.max:  # too large for a float
        return Mistake(path, "is too large", "more than 1e+308", expected)
    return None


def _number_hint(key: str, metric: str, limit: Any) -> str:
    """Return a hint with the number of a text such as '4' or '500GB'. For another value, return an example."""
    is_size = metric.endswith("_GB")
    found = re.fullmatch(r"([0-9]+) *([A-Za-z]*)", limit) if isinstance(limit, str) else None
    if found and not found[2]:
        return f"write it without quotes: {key}: {found[1]}"
    if found and is_size and found[2].lower() in ("gb", "gib"):
        return f"write it without a unit: {key}: {found[1]}"
    return f"such as {key}: {500 if is_size else 4}"


def _got(value: Any) -> str:
    if isinstance(value, Mapping):
        return "a map"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, str):  # not shown, because it may be a secret
        return "text"
    return "nothing" if value is None else repr(value)
