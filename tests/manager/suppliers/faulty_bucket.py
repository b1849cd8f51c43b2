"""The mailbox of a simulated world, with faults of its writes."""

from __future__ import annotations

import json

from gpu_ci.mailbox.objects import ObjectsError

from tests.manager.simulated_vendors import Faulty
from tests.manager.simulated_world import World
from tests.manager.suppliers.ec2.conftest import Memory


class FaultyBucket(Memory):
    """A bucket whose requests are lost sometimes, before or after they are carried out."""

    def __init__(self, world: World, objects: dict[str, bytes], faulty: Faulty) -> None:
        self.objects, self.written_at, self._world, self._faulty = objects, world.written_at, world, faulty

    def unix(self) -> float:
        return self._world.now + self._world.skew_sec

    def drop(self, key: str, machine_id: str) -> None:
        """Called before the record of a machine is deleted."""
        raise NotImplementedError

    def _may_fail(self) -> None:
        if self._world.chance.random() < self._faulty.rate / 3:
            raise ObjectsError("the request was lost", is_temporary=True)

    def write(self, key: str, data: bytes, *, only_new: bool = False) -> bool:
        self._may_fail()
        is_written = super().write(key, data, only_new=only_new)
        self._may_fail()
        return is_written

    def delete(self, key: str) -> None:
        self._may_fail()
        if "/records/" in key and key in self.objects:
            self.drop(key, json.loads(self.objects[key])["id"])
        super().delete(key)
        self._may_fail()
