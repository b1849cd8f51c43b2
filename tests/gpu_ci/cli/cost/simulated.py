"""Machines of four simulated weeks: the truth, from which records and a bill are written independently."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from gpu_catalog import price, region_of
from gpu_ci.machine_records import GpuUse, JobOfMachine, MachineRecord

BEGIN, DAYS = datetime(2026, 10, 5, tzinfo=UTC), 28
REPOSITORIES = ("kernels", "detector", "asr", "tts")
MACHINE_TYPE = "g2-standard-8"
_PLACES = (("us-central1-a", "spot"), ("us-west1-a", "spot"), ("us-central1-b", "standard"))


@dataclass(frozen=True)
class Machine:
    """A machine. Times are seconds since BEGIN."""

    name: str
    id: int
    zone: str
    market: str
    on: tuple[tuple[float, float], ...]
    gone: float
    repository: str = ""
    """The repository of its job; empty if it ran none."""
    job: tuple[float, float, float] = (0, 0, 0)
    """When the job was created, when it started, and when it ended."""
    preempted: bool = False

    @property
    def usd_per_hour(self) -> float:
        found = price(MACHINE_TYPE, region_of(self.zone), self.market)
        assert found
        return found.usd_per_hour


def machines(count: int = 400, seed: int = 1) -> list[Machine]:
    """Return machines with jobs, machines without one, and machines that waited on standby."""
    noise, found = random.Random(seed), []
    for number in range(count):
        begin = noise.uniform(0, (DAYS - 1) * 86400)
        zone, market = noise.choice(_PLACES)
        boot, length, wait = noise.uniform(40, 120), noise.lognormvariate(6.5, 1), noise.uniform(30, 400)
        identity = f"l4-{number:06x}", noise.randrange(10**18, 9 * 10**18), zone, market
        if number % 10 == 0:  # no job came, sometimes in less than the minute that is billed at least
            end = begin + noise.choice((20, 900))
            found.append(Machine(*identity, ((begin, end),), end + 5))
            continue
        first = ((begin, begin + boot),) if number % 5 == 0 else ()  # it was on standby before
        start = begin + (noise.uniform(3600, 20000) if first else 0) + boot
        end = start + length + (0 if (preempted := number % 13 == 0) else 10)
        job = (start - boot - wait, start, start + length)
        on = (*first, (start - boot, end))
        found.append(Machine(*identity, on, end + 5, noise.choice(REPOSITORIES), job, preempted))
    # Two machines with one name in one hour.
    day = 5 * 86400 + 10 * 3600
    for at, (begin, end) in enumerate(((300, 1200), (2400, 7200))):
        job = (day + begin - 60, day + begin + 60, day + end - 10)
        place = 10**18 + at, "us-central1-a", "spot"
        found.append(Machine("l4-again", *place, ((day + begin, day + end),), day + end, REPOSITORIES[at], job))
    return found


def records(world: list[Machine]) -> Iterator[MachineRecord]:
    """Yield the records that a runner manager would write."""
    for number, machine in enumerate(world):
        job = machine.repository and JobOfMachine(
            repository=f"acme/{machine.repository}", run=number, attempt=1, id=number, workflow="CI", name="test",
            created=_time(machine.job[0]), started=_time(machine.job[1]), completed=_time(machine.job[2]),
        )  # fmt: skip
        yield MachineRecord(
            manager="prod", pool="l4", machine=machine.name, id=str(machine.id), zone=machine.zone,
            machine_type=MACHINE_TYPE, market=machine.market, gpu="nvidia-l4", usd_per_hour=machine.usd_per_hour,
            requested=_time(machine.on[0][0]), on=[(_time(begin), _time(end)) for begin, end in machine.on],
            gone=_time(machine.gone), taken_back=machine.preempted,
            gpu_use=GpuUse(util_avg=0.4) if job and number % 2 else None, job=job or None,
        )  # fmt: skip


def _time(sec: float) -> datetime:
    return BEGIN + timedelta(seconds=sec)
