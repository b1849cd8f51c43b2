"""The interfaces through which the control loop uses GitHub and Compute Engine, and its clock.

github/adapter.py and compute/adapter.py implement the interfaces.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from .model import Insert, InsertError, Job, Machine, NewRunner, OperationState, Pool, Run, RunKey, Runner


def uptime() -> float:
    """Return the seconds of a clock that cannot be set and also runs while the computer sleeps, as a lease does."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Unavailable(Exception):  # noqa: N818 - a state of the service
    """The service sent no usable answer. The same request may succeed in the next pass.

    The text names the request and contains no secret.
    """


class InsertRefused(Exception):  # noqa: N818 - an answer
    """Google refuses an insert or a start at once. `error` has the cause: capacity, quota, or a permanent refusal."""

    def __init__(self, error: InsertError) -> None:
        super().__init__(error.message)
        self.error = error


class Refused(Exception):  # noqa: N818 - an answer
    """The service refuses this request permanently, because of a permission, a name or a policy."""


class InUse(Exception):  # noqa: N818 - a state of the store
    """Another manager has the store of the memory, or has taken it over from this one."""


@dataclass(frozen=True)
class GithubView:
    """The result of one sweep. A field has the value None if the sweep could not read all of it."""

    unix: float | None
    """Seconds since 1970 by GitHub's clock; None before GitHub's first answer."""
    jobs: tuple[Job, ...] | None
    runners: tuple[Runner, ...] | None
    runs: dict[RunKey, Run] = field(default_factory=dict)
    unread: frozenset[str] = frozenset()
    """The repositories that could not be read. `jobs` has their last jobs, if they are known and not too old."""
    limited_sec: float | None = None
    """The seconds that GitHub requests to wait; None without such a request."""
    requests_left: int | None = None
    """The requests that GitHub still allows in this hour, if an answer contained the number."""
    problems: tuple[str, ...] = ()
    """One line for each failed request, without secrets."""


class Github(Protocol):
    """GitHub: the queue of jobs, and the runners."""

    def observe(self, runs: Collection[RunKey]) -> GithubView:
        """Read the jobs of the repositories, the runners, and the state of these runs. Raises nothing."""

    def remove_runner(self, runner: Runner | NewRunner) -> bool:
        """Unregister a runner. Return True if it is gone, and False if it runs a job.

        Raises:
            Unavailable, Refused: The runner may still be registered.
        """

    def register(self, pool: Pool, name: str) -> NewRunner:
        """Register a runner of this name for one job. An existing runner of that name without a job is unregistered.

        Raises:
            Unavailable: There is no answer, or a runner of that name has a job.
            Refused: GitHub refuses the runner.
        """

    def rerun(self, run: RunKey, job_id: int | None) -> None:
        """Run one job again, or with None all failed jobs of the run. Raises Unavailable or Refused."""


@dataclass(frozen=True)
class Metadata:
    """The metadata of a machine, with the fingerprint that Google requires in a change of the metadata."""

    fingerprint: str
    items: Mapping[str, str] = field(repr=False)


class Requested(NamedTuple):
    """A machine that was requested."""

    operation: str
    """The name of the operation; empty if an earlier request created the machine."""
    id: str
    """Google's id of the machine."""


class Compute(Protocol):
    """Compute Engine: the manager's machines."""

    def machines(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
        """Return the machines with the manager's label in all zones. For one that is off, also read its end (End).

        Others can set the label, too (`inserted`). Raises Unavailable or Refused.
        """

    def starting(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
        """Return the machines of the pools whose insert has not ended. Lists of machines may not contain them yet.

        Raises Unavailable or Refused.
        """

    def inserted(self, machine: Machine) -> bool:
        """Return True if the manager's account has inserted this machine. Raises Unavailable or Refused."""

    def operation(self, pool: Pool, zone: str, operation: str) -> OperationState:
        """Return the state of an operation. An operation that Google no longer knows counts as done without an error.

        Raises Unavailable.
        """

    def preempted(self, pools: Sequence[Pool]) -> frozenset[str]:
        """Return the machines that Google preempted within the last hour in the zones of the pools.

        Each entry is the machine's name followed by its id, like the name of a runner. The id distinguishes it from a
        later machine of the same name. Raises Unavailable.
        """

    def insert(self, pool: Pool, insert: Insert) -> Requested:
        """Request a machine.

        Raises:
            Unavailable: The answer was lost. The same insert may be repeated.
            InsertRefused: Google refuses the machine.
        """

    def metadata(self, machine: Machine) -> Metadata:
        """Return the machine's current metadata.

        Raises:
            Unavailable: There is no answer, or another machine has the name now.
            Refused: Google refuses the request.
        """

    def set_metadata(self, machine: Machine, read: Metadata, key: str, value: str) -> bool:
        """Add one value to the metadata that was `read`. Return False if the metadata has changed since then.

        Raises Unavailable or Refused.
        """

    def stop(self, machine: Machine) -> None:
        """Request a stop. A machine that is off or gone is not an error.

        Raises:
            Unavailable: There is no answer.
            Refused: Google refuses the request, or the machine has a runner.
        """

    def start(self, machine: Machine, request_id: str) -> str:
        """Request the start of a stopped machine and return the name of the operation.

        Raises:
            Unavailable: The answer was lost. The same start may be repeated.
            InsertRefused: Google refuses the start.
        """

    def delete(self, project: str, zone: str, name: str) -> None:
        """Request a deletion. A machine that is gone is not an error. Raises Unavailable or Refused."""
