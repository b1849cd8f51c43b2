"""One history of a manager in the simulated world: it may be killed, and keeps its memory as bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from gpu_ci.machine_records import MachineRecord
from gpu_manager.loop import Manager, PassResult
from gpu_manager.memory import Memory, from_json, to_json

from tests.manager.simulated_vendors import FakeCompute, FakeGithub, Faulty
from tests.manager.simulated_world import PASS_SEC, Killed, World


class FileStore:
    """A store with the memory as bytes, which remain after a kill."""

    def __init__(self, world: World) -> None:
        self.content, self.world = b"", world
        self.owners: dict[str, str] = {}
        """The slugs of the jobs that have machines which were started for another job or for none, by Google's id."""
        self.lines: dict[str, MachineRecord] = {}

    def load(self) -> Memory:
        return from_json(self.content) if self.content else Memory()

    def save(self, memory: Memory) -> None:
        self.content = to_json(memory)
        self.owners |= {each.id: each.started_for for each in memory.machines.values() if each.started_for}

    def add(self, records: Iterable[MachineRecord]) -> None:
        for each in records:
            assert self.lines.setdefault(each.key, each) == each or self.world.forgotten, "two records of one machine"

    def may_act(self) -> bool:
        return True


@dataclass
class History:
    """One history: a world, a manager that may be killed, and its passes."""

    world: World
    fault_rate: float = 0.0
    kill_rate: float = 0.0
    stockouts: float = 0.0
    vendor: Callable[[Any, Faulty, float], Any] = FakeCompute
    """The supplier, on the world's vendor."""
    passes: list[PassResult] = field(default_factory=list)
    kills: int = 0

    def __post_init__(self) -> None:
        self.store = FileStore(self.world)
        self.faulty = Faulty(self.world, self.fault_rate, self.kill_rate)
        self.start()

    def start(self) -> None:
        """Start a new manager on a computer with another clock time, and sometimes without its memory."""
        github = FakeGithub(self.world, self.faulty)
        compute = self.vendor(self.world, self.faulty, self.stockouts)
        if self.world.faults and self.world.chance.random() < self.world.forget_rate:
            self.store.content, self.world.forgotten = b"", self.world.now
        ahead_sec = self.world.chance.choice((0.0, 3600.0, -3600.0))
        self.manager = Manager(self.world.pools, github, compute, self.store, lambda: self.world.now + ahead_sec)

    def run(self, passes: int) -> None:
        """Run this number of passes, ten seconds apart."""
        for _ in range(passes):
            try:
                self.passes.append(self.manager.step())
                last = self.passes[-1]
                self.world.passes += [self.world.now] if last.complete else []
                self.world.lists += [self.world.now] if last.saved and last.observation.machines is not None else []
            except Killed:
                self.kills += 1
                self.start()
            self.world.advance(PASS_SEC)

    def calm_down(self) -> None:
        """Stop all faults."""
        self.world.faults = False
        self.faulty.rate = self.faulty.kill_rate = 0.0
        self.stockouts = 0.0
        self.start()
