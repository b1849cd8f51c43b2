"""The store of a manager in the cloud: one Cloud Storage object with the memory, the last view and a lease.

Only the process with the lease writes the object, and each of its writes renews the lease. A write replaces only the
generation that this process wrote last. A process whose lease was taken over can therefore no longer change the object.

Times of different clocks are never compared. Other processes compute the age of the lease from two times of Google's
clock. The holder measures with its own clock, from before its last write until an action.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import Any

from ..clock import uptime
from ..memory import Memory, from_json, to_json
from ..ports import Refused, Unavailable
from . import InUse
from .storage_api import Changed, StorageObject, StoredContent

LEASE_SEC = 60.0
"""Another process takes over the lease if the object has not been written for this time."""
RENEW_SEC = 10.0
CALL_SEC = 45.0
"""The longest time from the start of an action until its last request is sent. A request times out after 20 s
(compute/adapter.py), is repeated once after at most 2 s, and may take 20 s to connect.
"""
POLL_SEC = 5.0
# cloud.google.com/storage/quotas, "Maximum rate of writes to the same object name": one a second.
WRITE_SEC = 1.0


class BucketStore:
    """A store in one object. `holder` is a name of this process that no other process ever has.

    `epoch` is the number of the layout (shares.py). A memory of another epoch is ignored. The store then begins with
    `memory`, in the form of JSON.
    """

    def __init__(
        self,
        object_: StorageObject,
        holder: str,
        clock: Callable[[], float] = uptime,
        sleep: Callable[[float], None] = time.sleep,
        epoch: int = 0,
        memory: Any = None,
    ) -> None:
        self._initial_values = {"memory": memory, "view": None, "epoch": epoch}
        self._object = object_
        self._holder = holder
        self._clock = clock
        self._sleep = sleep
        self._lock = Lock()
        self._closed = Event()
        self._renewer: Thread | None = None
        self._generation = 0
        self._has_lease = False
        self._renewed_at = self._written_at = float("-inf")
        self._values: dict[str, Any] = {}
        self._written_values: dict[str, Any] = {}

    # -- the lease ----------------------------------------------------------------------------------------------------

    def renew_in_background(self) -> None:
        """Renew the lease from now on in a separate thread."""
        self._renewer = Thread(target=self._renew_until_closed, daemon=True)
        self._renewer.start()

    def take(self) -> str:
        """Take the lease if it is free, and return its current holder. Raises Unavailable or Refused."""
        with self._lock:
            # The write comes before the read, because without storage.objects.list Google answers 403 for a missing
            # object.
            values = self._initial_values
            if not self._write_generation(0, values):
                found = self._object.read()
                if found is None:
                    return "another process"
                (holder, lease_sec), values = parsed_share(found)
                if holder not in ("", self._holder) and found.age_sec < lease_sec:
                    return holder
                values = values if values["epoch"] == self._initial_values["epoch"] else self._initial_values
                if not self._write_generation(found.generation, values):
                    return "another process"
            self._values, self._has_lease = dict(values), True
        return self._holder

    def may_act(self) -> bool:
        """Return True if an action that begins now will have sent its last request before the lease ends."""
        return self._has_lease and self._clock() - self._renewed_at < LEASE_SEC - CALL_SEC

    def renew(self) -> None:
        """Write the object again if it was not written for a while. Raises Unavailable, Refused or InUse."""
        if self._clock() - self._renewed_at >= RENEW_SEC:
            self._write(dict(self._written_values))

    def close(self) -> None:
        """Release the lease, so that another process can take it at once."""
        self._closed.set()
        if self._renewer:
            self._renewer.join()
        with self._lock:
            if not self._has_lease:
                return
            self._has_lease = False
            self._pause()
            # One attempt is enough, because the lease ends by itself.
            with suppress(Unavailable, Refused, Changed):
                self._object.write(share_content(self._values, ""), self._generation)

    def _renew_until_closed(self) -> None:
        while not self._closed.wait(1.0):
            try:
                self.renew()
            except (Unavailable, Refused):
                continue
            except InUse:
                return  # may_act() is False from now on, and the next save raises it

    # -- the memory and the view --------------------------------------------------------------------------------------

    def load(self) -> Memory:
        """Return the memory of this process or of the previous one, or an empty one if it cannot be read."""
        content = self._values["memory"]
        try:
            return from_json(json.dumps(content).encode()) if content else Memory()
        except ValueError:
            return Memory()

    def save(self, memory: Memory) -> None:
        """Save the memory.

        Raises:
            Unavailable, Refused, InUse: The memory was not saved, so no action that depends on it may be carried out.
        """
        self._values["memory"] = json.loads(to_json(memory))
        if self._values != self._written_values or not self.may_act():
            self._write(dict(self._values))

    def publish(self, view: dict[str, Any]) -> None:
        """Save the view of the last pass. If Cloud Storage fails, the next pass writes it. Raises InUse."""
        self._values["view"] = view
        with suppress(Unavailable, Refused):
            self._write(dict(self._values))

    def published(self) -> dict[str, Any] | None:
        """Return the last view of any process, or None before the first one. Raises Unavailable or Refused."""
        found = self._object.read()
        view = parsed_share(found)[1]["view"] if found else None
        return None if view is None else dict(view)

    def _write(self, values: dict[str, Any]) -> None:
        with self._lock:
            if not self._has_lease:
                raise InUse(f"{self._object}: another manager has taken the lease over")
            if not self._write_generation(self._generation, values):
                # The answer to a write of this process was lost, or another process has the object.
                generation = self._own_generation()
                if generation is None or not self._write_generation(generation, values):
                    self._has_lease = False
                    raise InUse(f"{self._object}: another manager has taken the lease over")

    def _own_generation(self) -> int | None:
        found = self._object.read()
        return found.generation if found and parsed_share(found)[0][0] == self._holder else None

    def _write_generation(self, generation: int, values: dict[str, Any]) -> bool:
        """Write the object, which renews the lease. Return False if the object has another generation."""
        self._pause()
        begun = self._clock()
        try:
            self._generation = self._object.write(share_content(values, self._holder), generation)
        except Changed:
            return False
        except Unavailable:
            self._written_at = self._clock()  # Google may have written the object
            raise
        self._renewed_at, self._written_at, self._written_values = begun, self._clock(), values
        return True

    def _pause(self) -> None:
        """Wait until Google accepts the next write of the object (WRITE_SEC)."""
        self._sleep(max(0.0, self._written_at + WRITE_SEC - self._clock()))


def share_content(values: dict[str, Any], holder: str) -> bytes:
    """Return the content of the object: the lease, and the stored values."""
    return json.dumps({"lease": {"holder": holder, "seconds": LEASE_SEC}, **values}).encode()


def parsed_share(found: StoredContent) -> tuple[tuple[str, float], dict[str, Any]]:
    """Return the holder and seconds of the lease, and the stored values. All are empty if no manager wrote
    the object.
    """
    try:
        value = json.loads(found.content)
        lease = (str(value["lease"]["holder"]), float(value["lease"]["seconds"]))
        return lease, {"memory": value["memory"], "view": value["view"], "epoch": int(value.get("epoch", 0))}
    except (ValueError, KeyError, TypeError, AttributeError):
        return ("", LEASE_SEC), {"memory": None, "view": None, "epoch": 0}
