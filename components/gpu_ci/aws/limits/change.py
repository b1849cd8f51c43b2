"""Changes the maximum size of a node group.

The new maximum is never below the desired size, which is the number of nodes that the autoscaler wants. EKS would
otherwise terminate running nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from .eks_api import ApiError, EksApi

# EKS updates sizes in seconds, but only when no other update of the group runs. The update to a new image replaces all
# nodes, and takes up to an hour with several busy nodes.
DEADLINE_SEC = 3600
_POLL_EVERY_SEC = 2.0


class Clock(Protocol):
    """A clock whose wait ends when the deployment is cancelled."""

    def wait(self, seconds: float) -> bool:
        """Wait for the given seconds. Return True if the deployment was cancelled."""


class Cancelled(Exception):  # noqa: N818 - the user cancelled, which is no error
    """The deployment was cancelled."""


def set_most(api: EksApi, clock: Clock, cluster: str, group: str, wanted: int, report: Callable[[str], None]) -> int:
    """Change the maximum to `wanted`, or to the desired size if that is higher. Return the new maximum.

    An autoscaler can change the sizes at any time, so they are read directly before each change. If EKS rejects a
    change because the sizes have changed or another update runs, the change is repeated.

    Raises:
        ApiError: EKS rejects the change for another reason, or still rejects it after DEADLINE_SEC.
        Cancelled: The deployment was cancelled.
    """
    waited_sec, rejected_sizes, changed = 0.0, None, False
    while True:
        sizes = api.sizes(cluster, group)
        most = max(wanted, sizes.desired)
        if sizes.most == most:
            return most
        if changed:
            waited_sec = _wait(clock, waited_sec, ApiError("", f"EKS still reports a maximum of {sizes.most}"))
        try:
            update = api.set_most(cluster, group, most)
            while api.update_status(cluster, group, update) != "Successful":
                waited_sec = _wait(clock, waited_sec, ApiError("", f"update {update} has not ended"))
            changed = True
        except ApiError as error:
            # If the sizes are the same as at the last rejection, EKS would reject the change again.
            if not error.busy and not (error.outdated and sizes != rejected_sizes):
                raise
            rejected_sizes = sizes
            report(f"EKS cannot change the maximum of {group} now, retrying: {error}")
            waited_sec = _wait(clock, waited_sec, error)


def _wait(clock: Clock, waited_sec: float, reason: ApiError) -> float:
    if waited_sec >= DEADLINE_SEC:
        raise ApiError(reason.code, f"{reason.message} (after {DEADLINE_SEC} s)")
    if clock.wait(_POLL_EVERY_SEC):
        raise Cancelled
    return waited_sec + _POLL_EVERY_SEC
