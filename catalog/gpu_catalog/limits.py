"""Quota limits as they are given: written by a person, or as Google and AWS answer when asked."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from . import data_files, queries
from .errors import closest
from .locations import closest_location

GLOBAL = "global"
"""Where the quotas of all regions together stand."""

_FAMILIES = "GPUS_PER_GPU_FAMILY"


@dataclass(frozen=True, slots=True)
class Limit:
    """How much there may be, and how much of it is used already, by whomever."""

    limit: float
    usage: float | None = None


@dataclass(frozen=True, slots=True)
class Mistake:
    """Something in what a person wrote that cannot be used."""

    path: tuple[str, ...]
    text: str
    got: str = ""
    expected: str = ""
    hint: str = ""


Limits = dict[tuple[str, str], Limit]
"""Limits by region (or `global`) and metric."""


def from_mapping(values: Any) -> tuple[Limits, list[Mistake]]:
    """Region -> metric -> limit, as in a stack file; what cannot be used is told, the rest is taken.

    The newer quotas have a level more: GPUS_PER_GPU_FAMILY: {NVIDIA_H100: 8}.
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
    """What Google or AWS answered, whichever it is. ValueError for anything else.

    Google: regions.get, regions.list and projects.get of the Compute API, quotaInfos.list of the Cloud Quotas API.
    AWS: list-service-quotas, whose answer does not name its region.
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
    raise ValueError("this is no answer about quotas: it has none of quotas, items, quotaInfos and Quotas")


def _location_of(answer: Mapping[str, Any], region: str = "") -> str:
    """What the quotas of an answer are of. Of a project's answer that was cut to its quotas, a metric of all regions
    tells; of a region's nothing does."""
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
    """A limit stands for the places it names; one with a region of its own comes before one for all the others."""
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
    """Where a person writes a limit."""
    name, _, family = metric.removesuffix("}").partition("{gpu_family=")
    return (region, name, family) if family else (region, name)


def metrics() -> tuple[str, ...]:
    """Every metric a machine of the catalog draws from."""
    return tuple(row["metric"] for row in data_files.rows("quotas"))


@cache
def row_of(metric: str) -> data_files.Json:
    return next(row for row in data_files.rows("quotas") if row["metric"] == metric)


def _metric(quota_id: str, gpu_family: str) -> str:
    rows = data_files.rows("quotas")
    return next((row["metric"] for row in rows if (row["quota_id"], row["gpu_family"]) == (quota_id, gpu_family)), "")


def _flat(metrics: Mapping[Any, Any]) -> Iterator[tuple[tuple[str, ...], str, Any]]:
    """Path, metric and limit; the families of one metric are metrics of their own."""
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
    return Mistake((str(location),), "is no region with a GPU", repr(location), f"a region, or {GLOBAL}", hint)


def _limit_problem(path: tuple[str, ...], location: str, metric: str, limit: Any) -> Mistake | None:
    if metric == _FAMILIES:
        hint = f"such as {_FAMILIES}: {{NVIDIA_H100: 8}}"
        return Mistake(path, "must be a map", _got(limit), "limits by GPU family", hint)
    if metric not in metrics():
        spellings = {each.lower(): each for each in metrics()}
        near = spellings.get(closest(metric, spellings), "")
        hint = f"did you mean {near}?" if near else "the metrics are those of Google's Compute API, or AWS quota codes"
        expected = "a metric of a quota that machines with GPUs draw from"
        return Mistake(path, "is no quota that a machine with a GPU draws from", repr(metric), expected, hint)
    everywhere = row_of(metric)["scope"] == GLOBAL
    if everywhere != (location == GLOBAL):
        better = f"put it under {GLOBAL}" if everywhere else "put it under the region it is for"
        text = "is a quota of all regions together" if everywhere else "is a quota of each region"
        expected = f"under {GLOBAL}" if everywhere else "under a region"
        return Mistake(path, text, f"under {location}", expected, better)
    expected = "the limit that was granted, 0 or more"
    if isinstance(limit, bool) or not isinstance(limit, int | float) or not limit >= 0:
        got = repr(limit) if isinstance(limit, str) else _got(limit)
        return Mistake(path, "must be a number", got, expected)
    if isinstance(limit, int) and limit > sys.float_info.max:  # no float holds it, and no answer of a cloud has one
        return Mistake(path, "is too large", "more than 1e+308", expected)
    return None


def _got(value: Any) -> str:
    if isinstance(value, Mapping):
        return "a map"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, str):  # it may be anything, a secret too
        return "text"
    return "nothing" if value is None else repr(value)
