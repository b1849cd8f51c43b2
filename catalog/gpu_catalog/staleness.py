"""Finds outdated prices, images, AMI types and GitHub runners.

The current day is always an argument, so that results are reproducible.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal

from . import data_files, queries
from .errors import UnknownName
from .models import Price

PRICES_LAST_DAYS = 90
RUNNERS_LAST_DAYS = 30
"""GitHub's rule: a runner gets no jobs if an update is not installed within 30 days."""
_RUNNER_UNKNOWN_DAYS = 90
"""Without a known release in this time, a newer one is certain: GitHub releases a runner about every month."""
_WARN_BEFORE_DAYS = 10
_ENDS_SOON_DAYS = 90

_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Stale:
    """A warning about something that is outdated now or soon."""

    subject: str
    text: str
    hint: str
    state: Literal["outdated", "soon", "unknown"] = "outdated"
    """`soon`: outdated within days or weeks. `unknown`: newer facts than those of the catalog are needed."""
    source: str = ""
    """The key of the source in the catalog, or an empty text."""

    def __str__(self) -> str:
        return f"{self.subject} {self.text}; hint: {self.hint}"


def prices(priced: Mapping[str, Price | None], today: date) -> str:
    """Return a note about prices older than 90 days or without a date; empty if there are none.

    Unknown prices are skipped.
    """
    known = {name: price for name, price in priced.items() if price}
    old = [f"{name} ({price.date})" for name, price in known.items() if stale_days(price, today)]
    undated = [name for name, price in known.items() if price.date is None]
    parts = [f"older than {PRICES_LAST_DAYS} days: {', '.join(old)}"] if old else []
    parts += [f"without a date: {', '.join(undated)}"] if undated else []
    return f"prices {'; '.join(parts)}; compare them with the cloud's price list" if parts else ""


def stale_days(price: Price, today: date) -> int:
    """Return the age of a price in days if the price is older than 90 days, else 0. Return 0 for an undated price."""
    days = (today - _last_day(price.date)).days if price.date else 0
    return days if days > PRICES_LAST_DAYS else 0


def image(name: str, today: date) -> tuple[Stale, ...]:
    """Return warnings about components of a Google image whose support has ended or ends within 90 days.

    `name` is the name of an image or an image family, such as projects/<project>/global/images/<name>. The name of
    Google's images lists the components, such as ubuntu-2204 and nvidia-570. Images with other names get no warnings.
    """
    parts = name.split("/")
    project = parts[parts.index("projects") + 1] if "projects" in parts[:-1] else ""
    tags = set(parts[-1].split("-"))
    found: list[Stale] = []
    for row in data_files.rows("lifetimes"):
        if row["project"] in ("", project) and tags >= set(row["words"]):
            found += _ended(f"the image {parts[-1]}", row, today)
    return tuple(found)


def driver_branch(branch: int, today: date) -> tuple[Stale, ...]:
    """Return a warning about an NVIDIA driver branch whose support has ended or ends within 90 days.

    A branch whose end is not in the catalog gets a warning with the state `unknown`.
    """
    subject = f"the driver branch {branch}"
    for row in data_files.rows("lifetimes"):
        if row["words"] == ["nvidia", str(branch)]:
            return tuple(_ended(subject, row, today))
    return (Stale(subject, "has no known end of support", "see NVIDIA's list of supported drivers", "unknown"),)


def ami_type(name: str, today: date) -> tuple[Stale, ...]:
    """Return a warning about an EKS AMI type without new images."""
    known = {each.ami_type: each for each in queries.ami_types()}
    if name not in known:
        raise UnknownName(name, known)
    row = known[name]
    if not row.retired or date.fromisoformat(row.retired) > today:
        return ()
    better = [
        each.ami_type
        for each in known.values()
        if each.os == "al2023" and (each.architecture, each.nvidia) == (row.architecture, row.nvidia)
    ]
    hint = f"take {' or '.join(better)}" if better else "take an AL2023 type"
    text = f"has had no new image since {row.retired}"
    return (Stale(f"the AMI type {name}", text, hint, source="eksami"),)


def runner_floor(version: str) -> str:
    """Return an empty text if GitHub registers this runner version. Else return the oldest version that it registers.

    Raise ValueError for an invalid version.
    """
    floor = str(data_files.document("runners")["floor"]["version"])
    return floor if _parsed(version) < _parsed(floor) else ""


def runner_refused(version: str) -> str:
    """Return the day since which GitHub was seen to give this runner version no jobs, or an empty text."""
    rows = {_parsed(row["version"]): str(row["refused"]) for row in data_files.rows("runners")}
    return rows.get(_parsed(version), "")


def runner(version: str, today: date, released: Mapping[str, date] | None = None) -> tuple[Stale, ...]:
    """Return warnings about a version of the GitHub runner that gets no jobs, now or soon.

    `released` adds releases to those in the catalog. Raise ValueError for an invalid version.
    """
    own = _parsed(version)
    rows = {_parsed(row["version"]): row for row in data_files.rows("runners")}
    releases = {key: date.fromisoformat(row["released"]) for key, row in rows.items() if row["released"]}
    releases |= {_parsed(name): day for name, day in (released or {}).items()}
    subject, newest = f"the runner {_text(own)}", max(releases)
    floor = data_files.document("runners")["floor"]
    hint = f"take {_text(newest)}, or a newer release from github.com/actions/runner/releases"
    if own < _parsed(floor["version"]):
        when = "is too old" if today >= date.fromisoformat(floor["since"]) else f"is too old from {floor['since']} on"
        return (Stale(subject, f"{when}: GitHub registers {floor['version']} or later", hint, source=floor["source"]),)
    source = rows.get(own, {}).get("source", "")
    refused = rows.get(own, {}).get("refused", "")
    if refused and today >= date.fromisoformat(refused):
        return (Stale(subject, f"gets no jobs from GitHub since {refused}", hint, source=source),)
    newer = [(releases[key], key) for key in releases if key > own]
    if newer:
        day, key = min(newer)
        last = day + timedelta(RUNNERS_LAST_DAYS)
        source = rows.get(key, {}).get("source", "")
        rule = f"{_text(key)} was out on {day}, and an update is due within {RUNNERS_LAST_DAYS} days"
        if today > last:
            return (Stale(subject, f"may get no jobs since {last}: {rule}", hint, source=source),)
        if (last - today).days <= _WARN_BEFORE_DAYS:
            return (Stale(subject, f"may get no jobs after {last}: {rule}", hint, "soon", source),)
        return ()
    if (today - max(releases.values())).days > _RUNNER_UNKNOWN_DAYS:
        text = f"may be too old: no release after {max(releases.values())} is known here"
        return (Stale(subject, text, "compare with github.com/actions/runner/releases", "unknown"),)
    return ()


def _ended(subject: str, row: Mapping[str, str], today: date) -> Iterable[Stale]:
    """Yield a warning about a row of the lifetimes that ended or ends within 90 days."""
    what, ends, then = row["what"], row["ends"], row["then"]
    hint, source = f"take {row['instead']}", row["source"]
    days = (_last_day(ends) - today).days
    if days < 0:
        yield Stale(subject, f"is out of support: {what} ended in {ends}, {then}", hint, source=source)
    elif days <= _ENDS_SOON_DAYS:
        text = f"is out of support soon: {what} ends in {ends}, and then {then}"
        yield Stale(subject, text, hint, "soon", source)


def _last_day(text: str) -> date:
    """Return the last day of YYYY, YYYY-MM or YYYY-MM-DD."""
    year, month, day = ([int(part) for part in _DIGITS.findall(text)] + [0, 0])[:3]
    month = month or 12
    return date(year, month, day or calendar.monthrange(year, month)[1])


def _parsed(version: str) -> tuple[int, int, int]:
    found = _VERSION.fullmatch(version)
    if not found:
        raise ValueError(f"{version!r} is not a version of the runner, such as 2.337.0")
    return int(found[1]), int(found[2]), int(found[3])


def _text(version: tuple[int, int, int]) -> str:
    return ".".join(map(str, version))
