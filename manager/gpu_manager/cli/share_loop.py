"""The loop of one share in this process: its control loop, its client of GitHub, and its measurements.

A share is a part of the pools (assignment.py). A process may run the loops of several shares.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ..assignment import ownership
from ..config import Config
from ..decision import standby
from ..github.app_token import App
from ..loop import Manager, PassResult
from ..metrics.log_lines import LogLines
from ..metrics.measure import Meter
from ..stores.shares import Share
from ..view import view
from .log import Log

if TYPE_CHECKING:
    from ..metrics.prometheus import Prometheus

# A GitHub rate limit may last an hour. Preemptions must be read meanwhile, because Google lists each for an hour.
_LONGEST_PAUSE_SEC = 60.0


class ShareLoop:
    """Runs the passes of one share. `due` is the time of the next pass."""

    def __init__(
        self,
        share: Share,
        config: Config,
        app: App,
        url: str,
        log: Log,
        *,
        prometheus: Prometheus | None,
        measured: bool,
    ) -> None:
        """Create the loop. Raises Refused if a token may not be sent to `url`."""
        from ..compute.adapter import ComputeAdapter
        from ..github.adapter import GithubAdapter

        pools = [pool.plain() for pool in config.pools]
        self.index = share.index
        self.own = [pool for pool in pools if pool.name in share.pools]
        self.store = share.store
        self.idle = self._limited = False
        """True for `idle` if the last pass found nothing to do, and for `_limited` if GitHub limits requests."""
        self.hinted_sec = 0.0
        """Seconds from a hint to the pass that it starts."""
        self.due = time.monotonic()
        self._log, self._prometheus, self._measured = log, prometheus, measured
        self._github = GithubAdapter(
            url,
            app,
            config.github.owner,
            {pool.runner_group for pool in pools},
            config.github.repositories or (),
            own_groups=frozenset(pool.runner_group for pool in self.own),
            instances=config.instances,
        )
        statuses = config.github.commit_statuses
        compute = ComputeAdapter(config.name, owns=ownership(pools, share.pools))
        self._manager = Manager(pools, self._github, compute, share.store, own=share.pools, writes_statuses=statuses)
        self._meter = Meter(pools, share.pools)
        self._lines = LogLines(self._meter, share=share.index + 1)

    def step(self) -> PassResult:
        """Run one pass and write its log. Raises Unavailable or InUse."""
        result = self._manager.step()
        self.store.publish(view(self.own, result))
        self._log.report(result, self.index)
        samples = self._meter.take(result)
        if self._prometheus:
            self._prometheus.take(self.index, self._meter, result, samples)
        for event, subject, fields in self._lines.of(result, samples) if self._measured else ():
            self._log.line(event, subject, "", **fields)
        self.idle = is_idle(result)
        return result

    def schedule_next(self, result: PassResult, interval_sec: float | None, hinted: bool) -> None:
        """Set the time of the next pass. `hinted` is True if GitHub announced a job in the last minute."""
        pause = pause_sec(result, interval_sec or self._github.interval_sec(hinted or not self.idle))
        limited = result.observation.github_limited_until is not None
        self.due, self.hinted_sec = time.monotonic() + pause, pause if limited else self._github.hinted_interval_sec()
        self._limited = limited

    def delay(self, pause_sec: float) -> None:
        """Delay the next pass after an error of the store."""
        self.idle, self.due = False, time.monotonic() + pause_sec

    def hint(self) -> None:
        """Start the next pass now, because GitHub announced a change, unless a rate limit is in force."""
        if not self._limited:
            self.due = time.monotonic()

    def close(self) -> None:
        """Give the share back."""
        self._github.close()
        self.store.close()
        if self._prometheus:
            self._prometheus.forget(self.index, [pool.name for pool in self.own])


def is_idle(result: PassResult) -> bool:
    """Return True if jobs, machines and runners are known, and none of them needs the manager.

    Machines on standby, and jobs that can get no machine, do not count.
    """
    observation, memory = result.observation, result.decision.memory
    complete = observation.jobs is not None and observation.machines is not None and observation.runners is not None
    waiting = result.decision.assigned or any(reason.waiting_helps for reason in result.decision.reasons.values())
    at_work = any(not standby.is_on_standby(machine, memory) for machine in observation.machines or ())
    return complete and not (waiting or at_work or memory.pending or memory.lost)


def pause_sec(result: PassResult, interval_sec: float) -> float:
    """Return the seconds until the next pass. During a rate limit of GitHub a pass each minute reads only
    from Google.
    """
    until = result.observation.github_limited_until
    return interval_sec if until is None else max(interval_sec, min(until - result.observation.now, _LONGEST_PAUSE_SEC))
