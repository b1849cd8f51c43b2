"""Merges the last views (view.py) of the managers of all shares into one view."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from ..ports import Refused
from .bucket import parsed_share
from .shares import layout_name, share_name, shares_in
from .storage_api import GoogleObject


def of_shares(first: GoogleObject) -> dict[str, Any] | None:
    """Return the views of all shares, or None before the first pass. Raises Unavailable or Refused."""
    views = []
    for index in range(shares_in(first.sibling(layout_name(first.name)))):
        if index == 0:
            found = first.read()
        else:
            with suppress(Refused):  # 403 for a share that no manager ever held
                found = first.sibling(share_name(first.name, index)).read()
        view = parsed_share(found)[1]["view"] if found else None
        views += [] if view is None else [dict(view)]
    return merged_view(views) if views else None


def merged_view(views: list[dict[str, Any]]) -> dict[str, Any]:
    """Merge several views. A value that one view does not know is unknown. The time is that of the oldest view."""
    limits = [view["githubLimitedUntil"] for view in views if view["githubLimitedUntil"] is not None]
    return {
        "at": min(view["at"] for view in views),
        "pools": _joined(views, "pools"),
        "machines": _joined(views, "machines"),
        "jobs": _once(_joined(views, "jobs")),
        "githubLimitedUntil": max(limits, default=None),
        "events": _joined(views, "events"),
    }


def _joined(views: list[dict[str, Any]], key: str) -> list[Any] | None:
    if any(view[key] is None for view in views):
        return None
    return [row for view in views for row in view[key]]


def _once(jobs: list[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
    """Return each job once, because several shares may report a job without a pool."""
    return None if jobs is None else list({(job["repository"], job["id"]): job for job in jobs}.values())
