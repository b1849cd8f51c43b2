"""Changes the maximum of a node group to the wanted number, but never below its desired number of nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from .eks_api import ApiError, EksApi

# EKS updates sizes in seconds. Another update, such as a new image, lasts until all nodes are replaced: up to an hour
# with several busy nodes.
DEADLINE_SEC = 3600
_ASK_EVERY_SEC = 2.0


class Clock(Protocol):
    """A clock whose wait ends when the deployment is cancelled."""

    def wait(self, seconds: float) -> bool:
        """Wait for the given seconds. Return True if the deployment was cancelled."""


class Cancelled(Exception):  # noqa: N818 - an answer of the user
    """The deployment was cancelled."""


def set_most(api: EksApi, clock: Clock, cluster: str, group: str, wanted: int, report: Callable[[str], None]) -> int:
    """Change the maximum, and return the resulting one: the wanted number, or the number of nodes if that is higher.

    The sizes are read directly before each change, because an autoscaler can change them at any time. If EKS rejects a
    change for that reason, or because another update runs, the change is retried.

    Raises:
        ApiError: EKS rejects the change for another reason, or until the deadline.
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
            # EKS would reject the same sizes again.
            if not error.busy and not (error.outdated and sizes != refused_for):
                raise
            refused_for = sizes
            report(f"EKS cannot change the maximum of {group} now, retrying: {error}")
            waited = _wait(clock, waited, error)


def _wait(clock: Clock, waited: float, reason: ApiError) -> float:
    if waited >= DEADLINE_SEC:
        raise ApiError(reason.code, f"{reason.message} (after {DEADLINE_SEC} s)")
    if clock.wait(_ASK_EVERY_SEC):
        raise Cancelled
    return waited + _ASK_EVERY_SEC
