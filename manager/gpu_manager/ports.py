"""What the control loop asks of GitHub and of Compute Engine, in the manager's own values."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from .model import CommitStatus, Insert, InsertError, Job, Machine, NewRunner, OperationState, Pool, Run, RunKey, Runner


class Unavailable(Exception):  # noqa: N818 - a state of the other side
    """There was no answer, or none that can be used. The same request may go better in the next pass.

    The text names what was asked and holds no secret.
    """


class InsertRefused(Exception):  # noqa: N818 - an answer
    """Google refuses an insert or a start at once; `error` says whether for lack of capacity, of quota, or for good."""

    def __init__(self, error: InsertError) -> None:
        super().__init__(error.message)
        self.error = error


class Refused(Exception):  # noqa: N818 - an answer
    """The other side refuses this request for good: a permission, a name, a policy."""


@dataclass(frozen=True)
class GithubView:
    """What one sweep saw; None where the sweep was not whole."""

    unix: float | None
    """Seconds since 1970 by GitHub's clock; None before its first answer."""
    jobs: tuple[Job, ...] | None
    runners: tuple[Runner, ...] | None
    runs: dict[RunKey, Run] = field(default_factory=dict)
    limited_sec: float | None = None
    """How long GitHub asks to wait, where it does."""
    requests_left: int | None = None
    """Of GitHub's limit of this hour, as far as an answer said."""
    problems: tuple[str, ...] = ()
    """One line for each request that failed, without secrets."""


class Github(Protocol):
    """The queue of jobs, and the runners that take them."""

    def observe(self, runs: Collection[RunKey]) -> GithubView:
        """Sweep the repositories: jobs, runners, and the state of these runs. Raises nothing."""

    def remove_runner(self, runner: Runner | NewRunner) -> bool:
        """Unregister it: True where it is gone, False where it runs a job. Unavailable or Refused otherwise."""

    def register(self, pool: Pool, name: str) -> NewRunner:
        """Register a runner of this name for one job. One of that name that has no job is unregistered before.

        Unavailable, also where the runner of that name has a job; or Refused.
        """

    def rerun(self, run: RunKey, job_id: int | None) -> None:
        """Run one job or, with None, all failed jobs of the run again. Unavailable or Refused."""

    def commit_status(self, status: CommitStatus) -> None:
        """Write a commit status. Unavailable or Refused."""


@dataclass(frozen=True)
class Metadata:
    """The metadata of a machine, for a change of it."""

    fingerprint: str
    items: Mapping[str, str] = field(repr=False)


class Compute(Protocol):
    """Machines."""

    def machines(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
        """Those of the manager of all pools in all zones; the end of each that is off. Unavailable or Refused."""

    def starting(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
        """Machines of the pools whose insert has not ended. They may be in no list yet. Unavailable or Refused."""

    def operation(self, pool: Pool, zone: str, operation: str) -> OperationState:
        """How far an insert has come. Unavailable; one that Google has forgotten is done without an error."""

    def preempted(self, pools: Sequence[Pool]) -> frozenset[str]:
        """Machines that Google took back within the last hour, in the zones of the pools. Unavailable.

        Each is its name with its id behind it, as a runner is named: the next machine of its name is another one.
        """

    def insert(self, pool: Pool, insert: Insert) -> str:
        """Ask for a machine; the name of the operation. A machine of that name is no error, and gives "".

        Unavailable where the answer was lost: the same insert may be repeated. InsertRefused where Google says no.
        """

    def metadata(self, machine: Machine) -> Metadata:
        """Its metadata as it is now. Unavailable, also where another machine has the name now; or Refused."""

    def set_metadata(self, machine: Machine, seen: Metadata, key: str, value: str) -> bool:
        """Add one value; False where the metadata has changed since it was seen. Unavailable or Refused."""

    def stop(self, machine: Machine) -> None:
        """Ask for its stop; one that is off or gone is no error. Unavailable; or Refused, as for one with a runner."""

    def start(self, machine: Machine, request_id: str) -> str:
        """Ask for the start of a stopped machine; the name of the operation.

        Unavailable where the answer was lost: the same start may be repeated. InsertRefused where Google says no.
        """

    def delete(self, project: str, zone: str, name: str) -> None:
        """Ask for its deletion; one that is gone is no error. Unavailable or Refused."""
