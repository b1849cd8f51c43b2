"""Brings the maximum of a node group to what was chosen, and never below the nodes it is to have now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from .eks_api import ApiError, EksApi

# An update of the sizes takes EKS seconds. Another update of the group, such as one to a new image, takes until its
# nodes are exchanged: an hour with several busy nodes.
DEADLINE_SEC = 3600
_ASK_EVERY_SEC = 2.0


class Clock(Protocol):
    """Waits, unless the deployment is cancelled."""

    def wait(self, seconds: float) -> bool:
        """Wait that long; True where the deployment was cancelled."""


class Cancelled(Exception):  # noqa: N818 - an answer of the user
    """The deployment was cancelled."""


def set_most(api: EksApi, clock: Clock, cluster: str, group: str, wanted: int, report: Callable[[str], None]) -> int:
    """The maximum that the group has in the end: as wanted, or the number of its nodes where that is more.

    The sizes are read right before each change, because an autoscaler changes one of them at any time. What EKS refuses
    for that reason, or because another update runs, is tried again.

    Raises:
        ApiError: EKS refuses it for another reason, or until the deadline.
        Cancelled: The deployment was cancelled.
    """
    waited, refused_for, changed = 0.0, None, False
    while True:
        sizes = api.sizes(cluster, group)
        most = max(wanted, sizes.desired)
        if sizes.most == most:
            return most
        if changed:
            waited = _wait(clock, waited, ApiError("", f"EKS still reports a maximum of {sizes.most}"))
        try:
            update = api.set_most(cluster, group, most)
            while api.update_status(cluster, group, update) != "Successful":
                waited = _wait(clock, waited, ApiError("", f"update {update} has not ended"))
            changed = True
        except ApiError as error:
            # The same sizes would be refused again.
            if not error.busy and not (error.outdated and sizes != refused_for):
                raise
            refused_for = sizes
            report(f"EKS does not change the maximum of {group} now, asking again: {error}")
            waited = _wait(clock, waited, error)


def _wait(clock: Clock, waited: float, reason: ApiError) -> float:
    if waited >= DEADLINE_SEC:
        raise ApiError(reason.code, f"{reason.message} (after {DEADLINE_SEC} s)")
    if clock.wait(_ASK_EVERY_SEC):
        raise Cancelled
    return waited + _ASK_EVERY_SEC
