"""What a pool asks of a cloud: so many of a machine, in a region, bought in one way. Cost and quota are made of it."""

from __future__ import annotations

from dataclasses import dataclass

from .models import Machine, Market

WEEK_SEC = 7 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Demand:
    """One pool, in the words that cost and quota need."""

    pool: str
    machine: Machine
    market: Market
    region: str
    max_machines: int
    machines_at_rest: int = 0
    stopped_machines: int = 0
    """Stopped machines, in addition to the others. Each has a boot disk, and no GPU."""
    machines_of_a_check: int = 0
    """Started beside the others while a new template is checked: they count for quota, for minutes."""
    boot_disk: str = ""
    """Google's disk type; empty for one nobody has chosen here."""
    boot_disk_gib: int = 0
    local_ssd_gib: float = 0
    """Of the local disks added to one machine, besides those that come with it."""
    others: tuple[Machine, ...] = ()
    """What a machine of it may be instead, with the same GPUs and no larger."""
    max_run_sec: int | None = None
    """After this long a machine is deleted; None for no such limit."""

    @property
    def most_machines(self) -> int:
        """The most there can be at one moment."""
        return self.max_machines + self.machines_of_a_check

    @property
    def is_short_lived(self) -> bool:
        """Whether Google lets it draw on preemptible quota also where it is not bought as spot."""
        return self.max_run_sec is not None and self.max_run_sec <= WEEK_SEC
