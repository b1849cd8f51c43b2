"""Many gates at once: they share Compute Engine's rate of requests, and the quota of GPUs."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from threading import Condition, Event
from typing import Any

import pytest
from gpu_ci.gcp.gate.compute_api import ApiError, Operation, QuotaInfo
from gpu_ci.gcp.gate.runner import CheckSpec, GateRunner
from gpu_ci.gcp.gate.verdict import Verdict
from gpu_ci.gcp.gate.waiting import Pace

from tests.gpu_ci.gcp.gate.fake_api import EXHAUSTED, FakeGoogle

ZONE = "us-central1-a"
READS = ("template", "instances", "status", "serial", "guest_attribute", "done")
PASS = Verdict("pass", "1 x NVIDIA L4 computes", ZONE)


class SharedClock:
    """Time of several threads: it goes on when all of them wait, to the moment at which the first one wakes."""

    def __init__(self, threads: int) -> None:
        self.time = 0.0
        self._running = threads
        self._waiting: list[tuple[float, int]] = []
        self._order = count()
        self._change = Condition()

    def now(self) -> float:
        return self.time

    def wait(self, event: Event, seconds: float) -> None:
        with self._change:
            mine = (self.time + seconds, next(self._order))
            heapq.heappush(self._waiting, mine)
            self._stop_one()
            self._change.wait_for(lambda: mine not in self._waiting)

    def leave(self) -> None:
        """The thread has ended."""
        with self._change:
            self._stop_one()

    def _stop_one(self) -> None:
        self._running -= 1
        if not self._running and self._waiting:
            self.time, _ = heapq.heappop(self._waiting)
            self._running = 1
            self._change.notify_all()


@dataclass
class Quota:
    """Reads of one project and region. It refills at the start of each minute (docs.cloud.google.com/compute/
    api-quota), and answers with the text that clients were seen to get."""

    clock: SharedClock
    limit: int
    reads: Counter[int] = field(default_factory=Counter)
    refused: int = 0

    def read(self) -> None:
        minute = int(self.clock.time // 60)
        if self.reads[minute] >= self.limit:
            self.refused += 1
            text = (
                "Quota exceeded for quota metric 'Read requests' and limit 'Read requests per minute per region' of "
                "service 'compute.googleapis.com' for consumer 'project_number:1'."
            )
            raise ApiError("rateLimitExceeded", text, 403)
        self.reads[minute] += 1


class Limited:
    """A Google whose reads count."""

    def __init__(self, google: FakeGoogle, quota: Quota) -> None:
        self._google, self._quota = google, quota

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(self._google, name)

        def counted(*arguments: Any) -> Any:
            if name in READS:
                self._quota.read()
            return method(*arguments)

        return counted


class OneGpu:
    """A Google whose project may have one machine. It refuses another one in the operation, as Compute Engine does.

    The times of `deleted` are those of all gates. A deleted machine counts for `late_sec` more.
    """

    def __init__(
        self,
        google: FakeGoogle,
        gates: list[FakeGoogle],
        limit: int = 1,
        deleted: list[float] | None = None,
        late_sec: float = 0.0,
    ) -> None:
        self._google, self._gates, self._limit = google, gates, limit
        self._deleted, self._late_sec = [] if deleted is None else deleted, late_sec

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(self._google, name)
        return method

    def insert(self, *arguments: Any) -> Operation:
        late = sum(self._google.clock.now() - at < self._late_sec for at in self._deleted)
        if late + sum(len(each.machines) for each in self._gates) >= self._limit:
            return Operation("refused", target_id="2")
        return self._google.insert(*arguments)

    def delete(self, *arguments: Any) -> str:
        operation = self._google.delete(*arguments)
        self._deleted.append(self._google.clock.now())
        return operation

    def done(self, project: str, zone: str, operation: str) -> bool:
        if operation == "refused":
            quota = QuotaInfo("GPUS-ALL-REGIONS-per-project", limit=1.0)
            raise ApiError("QUOTA_EXCEEDED", "Quota 'GPUS_ALL_REGIONS' exceeded.", 403, quota=quota)
        return self._google.done(project, zone, operation)


def run(gates: int, limit: int, **google: Any) -> tuple[list[Verdict], Quota]:
    clock = SharedClock(gates)
    quota = Quota(clock, limit)
    return run_on(clock, gates, lambda google, _: Limited(google, quota), **google), quota


def run_on(
    clock: SharedClock,
    gates: int,
    api_of: Callable[[FakeGoogle, list[FakeGoogle]], Any],
    zones: Sequence[str] = (ZONE,),
    **google: Any,
) -> list[Verdict]:
    pace, cancel = Pace(), Event()
    machines = [FakeGoogle(clock, **google) for _ in range(gates)]  # type: ignore[arg-type]

    def ask(number: int) -> Verdict:
        template = f"projects/p/regions/us-central1/instanceTemplates/t-{number}"
        question = CheckSpec(f"gate-{number}", "p", template, zones, f"pool-{number}", deadline_sec=900)
        api = api_of(machines[number], machines)
        try:
            return GateRunner(api, lambda _: None, cancel, clock, lambda: f"{number:06x}", pace).run(question)
        finally:
            clock.leave()

    with ThreadPoolExecutor(gates) as pool:
        verdicts = list(pool.map(ask, range(gates)))
    assert [each.machines for each in machines] == [{}] * gates
    return verdicts


@pytest.mark.parametrize("gates", [1, 30, 64])
def test_as_many_gates_as_ask_at_once_stay_below_the_rate_of_a_project(gates: int) -> None:
    verdicts, quota = run(gates, 1_500, verdict_after=240.0)
    assert verdicts == [PASS] * gates
    assert quota.refused == 0
    assert max(quota.reads.values()) <= 1_150


def test_gates_back_off_together_where_others_have_used_up_the_rate() -> None:
    """Each request is refused now and then: lists, templates, operations and states. No check ends for that."""
    verdicts, quota = run(30, 150, verdict_after=240.0)
    assert verdicts == [PASS] * 30
    # Each gate asks every 15 seconds, and at most two of its questions at a time are refused.
    minutes = max(quota.reads) + 1
    assert 0 < quota.refused <= 2 * 30 * 4 * minutes


def test_a_quota_of_one_gpu_checks_one_pool_after_the_other() -> None:
    clock = SharedClock(3)
    assert run_on(clock, 3, OneGpu, verdict_after=240.0) == [PASS] * 3
    assert 3 * 240 <= clock.time <= 3 * 260


def test_a_quota_that_google_frees_late_does_not_end_the_check() -> None:
    clock, deleted = SharedClock(3), list[float]()
    verdicts = run_on(clock, 3, partial(OneGpu, deleted=deleted, late_sec=20.0), verdict_after=240.0)
    assert verdicts == [PASS] * 3
    assert len(deleted) == 3
    assert 3 * 240 + 2 * 20 <= clock.time <= 3 * 260 + 2 * 20


def test_a_quota_that_a_leftover_holds_does_not_end_the_check() -> None:
    clock, deleted = SharedClock(1), list[float]()
    api = partial(OneGpu, deleted=deleted, late_sec=20.0)
    assert run_on(clock, 1, api, verdict_after=240.0, leftovers={ZONE: ["l4-check-0a0a0a"]}) == [PASS]
    assert len(deleted) == 2


def test_a_quota_that_stays_used_up_ends_the_check_a_minute_after_the_last_deletion() -> None:
    clock = SharedClock(2)
    with pytest.raises(ApiError, match="GPUS_ALL_REGIONS"):
        run_on(clock, 2, partial(OneGpu, deleted=[], late_sec=3600.0), verdict_after=240.0)
    assert 240 + 60 <= clock.time <= 260 + 75


def test_a_machine_that_failed_frees_its_quota_too() -> None:
    verdicts = run_on(SharedClock(2), 2, OneGpu, verdict=None, stops_after=60.0)
    assert [each.outcome for each in verdicts] == ["fail"] * 2


@pytest.mark.parametrize("gates", [1, 3])
def test_a_quota_that_no_check_machine_holds_ends_the_check_at_once(gates: int) -> None:
    clock = SharedClock(gates)
    with pytest.raises(ApiError, match="GPUS_ALL_REGIONS"):
        run_on(clock, gates, lambda google, machines: OneGpu(google, machines, limit=0))
    assert clock.time <= 10


def test_a_stockout_frees_no_quota_so_a_refusal_in_the_next_zone_ends_the_check_at_once() -> None:
    class Stockout(OneGpu):
        def insert(self, project: str, zone: str, *arguments: Any) -> Operation:
            empty = zone == "us-central1-b"
            return Operation("empty", target_id="3") if empty else super().insert(project, zone, *arguments)

        def done(self, project: str, zone: str, operation: str) -> bool:
            if operation == "empty":
                raise ApiError(EXHAUSTED, "no capacity")
            return super().done(project, zone, operation)

    clock = SharedClock(1)
    with pytest.raises(ApiError, match="GPUS_ALL_REGIONS"):
        run_on(clock, 1, partial(Stockout, limit=0), zones=("us-central1-b", ZONE))
    assert clock.time <= 10


def test_a_rate_limit_that_does_not_end_ends_the_check_with_googles_sentence() -> None:
    with pytest.raises(ApiError, match="Quota exceeded for quota metric 'Read requests'"):
        run(1, 0)
