"""Computes the quotas that pools need, and compares them with the limits of an account.

A quota is a limit of the cloud on what an account may use at the same time, such as GPUs in a region. A metric is the
name of a quota. Google has separate quotas for standard and preemptible GPUs. Spot machines use the preemptible quota.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from . import data_files, queries
from .limits import GLOBAL, Limit, row_of
from .models import Cloud, Demand

Key = tuple[str, str]
"""Region or `global`, and metric."""

# The prefixes of regions in AWS partitions whose console has another address.
_OTHER_PARTITIONS = ("us-gov-", "cn-", "eusc-")

_UNITS = {"GPU": "GPUs", "vCPU": "vCPUs", "GB": "GB"}


@dataclass(frozen=True, slots=True)
class Need:
    """The amount of one quota that the pools need when every machine runs, including the machines of smoke checks."""

    cloud: Cloud
    region: str
    metric: str
    unit: Literal["GPU", "vCPU", "GB"]
    quota_id: str
    gpu_family: str
    amount: float
    pools: tuple[tuple[str, float], ...]
    """The amount of each pool."""
    alternatives: tuple[str, ...] = ()
    """The metrics that other sources name instead."""
    certain: bool = True
    """False if no vendor's source names the quota."""
    instead: str = ""
    """The metric of another quota that the same machines can use; empty if there is none.

    Spot machines use the standard quota if no preemptible quota was granted. Machines that are deleted within a week
    can use the preemptible quota.
    """
    movable: float = 0
    """The part of `amount` that the machines can take from the quota `instead`."""

    @property
    def name(self) -> str:
        """The metric. For AWS, the name of the quota follows, because the metric is a code such as L-DB2E81BA."""
        return f'{self.metric} "{row_of(self.metric)["name"]}"' if self.cloud == "aws" else self.metric

    @property
    def amount_text(self) -> str:
        shares = ", ".join(f"{pool} {amount:g}" for pool, amount in self.pools)
        return f"{self.amount:g} {_UNITS[self.unit]} or more ({shares})"

    def to_json(self) -> dict[str, Any]:
        return {
            "region": self.region,
            "metric": self.metric,
            "name": row_of(self.metric)["name"],
            "needed": self.amount,
            "unit": self.unit,
            "pools": dict(self.pools),
            "certain": self.certain and not self.alternatives,
        }


@dataclass(frozen=True, slots=True)
class Finding:
    """A quota that is too small, or has an unknown limit."""

    need: Need
    given: Limit | None
    """The limit; None if it is unknown."""
    certain: bool = True
    """False if the machines may use another quota. The finding is then a warning, not an error."""
    only_for_checks: bool = False
    """True if the limit suffices for all machines, but not for the machine of a check at the same time."""

    @property
    def is_short(self) -> bool:
        return self.given is not None

    @property
    def text(self) -> str:
        if not self.is_short:
            return "is unknown"
        if self.only_for_checks:
            return "is too small for the check of a template while all machines of the pools run"
        return f"{'is' if self.certain else 'may be'} less than the pools need"

    @property
    def got(self) -> str:
        if self.given is None:
            return ""
        used = "" if self.given.usage is None else f", {self.given.usage:g} of it in use now"
        return f"{self.given.limit:g}{used}"

    @property
    def expected(self) -> str:
        return self.need.amount_text

    def hint(self, project: str = "") -> str:
        """Return the place in the console to request more quota, and other quotas that the machines may use."""
        need = self.need
        other = ""
        if need.instead and self.given is not None and self.given.limit == 0 and need.metric.startswith("PREEMPTIBLE_"):
            other = (
                f"; without a granted limit, spot machines use {need.instead}: give the limit of {need.instead}, too"
            )
        if need.alternatives:
            other = f"; other sources name {', '.join(need.alternatives)} instead"
        link = console_link(need, project)
        return console_path(need) + (f": {link}" if link else "") + other

    def to_json(self) -> dict[str, Any]:
        return {
            **self.need.to_json(),
            "given": self.given.limit if self.given else None,
            "problem": self.text,
            "certain": self.certain,
            "console": console_link(self.need),
        }


def needs(demands: Iterable[Demand]) -> dict[Key, Need]:
    """Return the total amount that the pools need of each quota, sorted by region and metric."""
    found: dict[Key, Need] = {}
    for demand in demands:
        for each in _needs_of(demand):
            key = (each.region, each.metric)
            found[key] = _sum(found[key], each) if key in found else each
    return dict(sorted(found.items()))


def compare(needed: Mapping[Key, Need], given: Mapping[Key, Limit]) -> tuple[Finding, ...]:
    """Return a finding for each quota that is too small or unknown, in the order of the needs."""
    moved = _without_preemptible(needed, given)
    return tuple(finding for key, need in moved.items() if (finding := _finding(need, key, moved, given)) is not None)


def console_path(need: Need) -> str:
    """Return the path through the cloud's console to a quota."""
    if need.cloud == "aws":
        return f"Service Quotas > Amazon EC2 > {need.name}, in {need.region}"
    return google_path(need.quota_id, "" if need.region == GLOBAL else need.region, need.gpu_family)


def google_path(quota_id: str, region: str = "", gpu_family: str = "") -> str:
    """Return the path through Google's console to a quota, by its id."""
    where = f" of {region}" if region else ""
    family = f", gpu_family {gpu_family}" if gpu_family else ""
    return f"IAM & Admin > Quotas & System Limits, filter {quota_id}{where}{family}"


def console_link(need: Need, project: str = "") -> str:
    """Return the link to the console's page; empty for AWS partitions with other consoles."""
    if need.cloud == "aws" and need.region.startswith(_OTHER_PARTITIONS):
        return ""
    if need.cloud == "aws":
        return f"https://{need.region}.console.aws.amazon.com/servicequotas/home/services/ec2/quotas/{need.quota_id}"
    return google_link(project)


def google_link(project: str = "") -> str:
    """Return the link to Google's page of quotas."""
    return "https://console.cloud.google.com/iam-admin/quotas" + (f"?project={project}" if project else "")


def _needs_of(demand: Demand) -> Iterator[Need]:
    machine, count = demand.machine, demand.most_machines
    for quota in queries.quota_metrics(machine, demand.market):
        amount = quota.per_machine * count
        own = replace(_need(demand, quota.metric, amount), alternatives=quota.alternatives, certain=quota.certain)
        other = _instead(demand, quota.metric)
        yield replace(own, instead=other, movable=amount) if other else own
    if machine.cloud == "gcp":
        disks = (
            (demand.boot_disk, demand.boot_disk_gib * (count + demand.stopped_machines)),
            ("local-ssd", _local_gib(demand) * count),
        )
        for disk, gib in disks:
            for row in data_files.rows("disk_quotas"):
                if gib and row["disk"] == disk and demand.market in row["markets"]:
                    yield replace(_need(demand, row["metric"], gib), certain=row["certain"])


def _need(demand: Demand, metric: str, amount: float) -> Need:
    row = row_of(metric)
    return Need(
        cloud=row["cloud"],
        region=GLOBAL if row["scope"] == GLOBAL else demand.region,
        metric=metric,
        unit=row["unit"],
        quota_id=row["quota_id"],
        gpu_family=row["gpu_family"],
        amount=amount,
        pools=((demand.pool, amount),),
    )


def _local_gib(demand: Demand) -> float:
    """Return the size of a machine's local disks, bundled and added."""
    disks = demand.machine.local_disks
    return demand.local_ssd_gib + ((disks.size_gib or 0) if disks.mode == "bundled" else 0)


def _instead(demand: Demand, metric: str) -> str:
    """Return the metric of the other quota that the same GPUs can use; empty for GPUs with one quota.

    Sources: docs.cloud.google.com, "Create and use Spot VMs" and "Allocation quotas".
    """
    machine = demand.machine
    standard, spot = machine.quota.get("standard", ()), machine.quota.get("spot", ())
    if machine.cloud != "gcp" or not standard or not spot:
        return ""
    if demand.market == "spot" and metric == spot[0]:
        return standard[0]
    return spot[0] if demand.market == "standard" and metric == standard[0] and demand.is_short_lived else ""


def _sum(one: Need, other: Need) -> Need:
    return replace(
        one,
        amount=one.amount + other.amount,
        pools=(*one.pools, *other.pools),
        alternatives=tuple(dict.fromkeys((*one.alternatives, *other.alternatives))),
        certain=one.certain and other.certain,
        instead=one.instead or other.instead,
        movable=one.movable + other.movable,
    )


def _without_preemptible(needed: Mapping[Key, Need], given: Mapping[Key, Limit]) -> dict[Key, Need]:
    """Return the needs, with spot machines moved to the standard quota if no preemptible quota was granted."""
    found = dict(needed)
    for (region, metric), need in needed.items():
        limit, other = given.get((region, metric)), (region, need.instead)
        spot = metric.startswith("PREEMPTIBLE_") and bool(need.instead)
        if spot and limit is not None and limit.limit == 0 and other in given:
            row = row_of(need.instead)
            moved = replace(
                need, metric=need.instead, quota_id=row["quota_id"], gpu_family=row["gpu_family"], instead="", movable=0
            )
            found[other] = _sum(found[other], moved) if other in found else moved
            del found[region, metric]
    return found


def _finding(need: Need, key: Key, needed: Mapping[Key, Need], given: Mapping[Key, Limit]) -> Finding | None:
    """Return a finding if the quota of `key` is too small or unknown.

    If sources name several metrics for the quota, the largest given limit counts. If the limit of a standard quota is
    too small, the free part of the preemptible quota is added for machines that can use it.
    """
    region, _ = key
    limits = [given[region, metric] for metric in (need.metric, *need.alternatives) if (region, metric) in given]
    certain = need.certain and len(limits) == 1 + len(need.alternatives)
    if not limits:
        return Finding(need, None, certain)
    most = max(limits, key=lambda limit: limit.limit)
    short_by = need.amount - most.limit
    if short_by <= 0:
        return None
    if need.movable >= short_by and not need.metric.startswith("PREEMPTIBLE_"):
        other = (region, need.instead)
        used_there = needed[other].amount if other in needed else 0
        if other in given and given[other].limit - used_there >= short_by:
            return None
    return Finding(need, most, certain)
