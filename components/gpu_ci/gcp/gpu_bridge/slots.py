"""Limits the machines of a bridge: a step needs one of its `max` slots before it starts a machine.

A slot is an object in the bucket, `slots/0` and so on. A step creates the object if it does not exist, which Cloud
Storage allows one writer only (ifGenerationMatch). The step renews the object while it runs, and deletes it at its end.
A slot is free again if its object no longer changes, because its step was killed, and if no machine has its label.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from threading import Event

from ..gate.clock import Clock
from ..gate.compute_api import ApiError
from .failures import BridgeError
from .follow import BridgeApi
from .protocol import BRIDGE_LABEL, SLOT_LABEL
from .settings import Settings
from .storage import Storage

_RENEW_EVERY_SEC = 30.0
# Longer than all retries of one request, in which no renewal happens.
_STALE_SEC = 300.0
_POLL_SEC = 5.0
_PROGRESS_SEC = 30.0


class Slot:
    """The slot of a step. It is renewed by each wait of `clock`."""

    def __init__(self, storage: Storage, number: int, generation: int, content: bytes, clock: Clock) -> None:
        self.number = number
        self.clock = _Renewing(self, clock)
        self._storage, self._generation, self._content, self._clock = storage, generation, content, clock
        self._renewed_at = clock.now()

    def renew(self) -> None:
        """Renew the slot if the last renewal is old. An error is no problem: the next wait tries again."""
        if not self._generation or self._clock.now() - self._renewed_at < _RENEW_EVERY_SEC:
            return
        try:
            name = _name(self.number)
            renewed = self._storage.replace(name, self._content, self._generation)
            self._generation = renewed or _own_generation(self._storage, name, self._content)
            self._renewed_at = self._clock.now()
        except ApiError:
            return

    def release(self) -> None:
        """Give the slot back. After an error, it becomes free because it no longer changes."""
        if self._generation:
            try:
                self._storage.delete(_name(self.number), self._generation)
            except ApiError:
                return


class _Renewing:
    """A clock that renews a slot during each wait."""

    def __init__(self, slot: Slot, clock: Clock) -> None:
        self._slot, self._clock = slot, clock

    def now(self) -> float:
        return self._clock.now()

    def wait(self, event: Event, seconds: float) -> None:
        self._slot.renew()
        self._clock.wait(event, seconds)


class Slots:
    """The slots of one bridge, as one step sees them."""

    def __init__(
        self,
        api: BridgeApi,
        storage: Storage,
        settings: Settings,
        holder: str,
        log: Callable[[str], None],
        cancel: Event,
        clock: Clock,
    ) -> None:
        """Create the slots. `holder` is a text that no other step has."""
        self._api, self._storage, self._settings = api, storage, settings
        self._content = json.dumps({"holder": holder}).encode()
        self._log, self._cancel, self._clock = log, cancel, clock
        self._seen: dict[int, tuple[int, float]] = {}
        """The generation of each slot of another step, and since when it has not changed."""

    def acquire(self) -> Slot:
        """Return a slot without a machine. Raises BridgeError: no-slot or cancelled; ApiError.

        While Google does not answer, the step waits, as it does while other builds use all machines.
        """
        began = self._clock.now()
        reported = began - _PROGRESS_SEC
        while not self._cancel.is_set():
            unanswered: ApiError | None = None
            try:
                if slot := self._first_free():
                    return slot
            except ApiError as error:
                if not error.not_yet:
                    raise
                unanswered = error
            now = self._clock.now()
            if now - began >= self._settings.wait_sec:
                raise unanswered or BridgeError("no-slot", f"no machine was free within {self._settings.wait_sec} s")
            if now - reported >= _PROGRESS_SEC:
                reported = now
                why = unanswered or f"other builds use all {self._settings.max} machines of the bridge"
                self._log(f"waiting, because {why}: {now - began:.0f} s")
            self._clock.wait(self._cancel, _POLL_SEC)
        raise BridgeError("cancelled", "the step was waiting for a machine")

    def _first_free(self) -> Slot | None:
        """Return the first slot that is free and has no machine, if there is one."""
        for number in range(self._settings.max):
            if slot := self._take(number):
                has_no_machine = False
                try:
                    has_no_machine = str(number) not in self._slots_with_machine()
                finally:
                    if not has_no_machine:
                        slot.release()
                if has_no_machine:
                    return slot
        return None

    def _take(self, number: int) -> Slot | None:
        """Return the slot if its object does not exist, or no longer changes."""
        name = _name(number)
        entry = self._storage.find(name)
        if entry is None:
            self._seen.pop(number, None)
            generation = self._storage.create(name, self._content)
        else:
            generation, since = self._seen.get(number, (0, 0.0))
            if generation != entry.generation:
                self._seen[number] = (entry.generation, self._clock.now())
                return None
            if self._clock.now() - since < _STALE_SEC:
                return None
            generation = self._storage.replace(name, self._content, entry.generation)
        generation = generation or _own_generation(self._storage, name, self._content)
        return Slot(self._storage, number, generation, self._content, self._clock) if generation else None

    def _slots_with_machine(self) -> set[str]:
        settings = self._settings
        rows = self._api.instances_of_all_zones(settings.project, f"labels.{BRIDGE_LABEL}={settings.name}", ("labels",))
        return {str(row["labels"].get(SLOT_LABEL, "")) for row in rows}


def _own_generation(storage: Storage, name: str, content: bytes) -> int:
    """Return the generation of a slot that this step wrote with a request whose answer was lost, or 0."""
    entry = storage.find(name)
    if entry is None or entry.size != len(content):
        return 0
    sink = io.BytesIO()
    storage.read(name, entry.generation, sink)
    return entry.generation if sink.getvalue() == content else 0


def _name(number: int) -> str:
    return f"slots/{number}"
