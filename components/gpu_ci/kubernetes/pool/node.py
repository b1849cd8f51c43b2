"""The room that a node of a pool has for pods."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_catalog import Machine

from ..scale_set import storage
from ..scale_set.args import RunnerChoices


@dataclass(frozen=True)
class Node:
    """The smallest node of a pool, on which every runner must fit."""

    machine: Machine
    cpus: int
    """The CPUs that all pods of the node can use."""
    memory_gib: int
    """The memory that all pods of the node can use."""
    disk_gib: int | None
    """The size of the disk with the images and the files of pods. None if the fields of the pool are invalid."""
    free_disk_gib: int | None
    """The part of the disk that all pods of the node can use."""
    type_noun: str
    """The cloud's term for a machine type, for hints."""
    larger_disk: str = "a larger diskGib"
    """What gives pods more disk, for hints."""

    @property
    def devices(self) -> int:
        """The number of devices that the device plugin advertises. A fraction of a GPU counts as one device."""
        return int(max(self.machine.gpu_count, 1))

    def runners(self, runner: RunnerChoices) -> int:
        """Return the number of runners that fit on the node, at least one."""
        return max(1, min(self.runners_by_field(runner).values()))

    def runners_by_field(self, runner: RunnerChoices) -> dict[str, int]:
        """Return the number of runners that fit, by the field of a runner that requests the resource."""
        found = {
            "gpus": self.devices // runner.gpus,
            "cpus": self.cpus // runner.cpus,
            "memoryGib": self.memory_gib // runner.memory_gib,
        }
        if self.free_disk_gib is not None:
            requested_gib = storage.requested_disk_gib(runner.ephemeral_storage_gib, runner.scratch)
            found["ephemeralStorageGib"] = self.free_disk_gib // requested_gib
        return found
