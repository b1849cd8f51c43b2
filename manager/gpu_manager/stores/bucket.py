"""The store of a manager in the cloud: one object of a bucket with the memory, the last view and a lease.

Only the process with the lease writes the object, and each of its writes renews the lease. A write replaces only the
version that this process wrote last. A process whose lease was taken over can therefore no longer change the object.

Times of different clocks are never compared. Other processes compute the age of the lease from two times of the
cloud's clock. The holder measures with its own clock, from before its last write until an action.

The version is the object's generation in Cloud Storage, and its ETag in S3, which is the MD5 of the content. So each
write has another content: otherwise, a write that renews a lease would not stop a process that has read it before.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from threading import Event, Lock, Thread
from typing import Any

from gpu_ci.machine_records import MachineRecord
from gpu_ci.mailbox.objects import Objects, Stored

from ..mailboxes.channel import converted_errors
from ..memory import Memory, from_json, to_json
from ..ports import InUse, Refused, Unavailable, uptime

LEASE_SEC = 60.0
"""Another process takes over the lease if the object has not been written for this time."""
RENEW_SEC = 10.0
CALL_SEC = 45.0
"""The longest time from the start of an action until its last request is sent. A request times out after 20 s
(suppliers/compute_engine/api.py), is repeated once after at most 2 s, and may take 20 s to connect.
"""
_POLL_SEC = 5.0
# cloud.google.com/storage/quotas, "Maximum rate of writes to the same object name": one a second.
_WRITE_SEC = 1.0


class BucketStore:
    """A store in one object. `holder` is a name of this process that no other process ever has."""

    def __init__(
        self,
        objects: Objects,
        key: str,
        holder: str,
        clock: Callable[[], float] = uptime,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._objects, self._key = objects, key
        self._holder = holder
        self._clock = clock
        self._sleep = sleep
        self._lock = Lock()
        self._closed = Event()
        self._renewer: Thread | None = None
        self._version = ""
        self._has_lease = False
        self._renewed_at = self._written_at = float("-inf")
        self._values: dict[str, Any] = {"memory": None, "view": None}
        self._written_values: dict[str, Any] = {}

    # -- the lease ----------------------------------------------------------------------------------------------------

    def hold(self, stopped: Event, waiting: Callable[[str], None]) -> bool:
        """Take the lease and renew it from now on. Return False if `stopped` is set first. Raises Refused.

        While another process has the lease, the method waits and reports that process.
        """
        while not stopped.is_set():
            try:
                if (holder := self.take()) == self._holder:
                    self._renewer = Thread(target=self._renew_until_closed, daemon=True)
                    self._renewer.start()
                    return True
                waiting(f"{holder} has the lease")
            except Unavailable as error:
                waiting(str(error))
            stopped.wait(_POLL_SEC)
        return False

    def take(self) -> str:
        """Take the lease if it is free, and return its current holder. Raises Unavailable or Refused."""
        with self._lock:
            try:
                found = self._read()
            except Refused:
                # Without the permission to list objects, both clouds answer 403 for a missing object.
                if not self._write_version("", dict(self._values)):
                    raise
            else:
                (holder, lease_sec), values = parsed(found) if found else (("", LEASE_SEC), dict(self._values))
                if found and holder not in ("", self._holder) and found.age_sec < lease_sec:
                    return holder
                if not self._write_version(found.version if found else "", values):
                    return "another process"
                self._values = dict(values)
            self._has_lease = True
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
            with suppress(Unavailable, Refused), converted_errors():
                self._objects.replace(self._key, _content(self._values, ""), self._version)

    def _renew_until_closed(self) -> None:
        while not self._closed.wait(1.0):
            try:
                self.renew()
            except (Unavailable, Refused):
                continue
            except InUse:
                return  # may_act() is False from now on, and the next save raises it

    # -- the memory and the view --------------------------------------------------------------------------------------

    def load(self, key: str = "memory") -> Memory:
        """Return the memory of this process or of the previous one, or an empty one if it cannot be read."""
        content = self._values.get(key)
        try:
            return from_json(json.dumps(content).encode()) if content else Memory()
        except ValueError:
            return Memory()

    def save(self, memory: Memory, key: str = "memory") -> None:
        """Save the memory.

        Raises:
            Unavailable, Refused, InUse: The memory was not saved, so no action that depends on it may be carried out.
        """
        self._values[key] = json.loads(to_json(memory))
        if self._values != self._written_values or not self.may_act():
            self._write(dict(self._values))

    def publish(self, view: dict[str, Any]) -> None:
        """Save the view of the last pass. If the cloud fails, the next pass writes it. Raises InUse."""
        self._values["view"] = view
        with suppress(Unavailable, Refused):
            self._write(dict(self._values))

    def published(self) -> dict[str, Any] | None:
        """Return the last view of any process, or None before the first one. Raises Unavailable or Refused."""
        found = self._read()
        view = parsed(found)[1]["view"] if found else None
        return None if view is None else dict(view)

    # -- the records --------------------------------------------------------------------------------------------------

    def add(self, records: Iterable[MachineRecord]) -> None:
        """Store records of machines, each once, in the object of the day on which the machine was gone.

        Raises Unavailable or Refused after the records of all other days are stored.
        """
        problems: list[Unavailable | Refused] = []
        for day, of_day in groupby(sorted(records, key=lambda each: each.gone), lambda each: each.gone.date()):
            try:
                lines, version = self._lines_of(day)
                known = {key for key, _, _ in lines}
                new = [each.line() for each in of_day if each.key not in known]
                content = "".join(f"{line}\n" for line in (*(line for _, _, line in lines), *new))
                with converted_errors():
                    if new and self._objects.replace(self._records_of(day), content.encode(), version) is None:
                        text = "cannot be read, or another manager has changed it"
                        raise Unavailable(f"{self._objects}/{self._records_of(day)}: {text}")
            except (Unavailable, Refused) as error:
                problems.append(error)
        if problems:
            raise problems[0]

    def records(self, since: datetime) -> Iterator[str]:
        """Yield the records of machines that are gone since then, each as a line of JSON.

        Raises Unavailable, or Refused for an object with other content.
        """
        day, last = since.date(), datetime.now(UTC).date()
        while day <= last:
            lines, _ = self._lines_of(day)
            yield from (line for _, gone, line in lines if gone >= since)
            day += timedelta(days=1)

    def _write(self, values: dict[str, Any]) -> None:
        with self._lock:
            if not self._has_lease:
                raise InUse(f"{self}: another manager has taken the lease over")
            if not self._write_version(self._version, values):
                # The answer to a write of this process was lost, or another process has the object.
                version = self._own_version()
                if version is None or not self._write_version(version, values):
                    self._has_lease = False
                    raise InUse(f"{self}: another manager has taken the lease over")

    def _own_version(self) -> str | None:
        found = self._read()
        return found.version if found and parsed(found)[0][0] == self._holder else None

    def _write_version(self, version: str, values: dict[str, Any]) -> bool:
        """Write the object, which renews the lease. Return False if the object has another version."""
        self._pause()
        begun = self._clock()
        try:
            with converted_errors():
                written = self._objects.replace(self._key, _content(values, self._holder), version)
        except Unavailable:
            self._written_at = self._clock()  # the cloud may have written the object
            raise
        if written is None:
            return False
        self._version = written
        self._renewed_at, self._written_at, self._written_values = begun, self._clock(), values
        return True

    def _pause(self) -> None:
        """Wait until Google accepts the next write of the object (_WRITE_SEC)."""
        self._sleep(max(0.0, self._written_at + _WRITE_SEC - self._clock()))

    def _read(self) -> Stored | None:
        with converted_errors():
            return self._objects.stored(self._key)

    def _records_of(self, day: date) -> str:
        """Return the key of the records of a day, in the folder of the object."""
        return f"{self._key.rpartition('/')[0]}/records/{day}.jsonl".lstrip("/")

    def _lines_of(self, day: date) -> tuple[list[tuple[str, datetime, str]], str]:
        """Return the key, the end and the line of each record of a day, and the version of their object.

        Raises:
            Unavailable: There is no answer.
            Refused: The object has other content.
        """
        key = self._records_of(day)
        try:
            with converted_errors():
                found = self._objects.stored(key)
        except Refused:
            # The answer about a missing object without the permission to list objects.
            found = None
        try:
            # splitlines would also split at U+2028 in the name of a job, which JSON does not escape.
            lines = found.content.decode().removesuffix("\n").split("\n") if found and found.content else []
            records = [(MachineRecord.model_validate_json(line), line) for line in lines]
        except ValueError:
            raise Refused(f"{self._objects}/{key}: has other content than records; move it away") from None
        return [(each.key, each.gone, line) for each, line in records], found.version if found else ""

    def __str__(self) -> str:
        return f"{self._objects}/{self._key}"


def _content(values: dict[str, Any], holder: str) -> bytes:
    """Return the content of the object: the lease, and the stored values. No two contents are equal."""
    lease = {"holder": holder, "seconds": LEASE_SEC, "write": secrets.token_hex(8)}
    return json.dumps({"lease": lease, **values}).encode()


def parsed(found: Stored) -> tuple[tuple[str, float], dict[str, Any]]:
    """Return the holder and seconds of the lease, and the stored values. All are empty if no manager wrote
    the object.
    """
    try:
        value = json.loads(found.content)
        lease = (str(value["lease"]["holder"]), float(value["lease"]["seconds"]))
        memories = {key: each for key, each in value.items() if key.startswith("memory")}
        return lease, {**memories, "memory": value["memory"], "view": value["view"]}
    except (ValueError, KeyError, TypeError, AttributeError):
        return ("", LEASE_SEC), {"memory": None, "view": None}
