"""The reaper: deletes the machines that should have ended long ago, when no manager does it.

It has no memory and no lease, so it may run at any time and as often as wanted, also next to a live manager. It deletes
only what the agent of the machine, the supplier and a live manager have all failed to end before:

- a machine that is on for longer than its pool's max_run_duration_sec, also with a job;
- a machine without a runner at GitHub after the time of a boot. Its agent switches it off after this time, and no
  manager registers a runner for it any more;
- a machine whose runner is idle after the time of a boot and of the wait for a job. A runner has one job. The runner is
  unregistered first, which GitHub refuses if it has just got a job;
- a machine that is off for as long as a boot may take, except the pool's number of machines on standby.

Each time counts from when the supplier last switched the machine on or off. To it comes _GRACE_SEC, which is more than
the manager's own tolerance. A machine whose supplier names no such time stays. Without GitHub's answer, only the first
and the last rule apply, because any machine may then have a job. Machines with the manager's label that somebody else
has created are deleted by the same rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from .decision.machines import SHUTTING_DOWN
from .decision.names import machine_of
from .model import Machine, Pool, Runner
from .ports import Refused, Supplier, Unavailable

_GRACE_SEC = 300.0
_LONGEST_SEC = 604800
"""The limit of a machine whose pool was removed: the longest of Pool.max_run_duration_sec."""


class Runners(Protocol):
    """The runners of an organization. The methods raise Unavailable or Refused."""

    def runners(self) -> tuple[Runner, ...]:
        """Return the runners of all groups."""

    def unix(self) -> float:
        """Return seconds since 1970 by GitHub's clock."""

    def remove_runner(self, runner: Runner) -> bool:
        """Unregister a runner. Return False if it runs a job."""


class Overdue(NamedTuple):
    """A machine that should have ended."""

    machine: Machine
    reason: str
    runner: Runner | None = None
    """Its runner, to unregister first."""


@dataclass
class Report:
    """The result of a run."""

    found: list[tuple[str, Overdue, str]] = field(default_factory=list)
    """Each overdue machine with the name of its supplier, and `listed`, `deleted`, `busy` or why it is left."""
    problems: list[str] = field(default_factory=list)
    """Why the machines of a supplier, or GitHub's runners, could not be read."""

    @property
    def left(self) -> list[str]:
        """The machines that could not be deleted."""
        return [each.machine.name for _, each, result in self.found if result not in ("listed", "deleted", "busy")]


def reap(
    suppliers: Mapping[str, tuple[Callable[[], Supplier], Sequence[Pool]]],
    github: Runners | None,
    unix: Callable[[], float],
    *,
    deletes: bool,
    older_than_sec: float | None = None,
) -> Report:
    """Find the overdue machines of all suppliers, and delete them.

    Args:
        suppliers: By name, what connects to the supplier, and its pools.
        github: None if GitHub is not asked.
        unix: The clock that counts without GitHub's answer.
        deletes: False to list only.
        older_than_sec: Counts for machines without a busy runner instead of the times of their pool.
    """
    report = Report()
    connected: dict[str, tuple[Supplier, tuple[Machine, ...]]] = {}
    try:
        for name, (connect, pools) in suppliers.items():
            try:
                supplier = connect()
                connected[name] = supplier, ()
                connected[name] = supplier, supplier.list(pools)
            except (Unavailable, Refused) as error:
                report.problems.append(f"{name}: {error}")
        # GitHub is read last: a job that it assigns meanwhile is seen.
        runners, now = None, unix()
        try:
            if github:
                runners, now = github.runners(), github.unix()
        except (Unavailable, Refused) as error:
            report.problems.append(f"GitHub: {error}")
        for name, (supplier, machines) in connected.items():
            for each in overdue(suppliers[name][1], machines, runners, now, older_than_sec):
                result = _delete(each, supplier, github) if deletes else "listed"
                report.found.append((name, each, result))
    finally:
        for supplier, _ in connected.values():
            supplier.close()
    return report


def _delete(each: Overdue, supplier: Supplier, github: Runners | None) -> str:
    try:
        if each.runner and github and not github.remove_runner(each.runner):
            return "busy"
        supplier.delete(each.machine)
    except (Unavailable, Refused) as error:
        return str(error)
    return "deleted"


def overdue(
    pools: Sequence[Pool],
    machines: Sequence[Machine],
    runners: Sequence[Runner] | None,
    now: float,
    older_than_sec: float | None = None,
) -> Iterator[Overdue]:
    """Yield the overdue machines of one supplier. `runners` is None if they are unknown."""
    by_name = {pool.name: pool for pool in pools}
    standby = {pool.name: pool.kept for pool in pools}
    for machine in sorted(machines, key=lambda each: each.name):
        pool, runner = by_name.get(machine.pool), _runner_of(machine, runners or ())
        boot_sec = max(each.ready_sec for each in ([pool] if pool else pools)) + _GRACE_SEC
        idle_sec = boot_sec + max(each.idle_sec for each in ([pool] if pool else pools))
        limit_sec = pool.max_run_duration_sec if pool else _LONGEST_SEC
        if older_than_sec is not None:
            boot_sec = idle_sec = older_than_sec
        since = machine.off_unix if machine.off and machine.off_unix else machine.on_unix
        age = now - since
        if not since or machine.waits_for_capacity or machine.status in SHUTTING_DOWN:
            continue
        if machine.off:
            if machine.template and machine.unregistered and standby.get(machine.pool):
                standby[machine.pool] -= 1
            elif age > (boot_sec if machine.off_unix else limit_sec + _GRACE_SEC):
                yield Overdue(machine, "it is off")
        elif age > limit_sec + _GRACE_SEC:
            yield Overdue(machine, f"on for more than {limit_sec} s", runner if runner and not runner.busy else None)
        elif runners is None or (runner and runner.busy):
            continue
        elif runner is None and age > boot_sec:
            yield Overdue(machine, "GitHub has no runner of it")
        elif runner and age > idle_sec:
            yield Overdue(machine, "its runner is idle", runner)


def _runner_of(machine: Machine, runners: Sequence[Runner]) -> Runner | None:
    """Return the machine's runner; if it has several, the busy one.

    Another machine may have the same name: in another zone, or because somebody has copied the labels.
    """
    name = {machine.name: machine.id}
    own = [each for each in runners if machine_of(each.name, name) == machine.name]
    return max(own, key=lambda each: each.busy, default=None)
