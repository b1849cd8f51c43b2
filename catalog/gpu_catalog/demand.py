"""The demand of a pool: a number of machines in a region and a market. Cost and quota are computed from it."""

from __future__ import annotations

from dataclasses import dataclass

from .models import Machine, Market

WEEK_SEC = 7 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Demand:
    """The demand of one pool, with the fields that cost and quota need."""

    pool: str
    machine: Machine
    market: Market
    region: str
    max_machines: int
    machines_at_rest: int = 0
    stopped_machines: int = 0
    """The number of stopped machines, in addition to `max_machines`. Each has a boot disk, but uses no GPU."""
    machines_of_a_check: int = 0
    """The number of machines that run for minutes while a template is checked. They count against quotas."""
    boot_disk: str = ""
    """Google's disk type; empty if the pool does not choose a disk type."""
    boot_disk_gib: int = 0
    local_ssd_gib: float = 0
    """The size of the local disks added to one machine, without bundled disks."""
    others: tuple[Machine, ...] = ()
    """Other machine types of the pool. They have the same GPUs and are not larger."""
    max_run_sec: int | None = None
    """The time after which a machine is deleted; None without a limit."""

    @property
    def most_machines(self) -> int:
        """The largest number of machines at one time."""
        return self.max_machines + self.machines_of_a_check

    @property
    def is_short_lived(self) -> bool:
        """True if the machines may use preemptible quota, even without spot. Google allows this for up to 7 days."""
        return self.max_run_sec is not None and self.max_run_sec <= WEEK_SEC
