"""The interfaces through which the control loop uses GitHub and the suppliers of machines, and its clock.

github/adapter.py and the folders of suppliers/ implement the interfaces.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol

from .copies import Copy
from .model import (
    Insert,
    InsertError,
    Job,
    JobKey,
    Machine,
    NewRunner,
    Offer,
    OperationState,
    Pool,
    RanJob,
    Report,
    Run,
    RunKey,
    Runner,
)


def uptime() -> float:
    """Return the seconds of a clock that cannot be set and also runs while the computer sleeps, as a lease does."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Unavailable(Exception):  # noqa: N818 - a state of the service
    """The service sent no usable answer. The same request may succeed in the next pass.

    The text names the request and contains no secret.
    """


class InsertRefused(Exception):  # noqa: N818 - an answer
    """A supplier refuses an insert or a start at once. `error` has the cause: no capacity, quota, or a refusal."""

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

    def cancel(self, job: JobKey) -> bool:
        """Cancel the run of a job. Return False, without a request, if the job is no longer queued.

        Raises Unavailable or Refused.
        """

    def check_run(self, report: Report) -> None:
        """Write a neutral check run on the commit of a job. Raises Unavailable or Refused."""

    def ran(self, run: RunKey) -> tuple[RanJob, ...]:
        """Return the jobs of all attempts of a run that a runner has started. A run that is gone has none.

        Raises Unavailable.
        """


class Started(NamedTuple):
    """A machine that was requested from a supplier."""

    operation: str
    """The supplier's name of the request while its result is unknown; empty if the machine exists already."""
    id: str
    """The supplier's id of the machine."""


@dataclass(frozen=True)
class Mailbox:
    """The state of a machine's channel before a registration is sent."""

    registered: bool
    """True if the channel already has a registration of a runner."""
    version: Any = field(default=None, repr=False)
    """What the channel needs to send the registration only if nothing has changed since."""


class Channel(Protocol):
    """How machines say what they do, and get the registration of their runner."""

    def listen(self, machines: Sequence[Machine]) -> tuple[Machine, ...]:
        """Return the machines with what they have said: the end of one that is off, and the key of one that waits for
        its registration.

        A key that cannot be read is empty; the next pass reads it again. Raises Unavailable or Refused.
        """

    def mailbox(self, machine: Machine) -> Mailbox:
        """Return the current state of the machine's channel.

        Raises:
            Unavailable: There is no answer, or another machine has the name now.
            Refused: The supplier refuses the request.
        """

    def send(self, machine: Machine, mailbox: Mailbox, registration: str) -> bool:
        """Send the encrypted registration. Return False if the channel has changed since `mailbox` was read.

        Raises Unavailable or Refused.
        """


class Supplier(ABC):
    """A vendor of machines. suppliers/__init__.py says how the manager finds it.

    A supplier lists and changes only the machines of its manager. No call takes longer than 20 seconds. A pass calls
    the methods one after the other, from one thread.
    """

    TITLE: ClassVar[str]
    """The name of the vendor's service in the log, such as Compute Engine."""
    POOL: ClassVar[type[Pool]] = Pool
    """The type of its pools, with the forms of this supplier's accounts, templates and zones."""
    channel: Channel
    NO_COPY: ClassVar[str] = "ends no machine after a time, so a forgotten one would cost money"
    """Why `start_copy` is refused, after the title; empty for a supplier that has it."""

    @abstractmethod
    def __init__(self, manager: str) -> None:
        """Create the supplier for the manager of this name. It sends no request yet."""

    @classmethod
    def of(cls, manager: str, pools: Sequence[Pool]) -> Supplier:  # noqa: ARG003 - for suppliers that need their pools
        """Return the supplier of a manager with these pools. It sends no request yet."""
        return cls(manager)

    @abstractmethod
    def start(self, pool: Pool, insert: Insert) -> Started:
        """Request a machine. A repeated request starts no second machine.

        Raises:
            Unavailable: The answer was lost. The same request may be repeated.
            InsertRefused: The supplier refuses the machine. The error may name places with capacity.
        """

    @abstractmethod
    def list(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
        """Return the machines of this manager in all places, also of pools that are not in `pools`.

        Their status is one of Compute Engine's, and any other word counts as a machine that is on. The list is never
        incomplete: an error raises Unavailable or Refused.
        """

    @abstractmethod
    def delete(self, machine: Machine) -> None:
        """Request a deletion. A machine that is gone is not an error. Raises Unavailable or Refused."""

    def boot(self, machines: Sequence[Machine]) -> None:  # noqa: B027 - most vendors boot their machines
        """Boot those of the machines of the last list that the vendor does not boot itself.

        Raises Unavailable or Refused.
        """

    def starting(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:  # noqa: ARG002 - for a list without delay
        """Return the machines whose request has not ended, and which `list` may not contain yet.

        Raises Unavailable or Refused.
        """
        return ()

    def owns(self, machine: Machine) -> bool:  # noqa: ARG002 - where nobody else can create one
        """Return True if this manager has requested a machine that `list` returned. Others may imitate its labels.

        Raises Unavailable or Refused.
        """
        return True

    def operation(self, pool: Pool, offer: Offer, operation: str) -> OperationState:  # noqa: ARG002 - ends at once
        """Return the state of a request. A request that the supplier no longer knows has ended without an error.

        Raises Unavailable.
        """
        return OperationState(done=True)

    def preempted(self, pools: Sequence[Pool]) -> frozenset[str]:  # noqa: ARG002 - without such notices
        """Return the machines that the supplier took back within the last hour.

        Each entry is the machine's name followed by its id, like the name of a runner. The id distinguishes it from a
        later machine of the same name. Raises Unavailable.
        """
        return frozenset()

    def stop(self, machine: Machine) -> None:  # noqa: ARG002 - for suppliers that stop machines
        """Request a stop. A machine that is off or gone is not an error.

        Raises:
            Unavailable: There is no answer.
            Refused: The supplier refuses the request or stops no machines, or the machine has a runner.
        """
        raise Refused(f"{self.TITLE} stops no machines")

    def start_again(self, machine: Machine, request_id: str) -> str:  # noqa: ARG002 - for suppliers that stop machines
        """Request the start of a stopped machine, and return the name of the operation.

        Raises:
            Unavailable: The answer was lost. The same request may be repeated.
            InsertRefused: The supplier refuses the start.
        """
        raise InsertRefused(InsertError("refused", f"{self.TITLE} stops no machines"))

    def software(self, pool: Pool, offer: Offer) -> Mapping[str, str]:  # noqa: ARG002 - for suppliers that know it
        """Return what the template has: `image`, `driver` and `torch`, as far as it is known.

        Raises Unavailable, Refused or InsertRefused.
        """
        return {}

    def start_copy(self, pool: Pool, insert: Insert, hours: int) -> Copy:  # noqa: ARG002 - for suppliers with limits
        """Request a machine without a runner, a label of the manager and an external address.

        The supplier deletes it after `hours`. Raises Unavailable, Refused or InsertRefused.
        """
        raise Refused(f"{self.TITLE} {self.NO_COPY}")

    def close(self) -> None:  # noqa: B027 - most have no connection
        """Close the connection."""
