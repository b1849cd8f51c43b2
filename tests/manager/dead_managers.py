"""Managers that are killed for good at one of their requests, and the reaper that runs instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpu_manager.model import Runner
from gpu_manager.reaper import Report, reap

from tests.manager.histories import History
from tests.manager.simulated_vendors import FakeGithub, Faulty
from tests.manager.simulated_world import PASS_SEC, Killed, World

_PASSES = 25
_REAP_EVERY_SEC, _MOST_REAPS = 300, 40


class KilledAt(Faulty):
    """Calls of which one is the manager's last. Each call counts twice: the manager may end before or after it."""

    def __init__(self, world: World, last: int) -> None:
        super().__init__(world, 0.0, 0.0)
        self.last, self.count = last, 0

    def before(self) -> None:
        self.count += 1
        if self.count == self.last:
            raise Killed

    after = before


class Registry(FakeGithub):
    """The runners of the organization, as the reaper reads them."""

    def runners(self) -> tuple[Runner, ...]:
        self.faulty.before()
        found = self.world.registered.items()
        return tuple(Runner(number, name, online=False, busy=self.world.busy(name)) for number, name in found)

    def unix(self) -> float:
        return self.world.now + self.world.skew_sec


def killed_manager(world: World, vendor: Callable[..., Any], last: int) -> bool:
    """Run a manager until it is killed at its request of this number. Return False if it sent fewer requests."""
    made = History(world, vendor=vendor)
    made.faulty = KilledAt(world, last)
    made.start()
    try:
        for number in range(_PASSES):
            if number % 4 == 0:
                labels = (("gpu", "l4"), ("self-hosted", "gpu", "t4"), ("gpu", "h100"))[number // 4 % 3]
                world.queue(labels, (60, 5000)[number % 8 == 0])
            made.manager.step()
            world.advance(PASS_SEC)
    except Killed:
        return True
    return False


def reap_alone(world: World, vendor: Callable[..., Any], is_on: Callable[[], bool], fault_rate: float) -> None:
    """Run only the reaper, each time a new one, until nothing is on. No agent without a runner works any more."""
    world.faults = False
    for vm in world.vms.values():
        vm.hung, vm.silent = False, not vm.runner_id
    for _ in range(_MOST_REAPS):
        if not is_on():
            return
        world.advance(_REAP_EVERY_SEC)
        reaped(world, vendor, fault_rate)


def reaped(world: World, vendor: Callable[..., Any], fault_rate: float = 0.0) -> Report:
    faulty = Faulty(world, fault_rate, 0.0)
    supplier = vendor(world, faulty, 0.0)
    supplier.close = lambda: None
    suppliers = {"vendor": (lambda: supplier, world.pools)}
    return reap(suppliers, Registry(world, faulty), lambda: world.now + world.skew_sec, deletes=True)
